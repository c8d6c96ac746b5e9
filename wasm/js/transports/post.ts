import { address } from '../internal/address.js';
import { isTallymeshError } from '../internal/error-class.js';
import type { TallymeshError } from '../internal/errors.js';
import type { Transport } from '../replica/open-counters.js';
import type { Link } from '../replica/peer.js';
import type { Replica } from '../replica/replica.js';
import type { RetryOptions } from './connection.js';
import { FRAME_BYTES_MAX } from './messages.js';
import { PersistentConnection } from './persistent.js';
import { roleOf } from './ticket.js';
import type { ConnectOptions } from './websocket.js';

/** How {@link post} behaves. */
export interface PostOptions extends RetryOptions, Pick<ConnectOptions, 'ticket' | 'sign'> {
  /** How long after an exchange the node is asked again, in milliseconds. Default: 1000. */
  readonly intervalMs?: number;
  /** The longest that this becomes while nothing happens: it doubles each time. Default: 15000; below 60000. */
  readonly intervalMaxMs?: number;
  /** Closes the connection, and ends at once what is under way. */
  readonly signal?: AbortSignal;
  /** The `fetch` to use in place of the global one. */
  readonly fetch?: typeof fetch;
}

/** A request that takes longer is given up. */
const ANSWER_MS_MAX = 10_000;
/** How long the node waits for something to answer to what it was sent. */
const WAIT_MS = 100;
/** Who was silent for so long may have lost the link by it; the node keeps one for at least two seconds. */
const SLEPT_MS = 2_000;
/** The longest that a node keeps a link. */
const AGAIN_MS_MAX = 60_000;
/** The longest that is waited because a node asks for it. */
const RETRY_AFTER_MS_MAX = 60_000;

// What one request may have, beside the length of each frame.
const FRAMES_MAX = 256;
const BODY_BYTES_MAX = 8 << 20;
const LENGTH_BYTES = 4;

/** Where a frame says what it is, and what says that it only compares: these are worth no request. */
const TYPE_AT = 3;
const DIGEST = 2;

/**
 * Keeps a replica in sync with a node by HTTP requests, for places with no WebSocket. What changes here is sent at
 * once; what changes there is asked for each `intervalMs`, and less often while nothing happens.
 *
 * What was counted before the connection is closed or paused is sent yet.
 *
 * @param url - the node's address; one with a path of its own is used as it is.
 * @throws {@link TallymeshError} `url` or `ticket`, when the connection is made.
 *
 * @example
 * ```ts
 * const counters = await open({ transports: [post('https://node.example', { ticket })] });
 * ```
 */
export function post(url: string | URL, options: PostOptions = {}): Transport {
  return (replica) => new PostConnection(replica, url, options);
}

/** One link, and what it takes to make it. */
interface Attempt {
  /** The node's name for it. */
  session: string | undefined;
  link: Link | undefined;
  /** Shows that the key is the owner's, once. */
  proof: Record<string, string>;
  /** Frames that wait for a request. */
  queue: Uint8Array<ArrayBuffer>[];
  /** Whether they are worth one. */
  urgent: boolean;
  timer: ReturnType<typeof setTimeout> | undefined;
  intervalMs: number;
  /** The request that is under way. */
  request: Exchange | undefined;
  /** When the node answered last. */
  answeredAt: number;
  failuresBefore: number;
}

interface Exchange {
  readonly frames: number;
  readonly answer: Promise<Answer>;
  cancel(): void;
}

interface Answer {
  readonly headers: Headers;
  readonly frames: Uint8Array<ArrayBuffer>[];
}

class PostConnection extends PersistentConnection {
  readonly #options: PostOptions;
  #attempt: Attempt | undefined;
  #failures = 0;
  /** Runs until the next attempt. */
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** How long the node asked to be let alone, when it refused last. */
  #retryAfterMs = 0;

