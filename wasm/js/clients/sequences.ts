import type { TallymeshError } from '../internal/errors.js';
import type { Watching } from '../replica/open-counters.js';
import type { Watched } from '../replica/replica.js';
import { asking, idempotent, part, text, waiting, whole } from './arguments.js';
import { decimals, Refused, Requests, type NodesOptions } from './requests.js';

/** A number that was handed out. */
export interface Drawn {
  /** The sequence. */
  readonly key: string;
  /** The number, from 1 on. */
  readonly number: bigint;
  /** Whether it was watched. */
  readonly watched: boolean;
  /** How many numbers this call may have lost: so many of its requests were never answered. Nobody gets those. */
  readonly lost: number;
}

/** Numbers that a member was given, and is not known to have handed out. */
export interface HeldNumbers {
  /** The first of them. */
  readonly first: bigint;
  /** The last of them. */
  readonly last: bigint;
  /** The writer that hands them out, as 32 hex digits. */
  readonly writer: string;
  /** The member's key, if it is known: 64 hex digits. */
  readonly owner?: string;
  /** Whether it is the node that was asked. */
  readonly own: boolean;
}

/** Numbers that were lost with the process that held them. */
export interface Gap {
  /** The first of them. */
  readonly first: bigint;
  /** The last of them. */
  readonly last: bigint;
}

/** A number that is watched; with the sequence's name it tells one notice from another. */
export interface WatchedNumber {
  /** The number. */
  readonly number: bigint;
  /**
   * `open` until it is known to be `handed_out`, or `lost`. `passed` if it was handed out by a member that had not heard
   * of the watch, or lost long ago.
   */
  readonly state: 'open' | 'handed_out' | 'lost' | 'passed';
  /** The writer that handed it out, as 32 hex digits. */
  readonly writer?: string;
  /** The key of that writer's member, if it is known: 64 hex digits. */
  readonly owner?: string;
  /** Whether the node that was asked handed it out, since it was started. */
  readonly own: boolean;
  /** At most how many lower numbers were neither handed out nor lost then. */
  readonly below?: bigint;
}

/** What is known of a sequence at the node that was asked. */
export interface Sequence {
  /** Its name. */
  readonly key: string;
  /** The least number that no member was given yet. */
  readonly next: bigint;
  /** How many numbers were handed out, at least; `next` less 1 is how many at most. */
  readonly issued: bigint;
  /** How many numbers were lost, those of the gaps among them. */
  readonly lost: bigint;
  /** What members hold, ascending. */
  readonly held: readonly HeldNumbers[];
  /** The last numbers that were lost, ascending. */
  readonly gaps: readonly Gap[];
  /** The numbers that are watched, ascending. */
  readonly watched: readonly WatchedNumber[];
}

/** How a read waits. */
export interface SequenceReadOptions {
  /**
   * How many members are asked what they hold before a sequence is read, or hold a write durably before it is answered.
   * Default: `local`, the node that is asked.
   */
  readonly level?: 'local' | 'quorum' | 'all';
  /** How long the node waits for that, in milliseconds, at most 20000. Default: 5000. */
  readonly levelWaitMs?: number;
  /** Ends it, and throws the signal's reason; or `aborted`, if a write may have been made by then. */
  readonly signal?: AbortSignal;
}

/** How a sequence is begun, and a watch set or ended. */
export interface SequenceWriteOptions extends SequenceReadOptions {
  /** 1 to 255 bytes of ASCII: it is made once, however often it is asked for. Default: a fresh one for each call. */
  readonly idempotencyKey?: string;
}

/** How a number is drawn. */
export interface DrawOptions {
  /** How long the node waits for numbers if it has none, in milliseconds, at most 20000. Default: 0, it refuses at once. */
  readonly waitMs?: number;
  /** Ends it, and throws the signal's reason; or `aborted`, if a number may be lost by then. */
  readonly signal?: AbortSignal;
}

