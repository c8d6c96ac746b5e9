import { TallymeshError } from './errors.js';

/**
 * Checks an amount that cannot cross as a 32-bit integer and makes it a 64-bit one.
 *
 * A `number` beyond 2^53 may already be rounded, so it is refused rather than counted wrongly.
 */
export function amount(by: unknown): bigint {
  if (typeof by === 'bigint') {
    if (BigInt.asIntN(64, by) === by) return by;
    throw new TallymeshError('amount_range', `${by} is no amount: one is a 64-bit integer, -2^63 to 2^63 - 1`);
  }
  if (Number.isSafeInteger(by)) return BigInt(by as number);
  if (Number.isInteger(by)) {
    throw new TallymeshError('amount_unsafe', `${by} is no amount: a number beyond 2^53 is not exact; pass a bigint`);
  }
  const shown = typeof by === 'number' ? by : typeof by;
  throw new TallymeshError('amount_not_integer', `${shown} is no amount: one is a whole number or a bigint`);
}
