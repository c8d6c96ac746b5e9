import { amount } from '../internal/amount.js';
import { TallymeshError } from '../internal/errors.js';
import { asking, idempotent, part, waiting, whole } from './arguments.js';
import type { Holding } from './budget-wire.js';
import { decimals, Refused, Requests, type NodesOptions } from './requests.js';

/** A limit. It is for the key that is its name, and for all keys that go on after its name with a colon. */
export interface Limit {
  /** Its name. */
  readonly name: string;
  /** How much is allowed of each of its keys in a period. */
  readonly limit: bigint;
  /** How long a period is, in milliseconds. Periods are counted since 1970. */
  readonly periodMs: number;
  /** The number of the configuration of the members by which it was set, or its period changed. */
  readonly since: bigint;
}

/** The present period of a key, as the node knows it that was asked. */
export interface Period {
  /** The key. */
  readonly key: string;
  /** The limit that covers it. */
  readonly name: string;
  /** How much is allowed in a period. */
  readonly limit: bigint;
  /** What is left of it. */
  readonly left: Holding;
  /** When the period began, by the node's clock. */
  readonly begins: Date;
  /** When it is over. */
  readonly ends: Date;
}

/** It is allowed, and counts. */
export interface Allowed extends Period {
  /** `true`. */
  readonly allowed: true;
  /** There is nothing to wait for. */
  readonly retryAfterMs: 0;
}

/** It is not allowed now. */
export interface NotAllowed {
  /** `false`. */
  readonly allowed: false;
  /** The key. */
  readonly key: string;
  /** The limit that covers it; `undefined`, as `limit` and `begins` are, if the node could not be asked for it any more. */
  readonly name: string | undefined;
  /** How much is allowed in a period. */
  readonly limit: bigint | undefined;
  /** What is left of it: `here` is less than was asked for. */
  readonly left: Holding;
  /** How much the node asks other members for, if they have as much; 0 if they have not. */
  readonly asked: bigint;
  /** When the period began, by the node's clock. */
  readonly begins: Date | undefined;
  /** When it is over. */
  readonly ends: Date;
  /** How long it is until the next period begins, in milliseconds. */
  readonly retryAfterMs: number;
  /** `unknown` if it may count all the same, as another node may have taken it of which no answer came. */
  readonly applied: 'no' | 'unknown';
}

/** What {@link Limits.allow} answers. */
export type Allowance = Allowed | NotAllowed;

/** How a request waits. */
export interface LimitReadOptions {
  /** Ends it, and throws the signal's reason; or `aborted`, if it may have counted by then. */
  readonly signal?: AbortSignal;
}

/** How something is allowed. */
export interface AllowOptions extends LimitReadOptions {
  /**
   * 1 to 255 bytes of ASCII, such as a request's number: it counts once, however often and at whichever member it is
   * asked for with it. Default: a fresh one, for the tries of this call.
   */
  readonly idempotencyKey?: string;
  /** How long the node waits for what other members hold, in milliseconds, at most 20000. Default: 0. */
  readonly waitMs?: number;
}

/** What a limit is set to. */
export interface LimitOf {
  /** How much is allowed in a period, from 1 to 2^63 - 1. */
  readonly limit: number | bigint;
  /** How long a period is, in milliseconds: a second to 366 days. */
  readonly periodMs: number;
}

/** How a limit is set. */
export interface LimitWriteOptions extends LimitReadOptions {
  /** How long the node waits for a majority of the members, in milliseconds, at most 20000. Default: 10000. */
  readonly waitMs?: number;
}

/**
 * Reaches the limits of a space at its members. Nothing is asked before a method is called.
 *
 * @param nodes - the addresses of one node or several, or options.
 * @throws {@link TallymeshError} `url` or `ticket`.
 *
 * @example
 * ```ts
 * const limiter = limits({ urls: ['https://a.example', 'https://b.example'], space: 'shop', ticket });
 * const { allowed, retryAfterMs } = await limiter.allow(`login:${user}`);
 * ```
 */