/** How sequences are listed. */
export interface SequenceListOptions extends SequenceReadOptions {
  /** Only names after this one, by their bytes: the last that was seen, to go on from there. */
  readonly after?: string;
}

/**
 * Reaches the sequences of a space at its members. Nothing is asked before a method is called.
 *
 * @param nodes - the addresses of one node or several, or options.
 * @throws {@link TallymeshError} `url` or `ticket`.
 *
 * @example
 * ```ts
 * const shop = sequences({ urls: ['https://a.example', 'https://b.example'], space: 'shop', ticket });
 * const { number } = await shop.next('orders', { waitMs: 5_000 });
 * ```
 */
export function sequences(nodes: string | URL | readonly (string | URL)[] | NodesOptions): Sequences {
  if (typeof nodes === 'string' || nodes instanceof URL) return new Sequences({ urls: [nodes] });
  return new Sequences('urls' in nodes ? nodes : { urls: nodes });
}

const NAME_BYTES_MAX = 461;
const NUMBER_MAX = 2n ** 63n - 2n;

// `next` is a number of a sequence, and a name of a page: see `made`.
const read = decimals(['issued', 'lost', 'first', 'last', 'number', 'below']);

/**
 * The sequences of a space, as {@link sequences} gives them.
 *
 * A request is tried again, at the same or another node, when a connection breaks, a node does not answer, or says 429,
 * 502, 503 or 504. Writes go under an idempotency key, so that they are made once; all but {@link Sequences.next}.
 *
 * What a node refuses is a {@link RequestError} with the node's code (docs/errors.md); what cannot be asked, such as a
 * name that is too long, a {@link TallymeshError}, before any request.
 */
class Sequences {
  readonly #requests: Requests;

  /** @internal */
  constructor(options: NodesOptions) {
    this.#requests = new Requests(options, read);
  }

