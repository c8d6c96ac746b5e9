import { ERROR_CLASS } from './error-symbol.js';
import type { TallymeshError } from './errors.js';

/** The class of the errors of an entry. */
export type ErrorClass = new (code: string, message: string, options?: ErrorOptions) => TallymeshError;

/**
 * The class of the errors of whoever made a replica, for entries that have no copy of the package's code: what they
 * imported would be another class. `undefined` if this is no replica.
 */
export function errorClassOf(replica: object): ErrorClass | undefined {
  return (replica as { [ERROR_CLASS]?: ErrorClass })[ERROR_CLASS];
}

/** Whether this is an error of the package, of whichever entry. */
export function isTallymeshError(error: unknown): error is TallymeshError {
  return errorClassOf(Object(error)) !== undefined;
}
