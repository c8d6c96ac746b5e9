import { address } from '../internal/address.js';
import { TallymeshError } from '../internal/errors.js';

/** How requests are made, and tried again. */
export interface RequestOptions {
  /** What `tallymesh invite` printed, for nodes that ask for tickets. What each method takes is told there. */
  readonly ticket?: string;
  /** A try that hears nothing for so long is given up, beside what the node was asked to wait. Default: 10000. */
  readonly timeoutMs?: number;
  /** How often a request is tried again. Default: 5. */
  readonly retries?: number;
  /** Wait before a request is tried again, in milliseconds; it doubles with each failure. Default: 250. */
  readonly retryMinMs?: number;
  /** Longest wait between tries, in milliseconds. Default: 15000. */
  readonly retryMaxMs?: number;
  /** The `fetch` to use in place of the global one. */
  readonly fetch?: typeof fetch;
}

/** Which nodes are asked, and how. */
export interface NodesOptions extends RequestOptions {
  /**
   * The addresses of nodes that are members of the space. The one that answered last is asked first, and the others
   * in turn if it does not answer. One with a path of its own stands for `/v1/spaces/SPACE`.
   */
  readonly urls: readonly (string | URL)[];
  /** The space. Default: `default`. */
  readonly space?: string;
}

/** What is asked of a node. */
export interface NodeRequest {
  /** Below the space. */
  readonly path: string;
  /** Default: `POST` of what has a body, and else `GET`. */
  readonly method?: 'PUT' | 'POST' | 'DELETE';
  /** Those that are `undefined` are left out. */
  readonly headers: Readonly<Record<string, string | number | undefined>>;
  /** What an answer has, if it is a node's. */
  readonly has?: string;
  /** Of a write: what is written, and its idempotency key. */
  readonly body?: string | undefined;
  readonly idempotencyKey?: string | undefined;
  /** Of a write without such a key: what to know of it where it is not known whether it was made. */
  readonly unsure?: string;
  /** A refusal that is an answer as well: its code. */
  readonly expected?: string;
  /** How often it is tried again, if not as often as the options say. */
  readonly retries?: number;
  /** The node that is asked first, if it is one of them, as `onAnswer` tells it. Default: the one that answered last. */
  readonly first?: string | undefined;
  /** How often a node is asked before the next one is. Default: 1. */
  readonly each?: number;
  /** Told of each try of a write of which nothing is known. */
  readonly onUnknown?: () => void;
  /** Told which node answered. */
  readonly onAnswer?: (node: string) => void;
  /** How long the node may take before it answers. */
  readonly waitMs: number;
  readonly signal: AbortSignal | undefined;
}

/** An error that a request came to, beside those of what cannot be asked. */
export class RequestError extends TallymeshError {
  /** @internal */
  static override readonly name: string = (this.prototype.name = 'RequestError');

  /**
   * What became of a write: `no`, nothing was changed; `here`, it counts, but the level that was asked for was not
   * reached; `unknown`, it may count, or count yet. `undefined` for what writes nothing.
   */
  declare readonly applied: 'no' | 'here' | 'unknown' | undefined;
  /** Of a write that has one: asked for again under this key, at whichever of the nodes, it counts once. */
  declare readonly idempotencyKey: string | undefined;
  /** The HTTP status, if there was an answer. */
  declare readonly status: number | undefined;

  /** @internal */
  constructor({ code, why, more: { cause, status } }: Failure, applied: Applied | undefined, { idempotencyKey, unsure }: NodeRequest) {
    const advice = idempotencyKey ? `the write may count: ask again with idempotencyKey ${JSON.stringify(idempotencyKey)}` : unsure;
    super(code, why + (applied === 'unknown' ? `; ${advice}` : ''), { cause });
    Object.assign(this, { applied, idempotencyKey, status });
  }
}

type Applied = 'no' | 'here' | 'unknown';

/** What a node says of a request that it refuses; numbers are those that the entry reads as such. */
export interface NodeRefusal {
  readonly code: string;
  readonly detail: string;
  readonly applied?: Applied;
  readonly op?: number;
  readonly held?: unknown;
  readonly asked?: unknown;
  readonly ends?: unknown;
}

/** A refusal that was asked for as an answer. */
export class Refused {
  constructor(
    readonly told: NodeRefusal,
    readonly applied: Applied | undefined,
    /** When the node says to try again; 0 if it does not. */
    readonly afterMs: number,
  ) {}
}

/** Why a try failed. */
export class Failure {
  constructor(
    readonly code: string,
    readonly why: string,
    /** Whether another try may do better. */
    readonly again: boolean,
    readonly more: {
      readonly cause?: unknown;
      readonly status?: number;
      readonly told?: NodeRefusal | undefined;
      /** What became of a write; it is not known if it does not say. */
      readonly applied?: Applied | undefined;
      /** How long the node asked to be let alone. */
      readonly afterMs?: number;
    } = {},
  ) {}
}

