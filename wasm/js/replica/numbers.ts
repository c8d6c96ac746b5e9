// The numbers that the module and its callers go by, as wasm/src/engine.rs has them. This file has no imports, so
// that esbuild puts each number where it is used.

// What `Engine.read` reads.
export const ERROR = 0;
export const KEY = 1;
export const COUNTERS = 2;
export const SHARDS = 3;
export const STATUS = 4;
export const DELTA = 5;
export const CHANGES = 6;

// What `Engine.input` tells.
export const CONNECTED = 0;
export const DISCONNECTED = 1;
export const FRAME = 2;
export const CHANGED = 3;
export const TICK = 4;
export const RENEW = 5;

// What `Engine.poll` answers.
export const SEND = 1;
export const COUNTER = 2;
export const CLOSE = 3;
export const NEW_WRITER = 4;
export const RETURNED = 5;

/** What `Engine.find` gives for a key that has no number. */
export const NO_KEY_ID = -1;
