import load, { Engine } from '#bindgen';
import type { ModuleSource } from './entry.js';
import { TallymeshError } from './errors.js';

let loading: Promise<void> | undefined;
let loaded = false;

/** Loads the module once; a failed attempt may be repeated. */
export function loadOnce(source: () => ModuleSource | Promise<ModuleSource>): Promise<void> {
  loading ??= Promise.resolve()
    .then(() => load({ module_or_path: source() }))
    .then(
      () => {
        loaded = true;
      },
      (cause: unknown) => {
        loading = undefined;
        throw new TallymeshError('module_load', `tallymesh.wasm could not be loaded: ${String(cause)}`, { cause });
      },
    );
  return loading;
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
  const engine = Engine.open(space, bytes);
  if (engine) return engine;
  throw new TallymeshError('space_name', `${JSON.stringify(space)} is no space: a name is 1 to 64 of A-Z a-z 0-9 . _ -`);
}

const decoder = new TextDecoder();

/** The stable code of the engine's last failure. */
export function errorCode(engine: Engine): string {
  engine.read_error();
  return decoder.decode(engine.take());
}

/** The key of a counter's number. */
export function keyOf(engine: Engine, handle: number): string | undefined {
  return engine.read_key(handle) ? decoder.decode(engine.take()) : undefined;
}

/** The numbers that the call before left to be taken. */
export function takeHandles(engine: Engine): Uint32Array {
  return new Uint32Array(engine.take().buffer);
}

export type { Engine };
