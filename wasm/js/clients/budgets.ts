import { TallymeshError } from '../internal/errors.js';
import { freshName } from '../internal/fresh-name.js';
import type { Watching } from '../replica/open-counters.js';
import type { Watched } from '../replica/replica.js';
import { asking, idempotent } from './arguments.js';
import { BudgetError, named, quantity, read, transaction, type Budget, type BudgetDone, type BudgetOperation } from './budget-wire.js';
import { checked, Lease, type LeaseState } from './lease.js';
import { Requests, type NodesOptions } from './requests.js';

/** Which nodes {@link budgets} asks, and how. Spending and transfers take a ticket of the role writer. */
export interface BudgetsOptions extends NodesOptions {}

/** How a read waits. */
export interface BudgetReadOptions {
  /**
   * How many members are asked what they hold before a budget is read, or hold a write durably before it is answered.
   * Default: `local`, the node that is asked.
   */
  readonly level?: 'local' | 'quorum' | 'all';
  /** How long the node waits for that, in milliseconds, at most 20000. Default: 5000. */
  readonly levelWaitMs?: number;
  /**
   * Ends it. It throws the signal's reason; a write that may count by then throws `aborted`, with its idempotency key.
   */
  readonly signal?: AbortSignal;
}

/** How a write is made. */
export interface BudgetWriteOptions extends BudgetReadOptions {
  /**
   * 1 to 255 bytes of ASCII, such as an order's number: the write counts once, however often and at whichever member it
   * is asked for with it. Default: a fresh one, for the tries of this call.
   */
  readonly idempotencyKey?: string;
  /** How long the node waits for rights that it lacks, in milliseconds, at most 20000. Default: 0, it refuses at once. */
  readonly waitMs?: number;
}

/** How rights are leased. */
export interface LeaseOptions extends BudgetReadOptions {
  /** For how long, in milliseconds: a second to 30 days. */
  readonly ms: number;
  /** How long the node waits for rights that it lacks, in milliseconds, at most 20000. Default: 0, it refuses at once. */
  readonly waitMs?: number;
  /** 32 hex digits in lower case, drawn at random, by which a node gives the lease once. Default: a fresh one. */
  readonly id?: string;
  /**
   * Of a lease that was asked for before with this `id`, and may have been given: what `Date.now()` was before that, so
   * that it does not last longer here than at the node. Default: now.
   */
  readonly since?: number;
}

/** How budgets are listed. */
export interface BudgetListOptions extends BudgetReadOptions {
  /** Only names after this one, by their bytes: the last that was seen, to go on from there. */
  readonly after?: string;
}

/** What a transfer comes to. */
export interface Transferred {
  /** The budget that was spent from. */
  readonly from: Budget;
  /** Those that were paid into. */
  readonly to: readonly Budget[];
}

/**
 * Reaches the budgets of a space at its members. Nothing is asked before a method is called.
 *
 * @param nodes - the addresses of one node or several, or options.
 * @throws {@link TallymeshError} `url` or `ticket`.
 *
 * @example
 * ```ts
 * const shop = budgets({ urls: ['https://a.example', 'https://b.example'], space: 'shop', ticket });
 * const { value } = await shop.spend('gift:7c1b', 25, { idempotencyKey: order.id, waitMs: 5_000 });
 * ```
 */
export function budgets(nodes: string | URL | readonly (string | URL)[] | BudgetsOptions): Budgets {
  if (typeof nodes === 'string' || nodes instanceof URL) return new Budgets({ urls: [nodes] });
  return new Budgets('urls' in nodes ? nodes : { urls: nodes });
}

/**
 * The budgets of a space, as {@link budgets} gives them.
 *
 * Each write has an idempotency key. It is tried again under that key, at the same or another node, when a connection
 * breaks, a node does not answer, or says 429, 502, 503 or 504; so it counts once. What is paid in under a key can be
 * spent once all members have acknowledged it.
 *
 * What a node refuses is a {@link BudgetError} with the node's code (docs/errors.md); what cannot be asked, such as an
 * amount that is no whole number, a {@link TallymeshError}, before any request.
 */
class Budgets {
  readonly #requests: Requests;

  /** @internal */
  constructor(options: BudgetsOptions) {
    this.#requests = new Requests(options, read, BudgetError);
  }

