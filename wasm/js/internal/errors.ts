import { ERROR_CLASS } from './error-symbol.js';

/**
 * An error of this package. `code` is stable and meant for programs; the message is meant for people
 * and may change. Errors of all entries have the property `Symbol.for('tallymesh.error')`.
 */
export class TallymeshError extends Error {
  /** @internal Builds shorten the names of classes, and this one is for people. */
  static override readonly name: string = (this.prototype.name = 'TallymeshError');

  /** What went wrong, as a stable word such as `"key_length"`; the table is in the package's README. */
  readonly code: string;

  /** @internal */
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(`${message} (${code})`, options);
    this.code = code;
  }

  /** @internal */
  get [ERROR_CLASS](): typeof TallymeshError {
    return TallymeshError;
  }
}

const RULES: Record<string, string> = {
  key_length: 'a key has 1 to 512 bytes of UTF-8',
  overflow: 'what this replica added would leave the range of a 64-bit integer',
  transaction_too_large: 'a transaction has at most 10000 operations',
  clock_exhausted: 'this replica has no transactions left; open a new one',
  unknown_handle: 'this counter object was freed; make a new one',
  counters_full: 'the space cannot hold one more counter',
  writers_full: 'the space cannot hold one more writer',
  not_covered: 'the message builds on changes that were not seen here; merge those first',
  own_clock_ahead: 'another process writes under the id of this replica; open a new one',
  version: 'the peer speaks another version; upgrade the older side',
  members_unsupported: 'the space has members; await upgrade(), then do it again',
  wrong_space: 'the peer sent a frame of another space',
};

/** Takes in sentences for further codes. */
export function explain(rules: Readonly<Record<string, string>>): void {
  Object.assign(RULES, rules);
}

/** Makes the error for a code of the core. */
export function coded(code: string, context: string): TallymeshError {
  return new TallymeshError(code, `${context}: ${RULES[code] ?? 'the bytes are not what Tallymesh writes'}`);
}
