import { amount } from '../internal/amount.js';
import { TallymeshError } from '../internal/errors.js';
import { asking, text, whole, type Waits } from './arguments.js';
import { decimals, RequestError, type NodeRequest, type Failure } from './requests.js';

/** What of a budget, or of what a limit allows in a period, is held where, as far as the node knows that was asked. */
export interface Holding {
  /** What this node may use now. */
  readonly here: bigint;
  /** What it may use once all members have acknowledged it: it came under idempotency keys. */
  readonly pending: bigint;
  /** What others hold. */
  readonly elsewhere: bigint;
}

/** What one writer holds of a budget. */
export interface Holder {
  /** The writer, as 32 hex digits. */
  readonly writer: string;
  /** The key of the member whose it is or was, if it is known: 64 hex digits. */
  readonly owner?: string;
  /** Whether it is the node that was asked. */
  readonly own: boolean;
  /** What it may spend. */
  readonly rights: bigint;
  /** What it may mint, under a cap. */
  readonly room?: bigint;
  /** What it has set aside for leases. */
  readonly leased: bigint;
}

/** Rights that a member has set aside for somebody who may spend them without asking. */
export interface LeaseTold {
  /** The lease, as 32 hex digits. */
  readonly id: string;
  /** The writer that holds it, as 32 hex digits. */
  readonly writer: string;
  /** What is left of it there: what its holder has not told yet, and what it has not spent. */
  readonly left: bigint;
  /** When that returns at the latest, by the member's clock: milliseconds since 1970. */
  readonly until: bigint;
}

/** What a budget comes to at the node that was asked. */
export interface Budget {
  /** Its name. */
  readonly key: string;
  /** What was minted less what was spent. */
  readonly value: bigint;
  /** What the value never goes under. */
  readonly floor: bigint;
  /** What the value never goes over, if it has a cap. */
  readonly cap?: bigint;
  /** What can be spent: all of it together is the value less the floor. */
  readonly rights: Holding;
  /** What can be minted, if it has a cap: all of it together is the cap less the value. */
  readonly room?: Holding;
  /** What is on lease. It is not spent yet, and part of what `rights` tells as held elsewhere. */
  readonly leased: bigint;
  /** What is left of which lease, if there are any; told when `holders` are. */
  readonly leases?: readonly LeaseTold[];
  /** Who holds what; not told in answers to writes, nor while a budget is watched. */
  readonly holders?: readonly Holder[];
}

/** What becomes of one operation of a transaction. */
export interface BudgetDone {
  /** The budget, or the counter. */
  readonly key: string;
  /** What the budget comes to after all of the transaction. */
  readonly budget?: Budget;
  /** Of a `transfer`: what the budgets come to that were paid into. */
  readonly to?: readonly Budget[];
  /** Of a `lease`: what is left of it. */
  readonly lease?: LeaseTold;
  /** Of an `add`: what the counter shows. */
  readonly value?: bigint;
}

/** One step of `transact()`; docs/budgets.md tells what each does. Amounts are 0 to 2^63 - 1. */
export type BudgetOperation =
  | {
      /** What is done to the budget. */
      readonly op: 'mint' | 'lower_floor' | 'raise_floor' | 'lower_cap' | 'raise_cap';
      /** The budget. */
      readonly key: string;
      /** How much. */
      readonly amount: number | bigint;
    }
  | {
      /** Spends of the budget. */
      readonly op: 'spend';
      /** The budget. */
      readonly key: string;
      /** How much. */
      readonly amount: number | bigint;
      /** The lease that it is spent of first, as 32 hex digits: the rest is taken from rights. */
      readonly lease?: string;
    }
  | {
      /** Sets rights aside. A transaction that has one takes no idempotency key, and is not tried again. */
      readonly op: 'lease';
      /** The budget: its name has at most 429 bytes in UTF-8. */
      readonly key: string;
      /** The lease's id, 32 hex digits in lower case, drawn at random: by it the lease is given once at a node. */
      readonly id: string;
      /** How much. */
      readonly amount: number | bigint;
      /** For how long, in milliseconds: a second to 30 days. */
      readonly ms: number;
    }
  | {
      /** Ends a lease at the node that is asked: what is left of it returns. */
      readonly op: 'end_lease';
      /** The budget. */
      readonly key: string;
      /** The lease's id. */
      readonly id: string;
    }
  | {
      /** Moves rights, or room, from the node that is asked to another member. */
      readonly op: 'grant' | 'grant_room';
      /** The budget. */
      readonly key: string;
      /** The member's key (64 hex digits), or its present writer (32). */
      readonly to: string;
      /** How much. */
      readonly amount: number | bigint;
    }
  | {
      /** Spends of one budget, and pays that into others. */
      readonly op: 'transfer';
      /** The budget that is spent from. */
      readonly key: string;
      /** The others, and how much each gets. */
      readonly to: Readonly<Record<string, number | bigint>>;
    }
  | {
      /** Adds to a counter. */
      readonly op: 'add';
      /** The counter. */
      readonly key: string;
      /** How much, which may be negative. Default: 1. */
      readonly by?: number | bigint;
    };