export function limits(nodes: string | URL | readonly (string | URL)[] | NodesOptions): Limits {
  if (typeof nodes === 'string' || nodes instanceof URL) return new Limits({ urls: [nodes] });
  return new Limits('urls' in nodes ? nodes : { urls: nodes });
}

const LIMIT_MAX = 2n ** 63n - 1n;
const PERIOD_MS_MIN = 1_000n;
const PERIOD_MS_MAX = 31_622_400_000n;
const NAME_BYTES_MAX = 128;
const KEY_BYTES_MAX = 445;
/** How long a node waits for a majority, if nothing is said. */
const CHANGE_WAIT_MS = 10_000;
/** Of how many keys it is known what their periods are. */
const PERIODS_MAX = 1_024;

const read = decimals(['limit', 'here', 'pending', 'elsewhere', 'asked', 'begins', 'ends', 'since']);
const UNSURE = 'it may have been made, or be made yet, and asking again is harmless';

/**
 * The limits of a space, as {@link limits} gives them.
 *
 * A request is tried again, at the same or another node, when a connection breaks, a node does not answer, or says 429,
 * 502, 503 or 504. What is to be allowed goes under an idempotency key, so that it counts once.
 *
 * What a node refuses is a {@link RequestError} with the node's code (docs/errors.md); but that nothing is left in a
 * period is an answer. What cannot be asked, such as a cost that is no whole number, is a {@link TallymeshError}, before
 * any request.
 */
class Limits {
  readonly #requests: Requests;
  /** The last periods that were told, by key. */
  readonly #periods = new Map<string, Period>();

  /** @internal */
  constructor(options: NodesOptions) {
    this.#requests = new Requests(options, read);
  }