/** One event of a stream; what it lacks is empty. */
interface StreamEvent {
  readonly name: string;
  readonly data: string;
  readonly id: string;
}

/** The tries of one request. */
interface Tries {
  /** The node that is asked. */
  at: number;
  failures: number;
  /** Whether one of them may have been applied. */
  unknown: boolean;
}

/** The longest that is waited because a node asks for it. */
const RETRY_AFTER_MS_MAX = 60_000;
/** What a node, or what is before it, says when another try may do better. */
const AGAIN: readonly number[] = [429, 502, 503, 504];
/** What the node has waited for in vain, which is not waited for anew. */
const FINAL: readonly string[] = ['level_not_reached', 'undecided'];
/** A stream on which nothing comes for so long is dead: a node says something every 15 s. */
const SILENCE_MS_MAX = 45_000;

/** Requests to nodes of one space: to the one that answered last, and to the others in turn if it does not. */
export class Requests {
  readonly #urls: readonly string[];
  readonly #options: RequestOptions;
  readonly #read: (text: string) => unknown;
  readonly #Error: typeof RequestError;
  /** Which of them answered last. */
  #at = 0;

  /**
   * @param read - reads an answer.
   * @param Error - what is thrown.
   */
  constructor({ urls: given, space = 'default', ...options }: NodesOptions, read: (text: string) => unknown, Error = RequestError) {
    this.#options = options;
    this.#read = read;
    this.#Error = Error;
    this.#urls = given.map((it) => {
      const url = address(it, `/v1/spaces/${encodeURIComponent(space)}`);
      if (!url) throw new TallymeshError('url', `${JSON.stringify(it)} is no address of a node, such as http://127.0.0.1:4280`);
      return url.replace(/\/?(\?.*)?$/, '');
    });
    if (given.length < 1) throw new TallymeshError('url', 'there is no address of a node');
    if (!/^[\w.-]+$/.test(options.ticket ?? '-')) throw new TallymeshError('ticket', `${JSON.stringify(options.ticket)} is no ticket`);
  }

  /** Asks until there is an answer, and reads it. */
  async ask(asked: NodeRequest): Promise<unknown> {
    const tries = this.#begin(asked.first);
    const { timeoutMs = 10_000, retries = 5 } = this.#options;
    for (;;) {
      try {
        let text = '';
        for await (const piece of this.#answer(tries.at, asked, timeoutMs + asked.waitMs)) text += piece;
        this.#at = tries.at;
        asked.onAnswer?.(this.#urls[tries.at]!);
        return this.#parsed(text, asked.has!);
      } catch (error) {
        if (error instanceof Failure && error.code === asked.expected && error.more.told) {
          this.#at = tries.at;
          const { told, afterMs = 0 } = error.more;
          return new Refused(told, tries.unknown ? 'unknown' : told.applied, afterMs);
        }
        await this.#failed(tries, asked, error, asked.retries ?? retries);
      }
    }
  }

  /** Server-sent events, without end: a stream that breaks is opened again where it was. */
  async *events(asked: NodeRequest): AsyncGenerator<StreamEvent, never, undefined> {
    const tries = this.#begin();
    // No node made such an id, so all is told that there is.
    let last = '0';
    for (;;) {
      try {
        let rest = '';
        const headers = { ...asked.headers, 'last-event-id': last };
        for await (const piece of this.#answer(tries.at, { ...asked, headers }, SILENCE_MS_MAX)) {
          this.#at = tries.at;
          tries.failures = 0;
          const blocks = (rest + piece).split('\n\n');
          rest = blocks.pop()!;
          for (const block of blocks) {
            const [name, data, id] = ['event', 'data', 'id'].map((field) => block.match(`(?:^|\n)${field}: ?(.*)`)?.[1] ?? '');
            last = id || last;
            yield { name: name!, data: data!, id: id! };
          }
        }
        throw new Failure('link_lost', 'the stream ended', true);
      } catch (error) {
        await this.#failed(tries, asked, error, Infinity);
      }
    }
  }

  #begin(first?: string): Tries {
    const at = first === undefined ? -1 : this.#urls.indexOf(first);
    return { at: at < 0 ? this.#at : at, failures: 0, unknown: false };
  }

  /** The text of an answer as it comes. */
  async *#answer(at: number, { path, method, headers: more, body, signal }: NodeRequest, limitMs: number): AsyncGenerator<string, void, undefined> {
    const { fetch: ask = globalThis.fetch, ticket } = this.#options;
    const over = new AbortController();
    const cancel = (): void => over.abort();
    let late = false;
    const expire = (): void => {
      late = true;
      cancel();
    };
    let timer = setTimeout(expire, limitMs);
    signal?.addEventListener('abort', cancel);
    const url = this.#urls[at]! + path;
    const aborted = (applied?: 'no'): Failure => new Failure('aborted', 'the request was aborted', false, { cause: signal!.reason, applied });
    try {
      if (signal?.aborted) throw aborted('no');
      const headers: Record<string, string> = {};
      const all = { ...more, authorization: ticket && `Bearer ${ticket}`, 'content-type': body && 'application/json' };
      for (const [name, value] of Object.entries(all)) if (value !== undefined) headers[name] = String(value);
      const response = await ask(url, { method: method ?? (body ? 'POST' : 'GET'), headers, body: body ?? null, signal: over.signal });
      if (!response.ok) throw await this.#refusal(url, response);
      const [reader, decoder] = [response.body!.getReader(), new TextDecoder()];
      for (let read; !(read = await reader.read()).done; ) {
        // However long the reader takes, the node is not late.
        clearTimeout(timer);
        yield decoder.decode(read.value, { stream: true });
        timer = setTimeout(expire, limitMs);
      }
    } catch (cause) {
      if (cause instanceof Failure) throw cause;
      if (signal?.aborted) throw aborted();
      if (late) throw new Failure('timeout', `${url} did not answer within ${limitMs} ms`, true);
      throw new Failure('link_lost', `the link to ${url} was lost: ${String(cause)}`, true, { cause });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', cancel);
      cancel();
    }
  }

  /** Waits until another try may be made, at the next node; or throws what it comes to. */
  async #failed(tries: Tries, asked: NodeRequest, failure: unknown, retries: number): Promise<void> {
    if (!(failure instanceof Failure)) throw failure;
    const { idempotencyKey, unsure, signal, onUnknown, each = 1 } = asked;
    let applied = idempotencyKey || unsure ? (failure.more.applied ?? 'unknown') : undefined;
    if (applied === 'unknown') onUnknown?.();
    // A node that refuses does not know what became of the same write elsewhere, or of one that is still under way.
    if (applied === 'no' && tries.unknown) applied = 'unknown';
    tries.unknown ||= applied === 'unknown';
    if (signal?.aborted && !tries.unknown) throw signal.reason;
    if (!failure.again || tries.failures >= retries) {
      if (!failure.again) this.#at = tries.at;
      throw new this.#Error(failure, applied, asked);
    }
    const { retryMinMs = 250, retryMaxMs = 15_000 } = this.#options;
    // Half of it is random, so that not all try again at once.
    const wait = Math.min(retryMaxMs, retryMinMs * 2 ** tries.failures++) * (0.5 + Math.random() / 2);
    if (tries.failures % each === 0) tries.at = (tries.at + 1) % this.#urls.length;
    await pause(Math.max(wait, Math.min(failure.more.afterMs ?? 0, RETRY_AFTER_MS_MAX)), signal);
  }

  /** Why a request was refused: nodes say so with a code, and whatever is before them does not. */
  async #refusal(url: string, response: Response): Promise<Failure> {
    const { status, headers } = response;
    let told: NodeRefusal | undefined;
    try {
      const problem = this.#read(await response.text()) as NodeRefusal;
      if (/^[a-z_]{1,64}$/.test(problem.code)) told = problem;
    } catch {
      // Not from a node.
    }
    const code = told?.code ?? 'http_status';
    const why = String(told?.detail ?? `${url} answered with HTTP status ${status}`);
    const afterMs = Number(headers.get('retry-after')) * 1_000 || 0;
    return new Failure(code, why, AGAIN.includes(status) && !FINAL.includes(code), { status, told, applied: told?.applied, afterMs });
  }

  /** Reads an answer, which has a field of this name. */
  #parsed(text: string, field: string): unknown {
    try {
      const answer = this.#read(text) as Record<string, unknown>;
      if (answer[field]) return answer;
    } catch {
      // No JSON, or nothing that has fields.
    }
    throw new Failure('malformed', `this is no answer of a node: ${text.slice(0, 80)}`, false);
  }
}

/** Reads JSON, with bigints for the decimals of fields of these names; `complete` adds to objects what they leave out. */
export function decimals(names: readonly string[], complete = (told: object): object => told): (text: string) => unknown {
  return (text) =>
    JSON.parse(text, (name, value) => {
      if (typeof value === 'string') return names.includes(name) ? BigInt(value) : value;
      return value && typeof value === 'object' && !Array.isArray(value) ? complete(value) : value;
    });
}

/** Waits, but no longer than until `signal` is aborted. */
function pause(waitMs: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, waitMs);
    signal?.addEventListener('abort', end);
  });
}
