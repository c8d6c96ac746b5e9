import { TallymeshError } from '../internal/errors.js';
import { text, type Waits } from './arguments.js';
import { quantity, transaction, type BudgetOperation } from './budget-wire.js';
import type { NodeRequest, Requests } from './requests.js';

/** How what was spent of a lease is told. */
export interface TellOptions {
  /** How many members hold it durably before it is answered. Default: `local`, the node that is asked. */
  readonly level?: 'local' | 'quorum' | 'all';
  /** How long the node waits for that, in milliseconds, at most 20000. Default: 5000. */
  readonly levelWaitMs?: number;
  /** How long the node waits for rights, of a lease that is over there, in milliseconds, at most 20000. Default: 0. */
  readonly waitMs?: number;
  /** Ends it, and throws the signal's reason, or `aborted` if the node may have been told; it can be told again. */
  readonly signal?: AbortSignal;
}

/** A lease as it is stored: it survives JSON. Numbers of units are decimals. */
export interface LeaseState {
  /** The lease, as 32 hex digits. */
  readonly id: string;
  /** The budget. */
  readonly key: string;
  /** The node that gave it, which is asked first if it is one of those that are asked. */
  readonly node: string;
  /** How much it is of. */
  readonly amount: string;
  /** What was spent of it. */
  readonly spent: string;
  /** What of that is known to have been told. */
  readonly told: string;
  /** Where the parts of the rest end that nodes may have been told, ascending. */
  readonly parts: readonly string[];
  /** How long it is, in milliseconds. */
  readonly ms: number;
  /** When it began, by the wall clock: milliseconds since 1970. */
  readonly since: number;
  /** How much of its time had passed when this was read. */
  readonly passedMs: number;
}

/**
 * The holder's side of a lease: it spends without asking, and tells later what it spent. Its time is counted from before
 * it was asked for, by the wall clock and by `performance.now()`, and is over when it has passed by either of them, or when
 * the wall clock says a time before it began.
 *
 * Store its {@link Lease.state} after each {@link Lease.spend}, before what was bought is handed out: after a reload
 * `resume()` goes on from it. Only one may go on from it, such as the tab that holds a Web Lock.
 */
export class Lease {
  /** Its id, as 32 hex digits. */
  readonly id: string;
  /** The budget. */
  readonly key: string;
  /** How much it is of. */
  readonly amount: bigint;
  readonly #requests: Requests;
  readonly #node: string;
  readonly #ms: number;
  readonly #since: number;
  /** When it began, by `performance.now()`. */
  readonly #begun: number;
  /** How much of its time has passed, as far as was looked; never less than before. */
  #passedMs: number;
  #spent: bigint;
  #told: bigint;
  /** Where the parts end that nodes may have been told: each goes under a key of its own until its outcome is known. */
  readonly #parts: bigint[];
  /** Done when the last call is. */
  #last: Promise<unknown> = Promise.resolve();

