import { amount } from '../internal/amount.js';
import { TallymeshError } from '../internal/errors.js';
import type { Replica } from './replica.js';

/** One step of {@link Replica.transact}: the method of that name, with what it takes. */
export type Operation =
  | {
      /** {@link Replica.add} */
      readonly op: 'add';
      /** The counter's key. */
      readonly key: string;
      /** How much to add. Default: 1. */
      readonly by?: number | bigint;
    }
  | {
      /** {@link Replica.set} */
      readonly op: 'set';
      /** The counter's key. */
      readonly key: string;
      /** What takes the place of the counter's value. */
      readonly value: number | bigint;
    }
  | {
      /** {@link Replica.expire} */
      readonly op: 'expire';
      /** The counter's key. */
      readonly key: string;
      /** When it expires. */
      readonly at: Date;
    }
  | {
      /** {@link Replica.reset}, {@link Replica.delete} or {@link Replica.persist} */
      readonly op: 'reset' | 'delete' | 'persist';
      /** The counter's key. */
      readonly key: string;
    };

/** Collects the operations of one transaction, within the function that {@link Replica.transact} was given. */
export class Transaction {
  #operations: Operation[] | undefined = [];

  /** As {@link Replica.add}. */
  add(key: string, by: number | bigint = 1): void {
    this.#note({ op: 'add', key, by });
  }

  /** As {@link Replica.set}. */
  set(key: string, value: number | bigint): void {
    this.#note({ op: 'set', key, value });
  }

  /** As {@link Replica.reset}. */
  reset(key: string): void {
    this.#note({ op: 'reset', key });
  }

  /** As {@link Replica.delete}. */
  delete(key: string): void {
    this.#note({ op: 'delete', key });
  }

  /** As {@link Replica.expire}. */
  expire(key: string, at: Date): void {
    this.#note({ op: 'expire', key, at });
  }

  /** As {@link Replica.persist}. */
  persist(key: string): void {
    this.#note({ op: 'persist', key });
  }

  /** @internal Takes what was collected by `work`; nothing is taken after it. */
  of(work: (transaction: Transaction) => void): Operation[] {
    const operations = this.#operations!;
    const later: unknown = work(this);
    this.#operations = undefined;
    if (later instanceof Promise) throw new TallymeshError('transaction_over', 'transact takes a function that is done when it returns, and no async one');
    return operations;
  }

  #note(operation: Operation): void {
    if (!this.#operations) throw new TallymeshError('transaction_over', `this transaction was made; ${operation.op} comes too late for it`);
    this.#operations.push(operation);
  }
}

/** The names by the numbers of wasm/src/engine.rs. */
const NAMES: readonly string[] = ['add', 'set', 'reset', 'delete', 'expire', 'persist'];

/** The kinds before this one always leave a counter that exists. */
const DELETE = 3;

/** An operation as the engine takes it, but for its key. */
export interface Packed {
  readonly kind: number;
  /** The amount or the time. */
  readonly number: bigint;
}

/** Checks an operation, but for its key, and packs it. */
export function pack(operation: Operation): Packed {
  const { op } = operation;
  const kind = NAMES.indexOf(op);
  if (kind < 0) throw new TallymeshError('operation', `there is no operation ${JSON.stringify(op)}; there are ${NAMES}`);
  if (op === 'add') return { kind, number: amount(operation.by ?? 1) };
  if (op === 'set') return { kind, number: amount(operation.value) };
  return { kind, number: op === 'expire' ? millis(operation.at) : 0n };
}

/** Whether an operation did anything, given what the engine told of it. */
export function acted({ kind }: Packed, told: boolean): boolean {
  return told || kind < DELETE;
}

/** The time of a date; whatever is before 1970 is as past as 1970 is. */
function millis(at: unknown): bigint {
  const time = at instanceof Date ? at.getTime() : NaN;
  if (Number.isNaN(time)) throw new TallymeshError('not_a_date', 'an expiry is a valid Date');
  return BigInt(Math.max(time, 0));
}
