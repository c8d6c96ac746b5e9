import { loadOnce } from './engine.js';
import { Replica, type ReplicaOptions } from './replica.js';

/** Where the compiled module can come from. */
export type ModuleSource = string | URL | Request | Response | BufferSource | WebAssembly.Module;

/** How the module is loaded. */
export interface InitOptions {
  /**
   * The compiled module, or where it is: for bundlers that do not follow `new URL(..., import.meta.url)`,
   * pass the address of `tallymesh/tallymesh.wasm`. Default: the file beside the package's code.
   */
  readonly module?: ModuleSource | Promise<ModuleSource>;
}

/** The two calls that each entry adds. */
export interface Entry {
  /** Loads the WebAssembly module. Calls after the first wait for the same load. */
  init(options?: InitOptions): Promise<void>;
  /** Loads the module if need be and makes a replica. */
  open(options?: ReplicaOptions & InitOptions): Promise<Replica>;
}

/** Makes the calls of an entry out of its way to obtain the module. */
export function entry(source: () => ModuleSource | Promise<ModuleSource>): Entry {
  const init = (options: InitOptions = {}): Promise<void> => loadOnce(() => options.module ?? source());
  return {
    init,
    open: async (options = {}) => {
      await init(options);
      return new Replica(options);
    },
  };
}
