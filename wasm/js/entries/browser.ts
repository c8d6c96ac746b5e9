/**
 * Counters that are written anywhere and add up everywhere. In a page this entry fetches its WebAssembly module from
 * beside its code; in Node, Deno, Bun and Cloudflare Workers it finds it in the way of each.
 *
 * @module tallymesh
 */
import { entry, type Entry } from './entry.js';

export * from './api.js';

const made: Entry = entry(
  () => fetch(new URL('./tallymesh.wasm', import.meta.url)),
  () => fetch(new URL('./tallymesh-members.wasm', import.meta.url)),
);

/**
 * Loads the WebAssembly module. Calls after the first wait for the same load.
 *
 * @function
 */
export const init: Entry['init'] = made.init;

/**
 * Loads the module if need be and opens the counters of a space.
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
