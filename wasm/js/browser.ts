import { entry, type Entry } from './entry.js';

export * from './api.js';

const made: Entry = entry(
  () => fetch(new URL('./tallymesh.wasm', import.meta.url)),
  () => fetch(new URL('./tallymesh-members.wasm', import.meta.url)),
);

/** Loads the WebAssembly module. Calls after the first wait for the same load. */
export const init: Entry['init'] = made.init;

/** Loads the module if need be and makes a replica. */
export const open: Entry['open'] = made.open;
