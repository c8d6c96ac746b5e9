/**
 * Limits, by which so much is allowed in each period, in the whole mesh: asked for at nodes that are members, over HTTP.
 * It needs none of the other entries, and loads no module.
 *
 * @module tallymesh/limits
 */
export {
  limits, type Allowance, type Allowed, type AllowOptions, type Limit, type LimitOf, type LimitReadOptions, type Limits, type LimitWriteOptions,
  type NotAllowed, type Period,
} from '../clients/limits.js';
export type { Holding } from '../clients/budget-wire.js';
export { RequestError, type NodesOptions, type RequestOptions } from '../clients/requests.js';
export { TallymeshError } from '../internal/errors.js';
