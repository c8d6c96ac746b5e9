/**
 * Budgets, which are spent from anywhere and never go under: asked for at nodes that are members, over HTTP. It needs
 * none of the other entries, and loads no module.
 *
 * @module tallymesh/budgets
 */
import { asking, idempotent } from './asking.js';
import { BudgetError, named, packed, read, type Budget, type BudgetDone, type BudgetOperation } from './budget.js';
import type { Watching } from './counters.js';
import type { TallymeshError } from './errors.js';
import type { Watched } from './replica.js';
import { Requests, type NodesOptions } from './requests.js';

export { BudgetError, type Budget, type BudgetDone, type BudgetOperation, type Holder, type Holding } from './budget.js';
export type { Watching } from './counters.js';
export { TallymeshError } from './errors.js';
export type { Watched } from './replica.js';
export { RequestError, type NodesOptions, type RequestOptions } from './requests.js';

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
   * of the operation.
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
    const once = idempotent(options.idempotencyKey);
    const body = JSON.stringify({ ops: operations.map(packed) });
    const { results } = (await this.#requests.ask({ ...asking('/transactions', 'results', options, once), body })) as { results: BudgetDone[] };
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
