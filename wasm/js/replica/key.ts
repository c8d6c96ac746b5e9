import { TallymeshError } from '../internal/errors.js';
import { wellFormed } from '../internal/unicode.js';
import { utf8 } from './engine.js';

/** What the keys begin with that are no plain counters', such as the parts of a budget. */
export const RESERVED = '\0';

/** Checks that a key is a counter's and survives UTF-8, and gives its bytes. Their number is checked by the engine. */
export function keyBytes(key: unknown): Uint8Array {
  if (typeof key !== 'string') throw new TallymeshError('key_type', `a key is a string, not ${typeof key}`);
  if (!wellFormed(key)) {
    throw new TallymeshError('key_unicode', 'a key is well-formed Unicode: half of a surrogate pair would be lost');
  }
  if (key[0] === RESERVED) throw new TallymeshError('key_reserved', 'a key must not begin with U+0000');
  return utf8(key);
}

/** A key as a message shows it: in quotes, and not at any length. */
export function quoted(key: string): string {
  return JSON.stringify(key.length > 40 ? `${key.slice(0, 40)}…` : key);
}