  constructor(replica: Replica, given: string | URL, options: PostOptions) {
    super(replica, address(given, `/v1/spaces/${replica.space}/sync`) ?? '', options);
    this.#options = options;
    if (!this.url) {
      throw this.problem('url', `${JSON.stringify(given)} is no address of a node, such as http://127.0.0.1:8080`);
    }
    if (!/^[\w.-]+$/.test(options.ticket ?? '-')) {
      throw this.problem('ticket', `${JSON.stringify(options.ticket)} is no ticket`);
    }
    globalThis.addEventListener?.('online', this.#wake);
    options.signal?.addEventListener('abort', this.#abort);
    if (options.signal?.aborted) this.close();
    else if (!options.paused) this.begin();
  }

  readonly #wake = (): void => {
    if (this.state === 'waiting') this.#dial();
  };
  readonly #abort = (): void => this.close();

  override close(): void {
    globalThis.removeEventListener?.('online', this.#wake);
    this.#options.signal?.removeEventListener('abort', this.#abort);
    super.close();
  }

  protected override begin(): void {
    this.#failures = 0;
    this.#dial();
  }

  protected override end(): void {
    const attempt = this.#hangUp();
    if (attempt) void this.#finish(attempt);
  }

  #dial(): void {
    clearTimeout(this.#timer);
    this.#retryAfterMs = 0;
    const attempt: Attempt = {
      session: undefined, link: undefined, proof: {}, queue: [], urgent: true, timer: undefined,
      intervalMs: this.#interval, request: undefined, answeredAt: 0, failuresBefore: this.#failures,
    };
    this.#attempt = attempt;
    this.become('connecting');
    // A listener may have ended it. Who can sign lets the node speak first: it may want a proof before any frame.
    if (this.#attempt === attempt && (this.#options.sign || this.replica.sign || this.#up(attempt))) void this.#exchange(attempt);
  }

  get #interval(): number {
    return this.#options.intervalMs ?? 1_000;
  }

  /** Opens the link; false if it is over already. */
  #up(attempt: Attempt): boolean {
    attempt.link = this.attach(
      (frame) => {
        attempt.queue.push(frame as Uint8Array<ArrayBuffer>);
        if (frame[TYPE_AT] === DIGEST) return;
        attempt.urgent = true;
        if (!attempt.request && attempt.session) this.#next(attempt, 0);
      },
      () => {
        this.#drop();
        this.#dial();
      },
      (reason) => this.#fail(attempt, reason),
    );
    return this.#attempt === attempt;
  }

  #next(attempt: Attempt, waitMs: number): void {
    clearTimeout(attempt.timer);
    attempt.timer = setTimeout(() => void this.#exchange(attempt), waitMs);
  }

  /** Sends what waits, takes what comes, and says when to do so again. */
  async #exchange(attempt: Attempt): Promise<void> {
    clearTimeout(attempt.timer);
    const { urgent } = attempt;
    const { intervalMaxMs = 15_000 } = this.#options;
    const longerMs = Math.min(attempt.intervalMs * 2, intervalMaxMs);
    const frames = this.#take(attempt);
    try {
      const request = this.#request(attempt, frames, urgent && attempt.link ? WAIT_MS : 0, urgent ? this.#interval : longerMs);
      attempt.request = request;
      const { headers, frames: came } = await request.answer;
      attempt.request = undefined;
      attempt.answeredAt = Date.now();
      attempt.session = headers.get('tallymesh-session') ?? attempt.session;
      attempt.proof = {};
      // What is not the attempt of now is finished by whoever ended it.
      if (this.#attempt !== attempt) return;
      if (!attempt.session) throw this.problem('malformed', `${this.url} answered, and not as a node does: it named no link`);
      if (!attempt.link) {
        await this.#prove(attempt, headers);
        if (this.#attempt !== attempt || !this.#up(attempt)) return;
      }
      for (const frame of came) attempt.link?.receive(frame);
      if (this.#attempt !== attempt) return;
      if (came.length > 0) {
        this.#failures = 0;
        this.note(undefined);
        this.become('online');
        // A listener may have ended it.
        if (this.#attempt !== attempt) return;
      }
      const quiet = !urgent && came.every((frame) => frame[TYPE_AT] === DIGEST);
      attempt.intervalMs = quiet ? longerMs : this.#interval;
      this.#next(attempt, attempt.urgent ? 0 : attempt.intervalMs);
    } catch (error) {
      attempt.request = undefined;
      // A program that was put to sleep comes back to no link. It opens another one at once.
      const slept = attempt.answeredAt > 0 && Date.now() > attempt.answeredAt + SLEPT_MS;
      if (this.#attempt === attempt && slept && isTallymeshError(error) && error.code === 'sync_session') {
        this.#drop();
        return this.#dial();
      }
      this.#fail(attempt, isTallymeshError(error) ? error : this.problem('link_lost', String(error), { cause: error }));
    }
  }

  /** Takes as many frames as one request may have. */
  #take(attempt: Attempt): Uint8Array<ArrayBuffer>[] {
    let bytes = 0;
    const over = attempt.queue.findIndex((frame, at) => at === FRAMES_MAX || (bytes += LENGTH_BYTES + frame.length) > BODY_BYTES_MAX);
    const frames = attempt.queue.splice(0, over < 0 ? attempt.queue.length : over);
    attempt.urgent = attempt.queue.length > 0;
    return frames;
  }

  /** The node keeps the link until `againMs` have passed, and a little longer; 0 for the last request. */
  #request(attempt: Attempt, frames: Uint8Array<ArrayBuffer>[], waitMs: number, againMs: number): Exchange {
    const { fetch: ask = globalThis.fetch, signal, ticket } = this.#options;
    const over = new AbortController();
    const cancel = (): void => over.abort();
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      cancel();
    }, ANSWER_MS_MAX + waitMs);
    signal?.addEventListener('abort', cancel);
    const url = new URL(this.url);
    if (waitMs > 0) url.searchParams.set('wait_ms', String(waitMs));
    url.searchParams.set('again_ms', String(Math.min(Math.ceil(againMs), AGAIN_MS_MAX)));
    const answer = async (): Promise<Answer> => {
      try {
        const response = await ask(url.href, {
          method: 'POST',
          headers: {
            'content-type': 'application/octet-stream',
            ...(ticket && { authorization: `Bearer ${ticket}` }),
            ...(attempt.session && { 'tallymesh-session': attempt.session }),
            ...attempt.proof,
          },
          body: joined(frames),
          signal: over.signal,
          // A page that goes has no time to wait; browsers do this for so many bytes only.
          ...(againMs === 0 && frames.every(({ length }) => length < 16_384) && frames.length < 4 && { keepalive: true }),
        });
        if (!response.ok) throw await this.#refusal(response);
        const came = split(new Uint8Array(await response.arrayBuffer()));
        if (!came) throw this.problem('malformed', `${this.url} answered, and not as a node does: these are no frames`);
        return { headers: response.headers, frames: came };
      } catch (error) {
        if (late) throw this.problem('timeout', `${this.url} did not answer within ${ANSWER_MS_MAX} ms`);
        if (isTallymeshError(error)) throw error;
        throw this.problem('link_lost', `the link to ${this.url} was lost: ${String(error)}`, { cause: error });
      } finally {
        clearTimeout(timer);
        signal?.removeEventListener('abort', cancel);
      }
    };
    return { frames: frames.length, answer: answer(), cancel };
  }

