import { entry, type Entry } from './entry.js';
import wasm from './tallymesh.wasm';

export * from './api.js';

// workerd compiles no bytes: it has a module ready for whoever imports one.
const made: Entry = entry(
  () => wasm,
  async () => (await import('./tallymesh-members.wasm')).default,
);

/** Loads the WebAssembly module. Calls after the first wait for the same load. */
export const init: Entry['init'] = made.init;

/** Loads the module if need be and opens the counters of a space. */
export const open: Entry['open'] = made.open;