  /**
   * Asks whether something may be done, and counts it if so. The node answers from what it holds, and asks other members
   * for what it lacks: with `waitMs` it waits for that. Takes the role writer.
   *
   * @param cost - how much is asked for, from 0 to 2^63 - 1. More than the limit is never allowed.
   * @throws {@link RequestError} if no node answers, no limit covers the key (`no_limit`), or it may not be asked for.
   *
   * @example
   * ```ts
   * const answer = await limiter.allow('api:alice', 5, { waitMs: 200 });
   * if (!answer.allowed) console.log(`again in ${answer.retryAfterMs} ms`);
   * ```
   */
  async allow(key: string, cost: number | bigint = 1, options: AllowOptions = {}): Promise<Allowance> {
    const path = `${address(key)}/allow`;
    const exact = amount(cost);
    if (exact < 0n) throw new TallymeshError('amount_range', `${cost} is no cost: one is 0 to 2^63 - 1`);
    const idempotencyKey = idempotent(options.idempotencyKey);
    const body = JSON.stringify({ cost: String(exact) });
    const answer = await this.#requests.ask({ ...asking(path, 'left', waiting(options), idempotencyKey), body, expected: 'limit_reached' });
    if (answer instanceof Refused) return this.#notAllowed(key, answer, options);
    return { allowed: true, ...this.#known(answer), retryAfterMs: 0 };
  }

  /**
   * Reads the present period of a key; `undefined` if no limit covers it. Takes the role reader.
   *
   * @throws {@link RequestError}
   */
  async get(key: string, options: LimitReadOptions = {}): Promise<Period | undefined> {
    const answer = await this.#requests.ask({ ...asking(address(key), 'left', options), expected: 'no_limit' });
    return answer instanceof Refused ? undefined : this.#known(answer);
  }

  /**
   * Lists the limits of the space, by name. Takes the role reader.
   *
   * @throws {@link RequestError}
   */
  async list(options: LimitReadOptions = {}): Promise<readonly Limit[]> {
    return listed(await this.#requests.ask(asking('/limits', 'limits', options)));
  }

  /**
   * Sets a limit, on which a majority of the members decides. One that is raised allows more from the first period on
   * that begins after all members knew of it. Harmless to repeat. Takes the role member.
   *
   * @throws {@link RequestError} `undecided`, if there is no majority yet; it may be set all the same.
   *
   * @example
   * ```ts
   * await limiter.set('login', { limit: 100, periodMs: 60_000 });
   * ```
   */
  async set(name: string, { limit, periodMs }: LimitOf, { waitMs = CHANGE_WAIT_MS, signal }: LimitWriteOptions = {}): Promise<Limit> {
    const path = address(name, "a limit's name", 'limit_name', NAME_BYTES_MAX);
    const body = JSON.stringify({
      limit: whole(limit, 'limit', 'limit_range', 1n, LIMIT_MAX),
      period_ms: Number(whole(periodMs, 'period in milliseconds', 'period_range', PERIOD_MS_MIN, PERIOD_MS_MAX)),
      wait_ms: waiting({ waitMs }).waitMs,
    });
    const answer = await this.#requests.ask({ path, method: 'PUT', body, has: 'limits', headers: {}, unsure: UNSURE, waitMs, signal });
    return listed(answer).find((it) => it.name === name)!;
  }

  /**
   * Takes a limit away, if there is one of this name, on which a majority of the members decides. Nothing is allowed of
   * its keys from then on. Harmless to repeat. Takes the role member.
   *
   * @throws {@link RequestError} `undecided`, if there is no majority yet; it may be taken away all the same.
   */
  async remove(name: string, { signal }: LimitReadOptions = {}): Promise<void> {
    const path = address(name, "a limit's name", 'limit_name', NAME_BYTES_MAX);
    await this.#requests.ask({ path, method: 'DELETE', has: 'limits', headers: {}, unsure: UNSURE, waitMs: CHANGE_WAIT_MS, signal });
  }

  /** A refusal says what is left and until when; how much is allowed is known from before, or asked for. */
  async #notAllowed(key: string, { told, applied, afterMs }: Refused, { signal }: AllowOptions): Promise<NotAllowed> {
    // If the limit has been removed meanwhile, no period is told of: the shortest that there is.
    const ends = new Date(Number(told.ends ?? Date.now() + Number(PERIOD_MS_MIN)));
    let period = this.#periods.get(key);
    if (period?.ends.getTime() !== ends.getTime()) {
      // Once: it is refused, whatever becomes of this.
      const asked = { ...asking(address(key), 'left', { signal }), retries: 0 };
      period = await this.#requests.ask(asked).then((answer) => this.#known(answer), () => undefined);
    }
    return {
      allowed: false,
      key,
      name: period?.name,
      limit: period?.limit,
      left: told.held as Holding,
      asked: (told.asked ?? 0n) as bigint,
      // The period that was asked for may be the next one already.
      begins: period && new Date(ends.getTime() - period.ends.getTime() + period.begins.getTime()),
      ends,
      // By the node's clock, to the second, and within that by the clock here, which may be off.
      retryAfterMs: Math.min(Math.max(ends.getTime() - Date.now(), afterMs - 1_000, 0), afterMs || Infinity),
      applied: applied === 'unknown' ? applied : 'no',
    };
  }

  /** Reads a period, and remembers it for the refusals of the same period. */
  #known(answer: unknown): Period {
    const { begins, ends, ...told } = answer as Omit<Period, 'begins' | 'ends'> & { begins: bigint; ends: bigint };
    const period = { ...told, begins: new Date(Number(begins)), ends: new Date(Number(ends)) };
    this.#periods.delete(period.key);
    this.#periods.set(period.key, period);
    if (this.#periods.size > PERIODS_MAX) this.#periods.delete(this.#periods.keys().next().value!);
    return period;
  }
}

export type { Limits };

/** Where a key's period is, or a limit. */
function address(key: unknown, what = 'a key', code = 'limit_key', bytesMax = KEY_BYTES_MAX): string {
  return `/limits/${part(key, what, code, bytesMax)}`;
}

/** Reads a list of limits. */
function listed(answer: unknown): readonly Limit[] {
  const { limits } = answer as { limits: (Omit<Limit, 'periodMs'> & { period_ms: number })[] };
  return limits.map(({ period_ms: periodMs, ...limit }) => ({ ...limit, periodMs }));
}
