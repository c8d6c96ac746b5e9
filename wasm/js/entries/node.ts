import { readFile } from 'node:fs/promises';
import { entry, type Entry } from './entry.js';
import { withoutSockets } from './without-sockets.js';

export * from './api.js';

const made: Entry = entry(
  () => readFile(new URL('./tallymesh.wasm', import.meta.url)),
  () => readFile(new URL('./tallymesh-members.wasm', import.meta.url)),
);

/** Loads the WebAssembly module. Calls after the first wait for the same load. */
export const init: Entry['init'] = made.init;

/** Loads the module if need be and opens the counters of a space. Without a `WebSocket`, nodes are reached by requests. */
export const open: Entry['open'] = withoutSockets(made.open);
