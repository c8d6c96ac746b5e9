import { Engine, initSync } from '#bindgen';
import type { ModuleSource } from './entry.js';
import { TallymeshError } from './errors.js';

let loading: Promise<void> | undefined;
let loaded = false;

/** Loads the module once; a failed attempt may be repeated. */
export function loadOnce(source: () => ModuleSource | Promise<ModuleSource>): Promise<void> {
  loading ??= Promise.resolve()
    .then(source)
    .then(compile)
    .then(
      (module) => {
        initSync({ module });
        loaded = true;
      },
      (cause: unknown) => {
        loading = undefined;
        throw new TallymeshError('module_load', `tallymesh.wasm could not be loaded: ${String(cause)}`, { cause });
      },
    );
  return loading;
}

async function compile(source: ModuleSource): Promise<WebAssembly.Module> {
  if (source instanceof WebAssembly.Module) return source;
  if (typeof source === 'string' || source instanceof URL || source instanceof Request) source = await fetch(source);
  if (!(source instanceof Response)) return WebAssembly.compile(source as BufferSource);
  if (!source.ok) throw new Error(`${source.url}: HTTP status ${source.status}`);
  // Compiled whole and not as it streams: that works whatever type the server gives the file.
  return WebAssembly.compile(await source.arrayBuffer());
}

/** Makes the engine of one replica. */
export function newEngine(space: string, ownerKey: Uint8Array | undefined): Engine {
  if (!loaded) throw new TallymeshError('not_ready', 'the module is not loaded yet: await init() or open() first');
  const owner = ownerKey ?? crypto.getRandomValues(new Uint8Array(32));
  if (!(owner instanceof Uint8Array) || owner.length !== 32) {
    throw new TallymeshError('owner_key', 'ownerKey is the owner\'s public key: a Uint8Array of 32 bytes');
  }
  const bytes = crypto.getRandomValues(new Uint8Array(56));
  bytes.set(owner);
  const engine = Engine.open(utf8(space), bytes);
  if (engine) return engine;
  throw new TallymeshError('space_name', `${JSON.stringify(space)} is no space: a name is 1 to 64 of A-Z a-z 0-9 . _ -`);
}

const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** A string as the engine takes it. */
export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}

// What `Engine.read` reads, and what `Engine.input` tells: the numbers of wasm/src/engine.rs.
const ERROR = 0;
const KEY = 1;
export const COUNTERS = 2;
export const SHARDS = 3;
export const STATUS = 4;
export const DELTA = 5;
export const CHANGES = 6;

export const CONNECTED = 0;
export const DISCONNECTED = 1;
export const FRAME = 2;
export const CHANGED = 3;
export const TICK = 4;

/** The bytes of an input that has none. */
export const NONE: Uint8Array = new Uint8Array();

/** The stable code of the engine's last failure. */
export function errorCode(engine: Engine): string {
  return decoder.decode(read(engine, ERROR));
}

/** Reads a part of the engine's state; nothing, where there is none. */
export function read(engine: Engine, part: number, handle = 0): Uint8Array | undefined {
  return engine.read(part, handle) ? engine.take() : undefined;
}

/** The key of a counter's number. */
export function keyOf(engine: Engine, handle: number): string | undefined {
  const key = read(engine, KEY, handle);
  return key && decoder.decode(key);
}

/** The numbers that the call before left to be taken. */
export function takeHandles(engine: Engine): Uint32Array {
  return new Uint32Array(engine.take().buffer);
}

export type { Engine };
