// The calls of a compiled module. They are made as the script does that wasm-bindgen writes beside it, whose
// release is pinned and whose types say what is exported; but that script also has what only other programs
// use, which would be more to download.
import type { InitOutput } from '#bindgen';

/** What wasm-bindgen gives for nothing where a `u32` is expected. */
const NO_U32 = 0x1_0000_0001;

/** The class of a module's engines. */
export type EngineClass = ReturnType<typeof bind>;

/** What both modules' engines do. */
export type Engine = InstanceType<EngineClass>;

/** Starts a module and gives what it exports. */
export function instantiate<T extends InitOutput>(module: WebAssembly.Module): T {
  const imports: Record<string, Record<string, () => void>> = {};
  // The only one fills a table that is not used here.
  for (const { module: from, name } of WebAssembly.Module.imports(module)) (imports[from] ??= {})[name] = () => {};
  const { exports } = new WebAssembly.Instance(module, imports);
  const wasm = exports as unknown as T;
  wasm.__wbindgen_start();
  return wasm;
}

/** Makes the class of the engines of a module that was started. */
export function bind(wasm: InitOutput) {
  let view = new Uint8Array();
  // The memory is another one whenever it has grown.
  const memory = (): Uint8Array => (view.byteLength ? view : (view = new Uint8Array(wasm.memory.buffer)));
  /** Copies bytes into the module, which frees them; gives where they are. */
  const pass = (bytes: Uint8Array): number => {
    const at = wasm.__wbindgen_malloc(bytes.length, 1) >>> 0;
    memory().set(bytes, at);
    return at;
  };
  // For engines that are dropped without `free`.
  const dropped = new FinalizationRegistry<number>((at) => wasm.engine_free(at));

  return class Engine {
    static readonly pass = pass;
    at: number;

    /** An engine of the module's, by where it is. */
    constructor(at: number) {
      this.at = at >>> 0;
      dropped.register(this, this.at, this);
    }

    /** The engine at a place, if there is one. */
    static of<T>(this: new (at: number) => T, at: number): T | undefined {
      return at ? new this(at) : undefined;
    }

    static open(space: Uint8Array, bytes: Uint8Array) {
      return this.of(wasm.engine_open(pass(space), space.length, pass(bytes), bytes.length));
    }

    free(): void {
      dropped.unregister(this);
      wasm.engine_free(this.at);
      this.at = 0;
    }

    add(handle: number, by: bigint): boolean {
      return wasm.engine_add(this.at, handle, by) !== 0;
    }

    add_small(handle: number, by: number): boolean {
      return wasm.engine_add_small(this.at, handle, by) !== 0;
    }

    commit(): boolean {
      return wasm.engine_commit(this.at) !== 0;
    }

    deadline(): number {
      return wasm.engine_deadline(this.at);
    }

    expiry_at(handle: number): number {
      return wasm.engine_expiry_at(this.at, handle);
    }

    find(key: Uint8Array, pin: boolean): number | undefined {
      const found = wasm.engine_find(this.at, pass(key), key.length, +pin);
      return found === NO_U32 ? undefined : found;
    }

    input(what: number, now: number, link: number, bytes: Uint8Array): void {
      wasm.engine_input(this.at, what, now, link, pass(bytes), bytes.length);
    }

    merge(bytes: Uint8Array): boolean {
      return wasm.engine_merge(this.at, pass(bytes), bytes.length) !== 0;
    }

    poll(): number {
      return wasm.engine_poll(this.at);
    }

    read(what: number, handle: number): boolean {
      return wasm.engine_read(this.at, what, handle) !== 0;
    }

    release(handle: number): boolean {
      return wasm.engine_release(this.at, handle) !== 0;
    }

    set_time(unix_ms: number): void {
      wasm.engine_set_time(this.at, unix_ms);
    }

    stage(key: Uint8Array, what: number, number: bigint): void {
      wasm.engine_stage(this.at, pass(key), key.length, what, number);
    }

    take(): Uint8Array {
      const [at, length] = wasm.engine_take(this.at);
      const bytes = memory().slice(at >>> 0, (at >>> 0) + length);
      wasm.__wbindgen_free(at, length, 1);
      return bytes;
    }

    value_at(handle: number): bigint | undefined {
      const [some, low, high] = wasm.engine_value_at(this.at, handle);
      return some ? BigInt.asUintN(64, low) | (high << 64n) : undefined;
    }
  };
}