  /**
   * Reads a budget, with who holds what of it; `undefined` if the node knows none of this name.
   *
   * @throws {@link BudgetError}
   */
  async get(key: string, options: BudgetReadOptions = {}): Promise<Budget | undefined> {
    // In an address, these are no names. Of all that begin so, the name itself is the first.
    if (/^\.{0,2}$/.test(named(key))) {
      const { budgets: [first] } = await this.#page({ prefix: key, limit: '1' }, options);
      return first?.key === key ? first : undefined;
    }
    try {
      return (await this.#requests.ask(asking(`/budgets/${encodeURIComponent(key)}`, 'rights', options))) as Budget;
    } catch (error) {
      if ((error as TallymeshError).code === 'no_budget') return undefined;
      throw error;
    }
  }

  /**
   * Lists budgets by name, those whose names begin with `prefix`, with who holds what of them. More are asked for as
   * they are taken.
   *
   * @throws {@link BudgetError}
   *
   * @example
   * ```ts
   * for await (const { key, value } of shop.list('gift:')) console.log(key, value);
   * ```
   */
  async *list(prefix = '', { after, ...options }: BudgetListOptions = {}): AsyncGenerator<Budget, void, undefined> {
    for (let next: string | null | undefined = after; ; ) {
      const page: Page = await this.#page({ prefix, ...(next != null && { after: next }) }, options);
      yield* page.budgets;
      if ((next = page.next) == null) return;
    }
  }

  /**
   * A budget now, and again when it has changed at the node, without who holds what; of a prefix, each of its budgets.
   * `undefined` is a budget that the node does not know yet. Values that came and went meanwhile are passed over, and
   * one may come twice when a connection breaks and is made again, which is tried without end.
   *
   * @param options - a signal that ends it.
   * @throws {@link BudgetError}, if the node refuses; the reason of `signal`, once that is aborted.
   *
   * @example
   * ```ts
   * for await (const budget of shop.watch('gift:7c1b', { signal })) render(budget?.value ?? 0n);
   * ```
   */
  watch(key: string, options?: Watching): AsyncGenerator<Budget | undefined, void, undefined>;
  watch(watched: Watched, options?: Watching): AsyncGenerator<Budget, void, undefined>;
  async *watch(watched: string | Watched, options: Watching = {}): AsyncGenerator<Budget | undefined, void, undefined> {
    const one = typeof watched === 'string';
    const query = new URLSearchParams(one ? { key: named(watched) } : { prefix: named(watched.prefix) });
    let known = !one;
    for await (const { name, data, id } of this.#requests.events(asking(`/events?${query}`, '', options))) {
      if (name === 'budget') {
        known = true;
        yield read(data) as Budget;
      } else if (id && !known) {
        // All was told that there is.
        known = true;
        yield undefined;
      }
    }
  }

  /**
   * Pays into a budget, or gives back what was spent. Makes a budget without a cap if there is none of this name. Takes
   * the role editor.
   *
   * @throws {@link BudgetError}, as all writes; {@link TallymeshError} for what cannot be asked.
   */
  mint(key: string, amount: number | bigint, options?: BudgetWriteOptions): Promise<Budget> {
    return this.#one({ op: 'mint', key, amount }, options);
  }

  /**
   * Spends of a budget. The node takes rights that it holds, and asks other members for what it lacks: with `waitMs` it
   * waits for that. A refusal, `rights_short`, tells in `held` and `asked` what is held where.
   *
   * @throws {@link BudgetError}
   */
  spend(key: string, amount: number | bigint, options?: BudgetWriteOptions): Promise<Budget> {
    return this.#one({ op: 'spend', key, amount }, options);
  }

  /**
   * Leases rights that the node holds, to be spent here without asking while the time lasts: see {@link Lease}. With
   * `waitMs` the node waits for rights that it lacks. Takes the role writer.
   *
   * A node that does not answer is asked once more, as it gives the lease only once, and then the next one. What it may
   * have set aside returns when the time is over.
   *
   * @param amount - 0 to 2^63 - 1.
   * @throws {@link BudgetError} `rights_short`; {@link TallymeshError} `lease_used`, if it was given before under this `id`,
   * and has been spent of or is over; `leased_name`, `lease_range`, `lease_id`, as for all that cannot be asked.
   *
   * @example
   * ```ts
   * const lease = await shop.lease('gift:7c1b', 20, { ms: 3_600_000 });
   * lease.spend(3); // with no network
   * await lease.tell();
   * await lease.end();
   * ```
   */
  async lease(key: string, amount: number | bigint, { ms, id = freshName(), since = Date.now(), ...waits }: LeaseOptions): Promise<Lease> {
    const begun = performance.now();
    if (!Number.isFinite(since)) throw new TallymeshError('millis', `${String(since)} is no time: one is milliseconds since 1970`);
    let node = '';
    const { results: [done] } = (await this.#requests.ask({
      ...transaction([{ op: 'lease', key, amount, id, ms }], waits),
      each: 2,
      unsure: `the rights may be set aside for a while: ask again with id ${JSON.stringify(id)} and since ${since}`,
      onAnswer: (answered) => (node = answered),
    })) as { results: BudgetDone[] };
    const most = quantity(amount);
    if (done!.lease?.left !== BigInt(most)) {
      throw new TallymeshError('lease_used', `the lease ${id} was given before, and ${done!.lease?.left ?? 0n} are left of it: go on from its state`);
    }
    const passedMs = performance.now() - begun;
    return new Lease(this.#requests, { id, key, node, amount: most, spent: '0', told: '0', parts: [], ms, since, passedMs });
  }