const LEASED_BYTES_MAX = 429;
const LEASE_MS_MIN = 1_000n;
const LEASE_MS_MAX = 2_592_000_000n;

/** Checks an operation, and makes it what a node takes. */
export function packed(operation: BudgetOperation): object {
  const { op } = operation;
  const key = named(operation.key);
  if (op === 'add') return { op, key, by: String(amount(operation.by ?? 1)) };
  if (op === 'transfer') {
    return { op, key, to: Object.entries(operation.to).map(([key, much]) => ({ key: named(key), amount: quantity(much) })) };
  }
  if (op === 'end_lease') return { op, key, id: leaseId(operation.id) };
  const more = operation as { to?: string; lease?: string };
  const flow = { op, key, to: more.to, lease: more.lease === undefined ? undefined : leaseId(more.lease), amount: quantity(operation.amount) };
  if (op !== 'lease') return flow;
  const bytes = new TextEncoder().encode(key).length;
  if (bytes > LEASED_BYTES_MAX) {
    throw new TallymeshError('leased_name', `rights are leased of budgets whose names have at most ${LEASED_BYTES_MAX} bytes of UTF-8, not ${bytes}`);
  }
  return { ...flow, id: leaseId(operation.id), lease_ms: whole(operation.ms, 'time of a lease in milliseconds', 'lease_range', LEASE_MS_MIN, LEASE_MS_MAX) };
}

/**
 * Makes operations a request, under an idempotency key if there is one.
 *
 * @internal
 */
export function transaction(operations: readonly BudgetOperation[], waits: Waits, idempotencyKey?: string): NodeRequest {
  return { ...asking('/transactions', 'results', waits, idempotencyKey), body: JSON.stringify({ ops: operations.map(packed) }) };
}

/** Checks that a name can be told to a node; it knows itself how long one may be. */
export function named(key: unknown): string {
  return text(key, "a budget's name");
}

/** Checks a lease's id. */
function leaseId(id: unknown): string {
  if (typeof id === 'string' && /^[0-9a-f]{32}$/.test(id)) return id;
  throw new TallymeshError('lease_id', `${JSON.stringify(id) ?? typeof id} is no lease's id: one is 32 hex digits in lower case`);
}

/** Checks an amount of a budget. */
export function quantity(much: unknown): string {
  const exact = amount(much);
  if (exact < 0n) throw new TallymeshError('amount_range', `${much} is no amount of a budget: one is 0 to 2^63 - 1`);
  return String(exact);
}

/** Reads what a node tells of budgets. What has rights, a budget or a holder, says what is leased only if anything is. */
export const read = decimals(
  ['value', 'floor', 'cap', 'here', 'pending', 'elsewhere', 'rights', 'room', 'asked', 'leased', 'left', 'until'],
  (told) => ('rights' in told ? { leased: 0n, ...told } : told),
);

/** What a request of budgets came to, where it is an error. */
export class BudgetError extends RequestError {
  /** @internal */
  static override readonly name: string = (this.prototype.name = 'BudgetError');

  /** Of a transaction that was refused: the place of the operation, from 0. */
  declare readonly op: number | undefined;
  /** Of `rights_short` and `room_short`: what is held where, as far as the node knows. */
  declare readonly held: Holding | undefined;
  /** Of these: for how much the node asks other members, if they have as much; 0 if they have not. */
  declare readonly asked: bigint | undefined;

  /** @internal */
  constructor(failure: Failure, applied: RequestError['applied'], asked: NodeRequest) {
    super(failure, applied, asked);
    const { told } = failure.more;
    Object.assign(this, { op: told?.op, held: told?.held, asked: told?.held && (told.asked ?? 0n) });
  }
}
