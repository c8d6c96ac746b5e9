/**
 * Budgets, which are spent from anywhere and never go under: asked for at nodes that are members, over HTTP. It needs
 * none of the other entries, and loads no module.
 *
 * @module tallymesh/budgets
 */
export {
  budgets, type BudgetListOptions, type BudgetReadOptions, type Budgets, type BudgetsOptions, type BudgetWriteOptions, type LeaseOptions,
  type Transferred,
} from '../clients/budgets.js';
export { BudgetError, type Budget, type BudgetDone, type BudgetOperation, type Holder, type Holding, type LeaseTold } from '../clients/budget-wire.js';
export type { Lease, LeaseState, TellOptions } from '../clients/lease.js';
export { RequestError, type NodesOptions, type RequestOptions } from '../clients/requests.js';
export { TallymeshError } from '../internal/errors.js';
export type { Watching } from '../replica/open-counters.js';
export type { Watched } from '../replica/replica.js';
