import { amount } from './amount.js';
import { TallymeshError } from './errors.js';

/** One step of {@link Replica.transact}: the method of that name, with what it takes. */
export type Operation =
  | { readonly op: 'add'; readonly key: string; readonly by?: number | bigint }
  | { readonly op: 'set'; readonly key: string; readonly value: number | bigint }
  | { readonly op: 'expire'; readonly key: string; readonly at: Date }
  | { readonly op: 'reset' | 'delete' | 'persist'; readonly key: string };

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