  /**
   * Hands out the next number: nobody else gets it, at any member, whatever happens. Takes the role writer.
   *
   * It takes no idempotency key. Where no answer comes it is asked again, at the next node, too, and gets another number:
   * the one that may have been handed out is lost, as is each whose answer is lost, and nobody gets it. `lost` counts
   * these. With `retries: 0` it is not asked again.
   *
   * @throws {@link RequestError}: `numbers_short`, if the node has none now and `waitMs` is over; `no_sequence`. One of
   * which `applied` is `unknown` may have lost a number.
   *
   * @example
   * ```ts
   * const { number, watched } = await shop.next('visits', { waitMs: 5_000 });
   * ```
   */
  async next(key: string, options: DrawOptions = {}): Promise<Drawn> {
    let lost = 0;
    const { waitMs, signal } = waiting(options);
    const answer = await this.#requests.ask({
      ...asking(`${address(key)}/next`, 'number', { waitMs, signal }),
      method: 'POST',
      unsure: 'a number may have been handed out, which nobody gets any more',
      onUnknown: () => lost++,
    });
    const { number, watched = false } = answer as { number: bigint; watched?: boolean };
    return { key, number, watched, lost };
  }

  /**
   * Begins a sequence: its first number is 1. Takes the role editor.
   *
   * @throws {@link RequestError} `sequence_exists`, if there is one of this name; {@link TallymeshError} for what cannot
   * be asked, as all methods.
   */
  async begin(key: string, options: SequenceWriteOptions = {}): Promise<Sequence> {
    return this.#write('POST', address(key), options);
  }

  /**
   * Watches a number: all members tell who was handed it, until the watch is ended. One that is watched already is left
   * as it is. Takes the role editor.
   *
   * @param number - from 1 to 2^63 - 2.
   * @throws {@link RequestError}
   */
  async watch(key: string, number: number | bigint, options: SequenceWriteOptions = {}): Promise<Sequence> {
    return this.#write('PUT', watch(key, number), options);
  }

  /** Ends the watch of a number, if there is one. Takes the role editor. */
  async unwatch(key: string, number: number | bigint, options: SequenceWriteOptions = {}): Promise<Sequence> {
    return this.#write('DELETE', watch(key, number), options);
  }

  /**
   * Reads a sequence; `undefined` if the node knows none of this name. Takes the role reader.
   *
   * @throws {@link RequestError}
   */
  async get(key: string, options: SequenceReadOptions = {}): Promise<Sequence | undefined> {
    const answer = await this.#requests.ask({ ...asking(address(key), 'held', waiting(options)), expected: 'no_sequence' });
    return answer instanceof Refused ? undefined : made(answer);
  }

  /**
   * Lists sequences by name, those whose names begin with `prefix`. More are asked for as they are taken. Takes the role
   * reader.
   *
   * @throws {@link RequestError}
   */
  async *list(prefix = '', { after, ...options }: SequenceListOptions = {}): AsyncGenerator<Sequence, void, undefined> {
    waiting(options);
    for (let next = after; ; ) {
      const query = new URLSearchParams({ prefix: text(prefix, 'a prefix'), ...(next !== undefined && { after: next }) });
      const page = (await this.#requests.ask(asking(`/sequences?${query}`, 'sequences', options))) as { sequences: unknown[]; next?: string };
      yield* page.sequences.map(made);
      if ((next = page.next ?? undefined) === undefined) return;
    }
  }

  /**
   * A sequence now, and again when it has changed at the node; of a prefix, each of its sequences. `undefined` is one that
   * the node does not know yet. States that came and went meanwhile are passed over, and one may come twice when a
   * connection breaks and is made again, which is tried without end. So a number that is watched is told of at least once:
   * act on it under its name and number, and then end the watch. Takes the role reader.
   *
   * @param options - a signal that ends it.
   * @throws {@link RequestError}, if the node refuses; the reason of `signal`, once that is aborted.
   *
   * @example
   * ```ts
   * await shop.watch('visits', 1_000_000);
   * for await (const sequence of shop.changes('visits', { signal })) {
   *   if (sequence?.watched.some(({ number, state }) => number === 1_000_000n && state === 'handed_out')) break;
   * }
   * ```
   */
  changes(key: string, options?: Watching): AsyncGenerator<Sequence | undefined, void, undefined>;
  changes(watched: Watched, options?: Watching): AsyncGenerator<Sequence, void, undefined>;
  async *changes(watched: string | Watched, options: Watching = {}): AsyncGenerator<Sequence | undefined, void, undefined> {
    const one = typeof watched === 'string';
    const query = new URLSearchParams(one ? { key: text(watched, "a sequence's name") } : { prefix: text(watched.prefix, 'a prefix') });
    let known = !one;
    for await (const { name, data, id } of this.#requests.events(asking(`/events?${query}`, '', options))) {
      if (name === 'sequence') {
        known = true;
        yield made(read(data));
      } else if (id && !known) {
        // All was told that there is.
        known = true;
        yield undefined;
      }
    }
  }

  async #write(method: 'PUT' | 'POST' | 'DELETE', path: string, options: SequenceWriteOptions): Promise<Sequence> {
    const asked = asking(path, 'held', waiting(options), idempotent(options.idempotencyKey));
    return made(await this.#requests.ask({ ...asked, method }));
  }
}

export type { Sequences };

/** Where a sequence is. */
function address(key: unknown): string {
  return `/sequences/${part(key, "a sequence's name", 'sequence_name', NAME_BYTES_MAX)}`;
}

/** Where the watch of a number is. */
function watch(key: unknown, number: unknown): string {
  return `${address(key)}/watches/${whole(number, 'number of a sequence', 'number_range', 1n, NUMBER_MAX)}`;
}

/** Reads a sequence. */
function made(told: unknown): Sequence {
  const sequence = told as Omit<Sequence, 'next'> & { next: string };
  return { ...sequence, next: BigInt(sequence.next) };
}
