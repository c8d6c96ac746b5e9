import { loadGuest, loadOnce, setGuestSource } from '../replica/engine.js';
import type { ModuleSource } from '../replica/module-source.js';
import { Counters, type CountersOptions } from '../replica/open-counters.js';

/** How the module is loaded. */
export interface InitOptions {
  /**
   * The compiled module, or where it is: for bundlers that do not follow `new URL(..., import.meta.url)`,
   * pass the address of `tallymesh/tallymesh.wasm`. Default: the file beside the package's code.
   */
  readonly module?: ModuleSource | Promise<ModuleSource>;
  /**
   * The second module, `tallymesh/tallymesh-members.wasm`, likewise. It is loaded once a replica meets a
   * space with members, or is asked for a token.
   */
  readonly membersModule?: ModuleSource | Promise<ModuleSource>;
  /** Whether the second module is to be loaded at once, and instead of the first one. Default: false. */
  readonly members?: boolean;
}

/** The two calls that each entry adds. */
export interface Entry {
  /** Loads a WebAssembly module. Calls after the first wait for the same load. */
  init(options?: InitOptions): Promise<void>;
  /**
   * Loads the module if need be, and opens the counters of a space.
   *
   * @throws {@link TallymeshError} `module_load`, `space_name`, `replica_name`, `owner_key`, and as {@link connect} and the storage do.
   */
  open(options?: CountersOptions & InitOptions): Promise<Counters>;
}

type Source = () => ModuleSource | Promise<ModuleSource>;

/** A fresh owner's key, which nodes ask pages to prove; none elsewhere, and where the browser has no Ed25519. */
async function ownKey({ ownerKey, sign }: CountersOptions): Promise<CountersOptions | undefined> {
  if (ownerKey || sign || !globalThis.location) return;
  const { subtle } = crypto;
  try {
    const { publicKey, privateKey } = (await subtle.generateKey('Ed25519', false, ['sign'])) as CryptoKeyPair;
    return {
      ownerKey: new Uint8Array(await subtle.exportKey('raw', publicKey)),
      sign: (bytes) => subtle.sign('Ed25519', privateKey, bytes),
    };
  } catch {
    return;
  }
}

/** Makes the calls of an entry out of its ways to obtain the modules. */
export function entry(source: Source, membersSource: Source): Entry {
  setGuestSource(membersSource);
  const init = async ({ module, membersModule, members }: InitOptions = {}): Promise<void> => {
    if (membersModule !== undefined) setGuestSource(() => membersModule);
    await (members ? loadGuest() : loadOnce(() => module ?? source()));
  };
  return {
    init,
    open: async (options = {}) => {
      const { storage } = options;
      await init(storage ? { ...options, members: true } : options);
      return storage ? storage(options, Counters) : new Counters({ ...(await ownKey(options)), ...options });
    },
  };
}
