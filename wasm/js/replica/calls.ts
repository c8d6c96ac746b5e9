// The calls of a compiled module. They are made as the script does that wasm-bindgen writes beside it, whose
// release is pinned and whose types say what is exported; but that script also has what only other programs
// use, which would be more to download.
import type { InitOutput } from '#bindgen';

/** The class of a module's engines. */
export type EngineClass = ReturnType<typeof bind>;

/** What both modules' engines do. */
export type Engine = InstanceType<EngineClass>;

/** Starts a module and gives what it exports. */
export function instantiate<T extends InitOutput>(module: WebAssembly.Module): T {
  return new WebAssembly.Instance(module).exports as unknown as T;
}

/** Makes the class of the engines of a module that was started. */
export function bind(wasm: InitOutput) {
  let view = new Uint8Array();
  // The memory is another one whenever it has grown.
  const memory = (): Uint8Array => (view.byteLength ? view : (view = new Uint8Array(wasm.memory.buffer)));
  /** Hands bytes to the next call. */
  const pass = (bytes: Uint8Array): void => {
    const at = wasm.room(bytes.length) >>> 0;
    memory().set(bytes, at);
  };
  // For engines that are dropped without `free`.
  const dropped = new FinalizationRegistry<number>((at) => wasm.engine_free(at));

  return class Engine {
    static readonly pass = pass;
    at: number;

    /** An engine of the module's, by where it is. */
    constructor(at: number) {
      this.at = at;
      dropped.register(this, at, this);
    }

    /** The engine at a place, if there is one. */
    static of<T>(this: new (at: number) => T, at: number): T | undefined {
      return at ? new this(at) : undefined;
    }

    /** Makes an engine of 56 bytes and the name of a space. */
    static open(bytes: Uint8Array) {
      pass(bytes);
      return this.of(wasm.engine_open());
    }

    free(): void {
      dropped.unregister(this);
      wasm.engine_free(this.at);
      this.at = 0;
    }

    add(keyId: number, by: bigint): number {
      return wasm.engine_add(this.at, keyId, by);
    }

    add_small(keyId: number, by: number): number {
      return wasm.engine_add_small(this.at, keyId, by);
    }

    commit(): number {
      return wasm.engine_commit(this.at);
    }

    deadline(): number {
      return wasm.engine_deadline(this.at);
    }

    expiry_at(keyId: number): number {
      return wasm.engine_expiry_at(this.at, keyId);
    }

    find(key: Uint8Array, pin: boolean): number {
      pass(key);
      return wasm.engine_find(this.at, +pin);
    }

    input(what: number, now: number, link: number, bytes: Uint8Array): void {
      pass(bytes);
      wasm.engine_input(this.at, what, now, link);
    }

    merge(bytes: Uint8Array): number {
      pass(bytes);
      return wasm.engine_merge(this.at);
    }

    poll(): number {
      return wasm.engine_poll(this.at);
    }

    read(what: number, keyId: number): number {
      return wasm.engine_read(this.at, what, keyId);
    }

    release(keyId: number): number {
      return wasm.engine_release(this.at, keyId);
    }

    /** Sets the time by which counters expire, and gives it. */
    set_time(): number {
      const unix_ms = Date.now();
      wasm.engine_set_time(this.at, unix_ms);
      return unix_ms;
    }

    stage(key: Uint8Array, what: number, number: bigint): void {
      pass(key);
      wasm.engine_stage(this.at, what, number);
    }

    take(): Uint8Array<ArrayBuffer> {
      const length = wasm.engine_take(this.at);
      const at = wasm.taken() >>> 0;
      return memory().slice(at, at + length) as Uint8Array<ArrayBuffer>;
    }

    value_at(keyId: number): bigint | undefined {
      if (wasm.engine_value_at(this.at, keyId)) return BigInt.asUintN(64, wasm.half(0)) | (wasm.half(1) << 64n);
    }
  };
}