  /** @internal */
  constructor(requests: Requests, { id, key, node, amount, spent, told, parts, ms, since, passedMs }: LeaseState) {
    this.#requests = requests;
    this.id = id;
    this.key = key;
    this.#node = node;
    this.amount = BigInt(amount);
    this.#spent = BigInt(spent);
    this.#told = BigInt(told);
    this.#parts = parts.map(BigInt);
    // Whoever was there before may have told all that was spent by then, and not heard of it.
    if (this.#spent > (this.#parts.at(-1) ?? this.#told)) this.#parts.push(this.#spent);
    this.#ms = ms;
    this.#since = since;
    this.#passedMs = passedMs;
    this.#begun = performance.now() - Math.max(passedMs, Date.now() - since);
  }

  /** What may still be spent; 0 once it is over. */
  get left(): bigint {
    return this.isOver ? 0n : this.amount - this.#spent;
  }

  /** What was spent. */
  get spent(): bigint {
    return this.#spent;
  }

  /** What was spent, and is not known to have been told. */
  get untold(): bigint {
    return this.#spent - this.#told;
  }

  /** Whether nothing can be spent of it any more, as its time has passed or it was ended. */
  get isOver(): boolean {
    return this.endsInMs <= 0;
  }

  /** How much of its time is left, in milliseconds; 0 once it is over. */
  get endsInMs(): number {
    const wall = Date.now() - this.#since;
    // What is over stays over, whatever clocks say later.
    this.#passedMs = Math.max(this.#passedMs, wall < 0 ? this.#ms : wall, performance.now() - this.#begun);
    return Math.max(this.#ms - this.#passedMs, 0);
  }

  /** All that there is to go on from, as it is now. */
  get state(): LeaseState {
    const passedMs = this.#ms - this.endsInMs;
    return {
      id: this.id,
      key: this.key,
      node: this.#node,
      amount: String(this.amount),
      spent: String(this.#spent),
      told: String(this.#told),
      parts: this.#parts.map(String),
      ms: this.#ms,
      since: this.#since,
      passedMs,
    };
  }

  /**
   * Spends of it, here and at once: nobody is asked. Returns what is left.
   *
   * @param amount - 0 to 2^63 - 1.
   * @throws {@link TallymeshError} `lease_over`; `lease_short`, if less is left; and as for all amounts. Nothing is spent then.
   */
  spend(amount: number | bigint): bigint {
    const much = BigInt(quantity(amount));
    const left = this.amount - this.#spent;
    if (this.isOver) {
      throw new TallymeshError('lease_over', `${much} cannot be spent: the lease is over, with ${left} of ${this.amount} left`);
    }
    if (much > left) {
      throw new TallymeshError('lease_short', `${much} cannot be spent: ${left} of ${this.amount} are left of the lease`);
    }
    this.#spent += much;
    return left - much;
  }

  /**
   * Tells nodes what was spent until now: the one that gave it first, each time, and the others if it does not answer. It
   * counts once, however often it has to be told; so it is told again after an error, within the time that nodes know
   * idempotency keys (24 hours). Calls wait for each other.
   *
   * @throws {@link BudgetError}: `rights_short`, if the lease is over at the node, and it has too few rights.
   */
  tell(options: TellOptions = {}): Promise<void> {
    const spent = this.#spent;
    return this.#turn(() => this.#tell(spent, options));
  }

  /**
   * Spends no more, tells the rest, and has the node that gave it take back what is left. After an error it may be called
   * again; if it is not, what is left returns when the time is over.
   *
   * @throws {@link BudgetError}
   */
  end(options: TellOptions = {}): Promise<void> {
    this.#passedMs = Math.max(this.#passedMs, this.#ms);
    return this.#turn(async () => {
      await this.#tell(this.#spent, options);
      // Only there: others have nothing of it to take back. Under no key, as what returns under one is pending until
      // all members know of it; that nothing is left is as good.
      const ends = { each: Infinity, expected: 'no_lease', unsure: 'the lease may have been ended: it can be ended again' };
      await this.#ask({ op: 'end_lease', key: this.key, id: this.id }, options, ends);
    });
  }

  async #tell(upTo: bigint, options: TellOptions): Promise<void> {
    while (this.#told < upTo) {
      // What is spent from now on is another part.
      if (this.#parts.length < 1) this.#parts.push(this.#spent);
      const [end] = this.#parts as [bigint];
      const operation = { op: 'spend', key: this.key, amount: end - this.#told, lease: this.id } as const;
      await this.#ask(operation, options, {}, `${this.id}-${this.#since}-${this.#told}-${end}`);
      this.#told = end;
      this.#parts.shift();
    }
  }

  #ask(operation: BudgetOperation, waits: Waits, more: Partial<NodeRequest>, idempotencyKey?: string): Promise<unknown> {
    return this.#requests.ask({ ...transaction([operation], waits, idempotencyKey), first: this.#node, ...more });
  }

  #turn(work: () => Promise<void>): Promise<void> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => {});
    return turn;
  }
}

/** Checks what was stored of a lease. */
export function checked(state: unknown): LeaseState {
  const { id, key, node, amount, spent, told, parts, ms, since, passedMs } = (state ?? {}) as LeaseState;
  const wrong = (what: string): TallymeshError => new TallymeshError('lease_state', `this is no state of a lease: ${what}`);
  if (typeof id !== 'string' || !/^[0-9a-f]{32}$/.test(id) || typeof node !== 'string') throw wrong('its id or node is missing');
  try {
    text(key, "a budget's name");
  } catch {
    throw wrong('its budget has no name');
  }
  const totals: unknown[] = Array.isArray(parts) ? [told, ...parts, spent, amount] : [];
  if (totals.length < 3 || !totals.every((it) => typeof it === 'string' && /^\d{1,19}$/.test(it))) throw wrong('its amounts are no decimals');
  totals.reduce((before, it) => {
    if (BigInt(before as string) > BigInt(it as string)) throw wrong(`${before} is before ${it} in its amounts`);
    return it;
  });
  if (![ms, since, passedMs].every((it) => Number.isFinite(it) && it >= 0)) throw wrong('its times are no milliseconds');
  return state as LeaseState;
}
