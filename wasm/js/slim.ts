import { entry, type Entry } from './entry.js';

export * from './api.js';

const missing = (option: string) => (): never => {
  throw new Error(`tallymesh/slim loads nothing by itself: hand the module in, as \`${option}\` of init() or open()`);
};

const made: Entry = entry(missing('module'), missing('membersModule'));

/**
 * Takes the WebAssembly module that is handed in as `module`, and as `membersModule` the second one. Calls after
 * the first that succeeds need neither.
 */
export const init: Entry['init'] = made.init;

/** Takes the module, if {@link init} has not, and makes a replica. */
export const open: Entry['open'] = made.open;
