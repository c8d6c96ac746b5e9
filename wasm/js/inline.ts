import wasm from '../dist/tallymesh.wasm';
import { entry, type Entry } from './entry.js';

export * from './api.js';

const made: Entry = entry(
  () => wasm,
  async () => (await import('./inline-members.js')).default,
);

/** Compiles the WebAssembly module, which is part of this code. Calls after the first wait for the same one. */
export const init: Entry['init'] = made.init;

/** Compiles the module if need be and makes a replica. */
export const open: Entry['open'] = made.open;
