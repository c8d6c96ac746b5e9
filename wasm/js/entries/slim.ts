/**
 * As `tallymesh`, but it loads nothing by itself: {@link init} is handed the module.
 *
 * @module tallymesh/slim
 */
import { entry, type Entry } from './entry.js';

export * from './api.js';

const missing = (option: string) => (): never => {
  throw new Error(`tallymesh/slim loads nothing by itself: hand the module in, as \`${option}\` of init() or open()`);
};

const made: Entry = entry(missing('module'), missing('membersModule'));

/**
 * Takes the WebAssembly module that is handed in as `module`, and as `membersModule` the second one. Calls after
 * the first that succeeds need neither.
 *
 * @function
 */
export const init: Entry['init'] = made.init;

/**
 * Takes the module, if {@link init} has not, and opens the counters of a space.
 *
 * @function
 */
export const open: Entry['open'] = made.open;
