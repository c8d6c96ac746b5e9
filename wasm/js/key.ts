import { utf8 } from './engine.js';
import { TallymeshError } from './errors.js';

/** Checks that a key survives UTF-8, and gives its bytes. Their number is checked by the engine. */
export function keyBytes(key: unknown): Uint8Array {
  if (typeof key !== 'string') throw new TallymeshError('key_type', `a key is a string, not ${typeof key}`);
  if (!wellFormed(key)) {
    throw new TallymeshError('key_unicode', 'a key is well-formed Unicode: half of a surrogate pair would be lost');
  }
  return utf8(key);
}

/** A key as a message shows it. */
export function shorten(key: string): string {
  return key.length > 40 ? `${key.slice(0, 40)}…` : key;
}

/** Whether no surrogate stands alone: such a string would become another one in UTF-8. */
function wellFormed(text: string): boolean {
  return !/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/.test(text);
}