  /** Why the node refused a request: nodes say so with a code, and whatever is before them does not. */
  async #refusal(response: Response): Promise<TallymeshError> {
    const text = await response.text();
    let [code, why] = ['http_status', `it answered with HTTP status ${response.status}`];
    try {
      const problem = JSON.parse(text);
      if (/^[a-z_]{1,64}$/.test(problem.code)) [code, why] = [problem.code, String(problem.detail)];
    } catch {
      // Not from a node.
    }
    if (code === 'owner_proof' && !this.#options.sign) why = `it takes options.sign: ${why}`;
    this.#retryAfterMs = Math.min(Number(response.headers.get('retry-after')) * 1_000 || 0, RETRY_AFTER_MS_MAX);
    return this.problem(code, `${this.url} refused the link: ${why}`);
  }

  /** Signs what the node drew, if it asks for that. */
  async #prove(attempt: Attempt, headers: Headers): Promise<void> {
    const challenge = headers.get('tallymesh-challenge');
    if (!challenge) return;
    const asked = { challenge, node: headers.get('tallymesh-node'), role: roleOf(this.#options.ticket) };
    const { owner, signature } = JSON.parse(await this.replica.prove(JSON.stringify(asked), this.#options.sign));
    attempt.proof = { 'tallymesh-owner': owner, 'tallymesh-signature': signature };
  }

  /** Ends the attempt that there is, but not what is under way, and gives it. */
  #hangUp(): Attempt | undefined {
    const attempt = this.#attempt;
    clearTimeout(this.#timer);
    this.#attempt = undefined;
    clearTimeout(attempt?.timer);
    attempt?.link?.close();
    return attempt;
  }

  #drop(): void {
    this.#hangUp()?.request?.cancel();
  }

  /** Sends what was said last on a link. */
  async #finish(attempt: Attempt): Promise<void> {
    const { request, session } = attempt;
    const aborted = (): boolean => this.#options.signal?.aborted === true;
    // Without a name nothing was said but a greeting.
    if (!session || aborted()) return request?.cancel();
    try {
      if (request) {
        if (request.frames > 0) await request.answer;
        else request.cancel();
      }
      while (attempt.queue.length > 0 && !aborted()) await this.#request(attempt, this.#take(attempt), 0, 0).answer;
    } catch {
      // There is nobody left who could try again.
    }
  }

  #fail(attempt: Attempt, error: TallymeshError): void {
    if (this.#attempt !== attempt) return;
    this.#drop();
    this.note(error);
    // What was refused will be refused again: that the link came up was no success.
    if (error.code !== 'link_lost' && error.code !== 'timeout') this.#failures = Math.max(this.#failures, attempt.failuresBefore);
    this.#timer = setTimeout(() => this.#dial(), Math.max(this.backOff(this.#failures++), this.#retryAfterMs));
    this.become('waiting');
  }
}

/** Frames, each after its length. */
function joined(frames: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const body = new Uint8Array(frames.reduce((sum, { length }) => sum + LENGTH_BYTES + length, 0));
  const view = new DataView(body.buffer);
  let at = 0;
  for (const frame of frames) {
    view.setUint32(at, frame.length);
    body.set(frame, at + LENGTH_BYTES);
    at += LENGTH_BYTES + frame.length;
  }
  return body;
}

/** Takes such a list apart; `undefined` if it is none. */
function split(body: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[] | undefined {
  const view = new DataView(body.buffer);
  const frames = [];
  for (let at = 0; at < body.length; ) {
    if (body.length - at < LENGTH_BYTES) return undefined;
    const length = view.getUint32(at);
    at += LENGTH_BYTES;
    if (length < 1 || length > FRAME_BYTES_MAX || length > body.length - at) return undefined;
    frames.push(body.slice(at, at + length));
    at += length;
  }
  return frames;
}