  /**
   * Goes on with a lease from its {@link Lease.state}, such as after a reload. What was spent by then and not known to be
   * told is told again, and counts once. The time until now is known from the wall clock alone.
   *
   * @throws {@link TallymeshError} `lease_state`.
   */
  resume(state: LeaseState): Lease {
    return new Lease(this.#requests, checked(state));
  }

  /** Lets the value go lower, as for an overdraft. Makes a budget if there is none. Takes the role editor. */
  lowerFloor(key: string, by: number | bigint, options?: BudgetWriteOptions): Promise<Budget> {
    return this.#one({ op: 'lower_floor', key, amount: by }, options);
  }

  /** Lets the value go less low. Takes the role editor. */
  raiseFloor(key: string, by: number | bigint, options?: BudgetWriteOptions): Promise<Budget> {
    return this.#one({ op: 'raise_floor', key, amount: by }, options);
  }

  /** Lets the value go less high, if there is a cap. Takes the role editor. */
  lowerCap(key: string, by: number | bigint, options?: BudgetWriteOptions): Promise<Budget> {
    return this.#one({ op: 'lower_cap', key, amount: by }, options);
  }

  /** Lets the value go higher. Makes a budget with a cap if there is none of this name. Takes the role editor. */
  raiseCap(key: string, by: number | bigint, options?: BudgetWriteOptions): Promise<Budget> {
    return this.#one({ op: 'raise_cap', key, amount: by }, options);
  }

  /**
   * Moves rights from the node that is asked to another member. Takes the role editor.
   *
   * @param to - the member's key (64 hex digits), or its present writer (32), as {@link Holder} has both.
   */
  grant(key: string, to: string, amount: number | bigint, options?: BudgetWriteOptions): Promise<Budget> {
    return this.#one({ op: 'grant', key, to, amount }, options);
  }

  /** The same for room under a cap, which is what can be minted. */
  grantRoom(key: string, to: string, amount: number | bigint, options?: BudgetWriteOptions): Promise<Budget> {
    return this.#one({ op: 'grant_room', key, to, amount }, options);
  }

  /**
   * Spends of one budget and pays that into others, in one transaction: nobody ever sees the one without the other.
   *
   * @param to - the others, and how much each gets.
   *
   * @example
   * ```ts
   * await shop.transfer('till', { 'cashback:ann': 3 });
   * ```
   */
  async transfer(from: string, to: Readonly<Record<string, number | bigint>>, options?: BudgetWriteOptions): Promise<Transferred> {
    const [done] = await this.#write([{ op: 'transfer', key: from, to }], options);
    return { from: done!.budget!, to: done!.to! };
  }

  /**
   * Makes several operations, all of them or none, which every replica sees together. Of a refusal `op` is the place
   * of the operation. One with a `lease` takes no idempotency key (`lease_once`), and is not tried again.
   *
   * @example
   * ```ts
   * await shop.transact([{ op: 'spend', key: 'gift:7c1b', amount: 25 }, { op: 'add', key: 'sold' }]);
   * ```
   */
  transact(operations: readonly BudgetOperation[], options?: BudgetWriteOptions): Promise<readonly BudgetDone[]> {
    return this.#write(operations, options);
  }

  async #one(operation: BudgetOperation, options?: BudgetWriteOptions): Promise<Budget> {
    const [done] = await this.#write([operation], options);
    return done!.budget!;
  }

  async #write(operations: readonly BudgetOperation[], options: BudgetWriteOptions = {}): Promise<readonly BudgetDone[]> {
    const leases = operations.some(({ op }) => op === 'lease');
    if (leases && options.idempotencyKey !== undefined) {
      throw new TallymeshError('lease_once', 'a lease has an id of its own, by which it is given once, and takes no idempotency key');
    }
    const asked = leases
      ? { ...transaction(operations, options), retries: 0, unsure: 'it may have been made, and would be made again' }
      : transaction(operations, options, idempotent(options.idempotencyKey));
    const { results } = (await this.#requests.ask(asked)) as { results: BudgetDone[] };
    return results;
  }

  async #page(query: Record<string, string>, options: BudgetReadOptions): Promise<Page> {
    return (await this.#requests.ask(asking(`/budgets?${new URLSearchParams(query)}`, 'budgets', options))) as Page;
  }
}

export type { Budgets };

/** A part of a list. */
interface Page {
  readonly budgets: readonly Budget[];
  readonly next?: string | null;
}
