/**
 * As `tallymesh`, with the module in its code: there is no `.wasm` file to be found.
 *
 * @module tallymesh/inline
 */
import wasm from '../../dist/tallymesh.wasm';
import { entry, type Entry } from './entry.js';

export * from './api.js';

const made: Entry = entry(
  () => wasm,
  async () => (await import('./inline-members.js')).default,
);

/**
 * Compiles the WebAssembly module, which is part of this code. Calls after the first wait for the same one.
 *
 * @function
 */
export const init: Entry['init'] = made.init;

/**
 * Compiles the module if need be and opens the counters of a space.
 *
 * @throws {@link TallymeshError} `module_load`, `space_name`, `replica_name`, `owner_key`, and as {@link connect} and the storage do.
 *
 * @example
 * ```ts
 * const counters = await open({ transports: ['http://127.0.0.1:4280'] });
 * counters.add('likes');
 * ```
 *
 * @function
 */
export const open: Entry['open'] = made.open;
