import { entry, type Entry } from './entry.js';

export * from './api.js';

const made: Entry = entry(
  async () => (await import('./inline-module.js')).default,
  async () => (await import('./inline-members.js')).default,
);

/** Compiles the WebAssembly module, which is part of this code. Calls after the first wait for the same one. */
export const init: Entry['init'] = made.init;

/** Compiles the module if need be and opens the counters of a space. */
export const open: Entry['open'] = made.open;
