import { TallymeshError } from '../internal/errors.js';
import { freshName } from '../internal/fresh-name.js';
import { wellFormed } from '../internal/unicode.js';
import type { NodeRequest } from './requests.js';

/** What a request waits for at the node. */
export interface Waits {
  readonly level?: 'local' | 'quorum' | 'all' | undefined;
  readonly levelWaitMs?: number | undefined;
  readonly waitMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A wait of the node's that is not told. */
const LEVEL_WAIT_MS = 5_000;
/** A node waits no longer for all that it was asked to wait for. */
const WAITS_MS_MAX = 25_000;
/** Nor for rights, nor for a level. */
const WAIT_MS_MAX = 20_000;

/** A request, with what it asks for beside itself. */
export function asking(path: string, has: string, { level, levelWaitMs, signal, waitMs }: Waits, idempotencyKey?: string): NodeRequest {
  const levelMs = level && level !== 'local' ? (levelWaitMs ?? LEVEL_WAIT_MS) : 0;
  return {
    path,
    has,
    headers: {
      'tallymesh-level': level,
      'tallymesh-wait-ms': levelWaitMs,
      'tallymesh-rights-wait-ms': waitMs,
      'idempotency-key': idempotencyKey,
    },
    idempotencyKey,
    waitMs: Math.min((waitMs ?? 0) + levelMs, WAITS_MS_MAX),
    signal,
  };
}

/** The idempotency key of a write: the one that is given, or a fresh one. */
export function idempotent(idempotencyKey: string = freshName()): string {
  if (!/^[!-~]{1,255}$/.test(idempotencyKey)) {
    throw new TallymeshError('idempotency_key', `${JSON.stringify(idempotencyKey)} is no idempotency key: 1 to 255 bytes of ASCII without spaces`);
  }
  return idempotencyKey;
}

/** Checks waits that are handed on to the node. */
export function waiting<W extends Waits>(waits: W): W {
  for (const wait of [waits.waitMs, waits.levelWaitMs]) {
    if (wait !== undefined && !(Number.isInteger(wait) && wait >= 0 && wait <= WAIT_MS_MAX)) {
      throw new TallymeshError('millis', `${String(wait)} is no wait: one is 0 to ${WAIT_MS_MAX} whole milliseconds`);
    }
  }
  return waits;
}

/** Checks a text that is told to a node; `what` says what it is. */
export function text(given: unknown, what: string): string {
  if (typeof given !== 'string') throw new TallymeshError('key_type', `${what} is a string, not ${typeof given}`);
  if (!wellFormed(given)) throw new TallymeshError('key_unicode', `${what} is well-formed Unicode`);
  return given;
}

/** Checks a name that is part of an address, and makes it one. `code` is what the node would say of a length. */
export function part(given: unknown, what: string, code: string, bytesMax: number): string {
  const name = text(given, what);
  const bytes = new TextEncoder().encode(name).length;
  if (bytes < 1 || bytes > bytesMax) throw new TallymeshError(code, `${what} has 1 to ${bytesMax} bytes of UTF-8, not ${bytes}`);
  // In an address these are steps through it, however they are written.
  if (/^\.{1,2}$/.test(name)) throw new TallymeshError(code, `${what} is not ${JSON.stringify(name)}, which no address can have as a part`);
  return encodeURIComponent(name);
}

/** Checks a whole number, and gives it as decimals; `what` says what it is, and `code` what the node would say. */
export function whole(given: unknown, what: string, code: string, least: bigint, most: bigint): string {
  const exact = typeof given === 'bigint' || Number.isSafeInteger(given) ? BigInt(given as number) : undefined;
  if (exact === undefined || exact < least || exact > most) {
    const shown = typeof given === 'number' || typeof given === 'bigint' ? given : typeof given;
    throw new TallymeshError(code, `${shown} is no ${what}: one is a whole number from ${least} to ${most}, beyond 2^53 as a bigint`);
  }
  return String(exact);
}
