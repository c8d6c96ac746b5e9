// Counters that are kept in a storage. Like the other entries beside the main one, this has no copy of the package's
// code: it is given the class that it extends, and knows the rest by types alone.
import { errorClassOf, isTallymeshError } from '../internal/error-class.js';
import type { TallymeshError } from '../internal/errors.js';
import { guarded } from '../internal/guarded.js';
import type { MembersEngine } from '../replica/members.js';
import type { Counters, CountersOptions, CountersStatus, Storage, Watching } from '../replica/open-counters.js';
import type { ReplicaOptions } from '../replica/replica.js';
import { CommitGate, restore, type Failed } from './commit-gate.js';
import type { Log, Opened, OwnerKey, Remains, StorageState, Store } from './store.js';

/** What {@link Counters.status} says of a storage. */
export interface StorageStatus {
  /** What it is: `"indexeddb"`, `"file"`, `"durable-object"`, or what one's own store calls itself. */
  readonly kind: string;
  /**
   * `durable`: all that was counted is kept. `writing`: some of it is on its way. `failing`: it cannot be written, and
   * is tried again; peers are told nothing meanwhile. `memory`: there is no storage here, see `error`.
   */
  readonly state: StorageState | 'memory';
  /** Why it fails, or why there is none. */
  readonly error: TallymeshError | undefined;
  /** Transactions made here that no member of the space is known to hold; 0 while the space is open. */
  readonly unacknowledged: number;
}

/** What counters with a storage hold, in numbers. */
export interface StoredStatus extends CountersStatus {
  /** How the storage stands. */
  readonly storage: StorageStatus;
}

/** Counters that are kept in a storage. */
export interface StoredCounters extends Counters {
  status(): StoredStatus;
  /**
   * Waits until all that was counted is durable, and hands it to all links then.
   *
   * @throws {@link TallymeshError} `storage_failed`, when a write goes wrong meanwhile: it is tried again all the same;
   * `freed`; and the reason of `signal`, once that is aborted, which ends the wait alone.
   */
  flush(options?: Watching): Promise<void>;
  /**
   * As {@link Counters.close}, once all is durable; then the storage is let go, for the next who opens it.
   *
   * @throws {@link TallymeshError} `storage_failed`, if the last could not be written; all else is closed then.
   */
  close(): Promise<void>;
  /** Calls `listener` when the storage begins or ceases to fail. Gives a function that ends it. */
  onStorage(listener: (status: StorageStatus) => void): () => void;
}

/** What is said of the owner in the options goes before what the store keeps. */
const ownerOf = (options: CountersOptions, key: OwnerKey | undefined): Partial<CountersOptions> =>
  options.ownerKey || !key ? {} : { ownerKey: key.publicKey, ...(key.sign && !options.sign && { sign: key.sign }) };

/** Makes a storage of a {@link Store}: for `open({ storage: stored(store) })`. */
export function stored(store: Store): Storage {
  return async (options, Class): Promise<StoredCounters> => {
    const Problem = errorClassOf(Class.prototype);
    if (!Problem) throw new TypeError('a storage is given to open()');
    const failed: Failed = (cause) => {
      if (isTallymeshError(cause)) return cause;
      const why = cause instanceof Error ? cause.message : String(cause);
      return new Problem('storage_failed', `the storage (${store.kind}) failed: ${why}`, { cause });
    };
    const space = options.space ?? 'default';
    // The store is given no name that is none.
    new Class({ space, members: true }).free();
    let opened: Opened;
    try {
      opened = await store.open(space);
    } catch (cause) {
      throw failed(cause);
    }
    if ('none' in opened) {
      const none = new Problem('storage_none', `${opened.none}; what is counted here is gone with this page`);
      console.warn(`tallymesh: ${none.message}`);
      return begin(Class, options, store.kind, none);
    }
    const { log, left, ownerKey } = opened;
    try {
      return await begin(Class, { ...options, ...ownerOf(options, ownerKey) }, store.kind, { log, left, failed });
    } catch (cause) {
      await log.close().catch(() => {});
      throw failed(cause);
    }
  };
}

/** What `work` comes to, unless the signal is aborted before. */
async function abortable(work: Promise<void> | undefined, signal: AbortSignal | undefined): Promise<void> {
  let abort = (): void => {};
  const aborted = new Promise<never>((_, reject) => (abort = () => reject(signal!.reason)));
  signal?.addEventListener('abort', abort);
  try {
    await Promise.race([work, aborted]);
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}

interface Places {
  readonly log: Log;
  readonly left: readonly Remains[];
  readonly failed: Failed;
}

/** Opens counters that are kept in a log, or, with an error that says why not, in memory. */
async function begin(Class: typeof Counters, options: CountersOptions, kind: string, kept: Places | TallymeshError): Promise<StoredCounters> {
  let gate: CommitGate | undefined;
  let closing: Promise<void> | undefined;
  const listeners = new Set<(status: StorageStatus) => void>();

  class Stored extends Class implements StoredCounters {
    get #storage(): StorageStatus {
      if (!gate) return { kind, state: 'memory', error: kept as TallymeshError, unacknowledged: 0 };
      const { state, error, unacknowledged } = gate;
      return { kind, state, error, unacknowledged };
    }

    override status(): StoredStatus {
      return { ...super.status(), storage: this.#storage };
    }

    override async flush({ signal }: Watching = {}): Promise<void> {
      signal?.throwIfAborted();
      await super.flush();
      await abortable(gate?.flush(), signal);
    }

    override close(): Promise<void> {
      return (closing ??= this.#close());
    }

    async #close(): Promise<void> {
      try {
        // The goodbye says that all was told, and is to be told itself before the links go.
        if (gate && !gate.closed) {
          await this.flush();
          if (this.leave()) await gate.flush();
        } else if (!gate) await super.close();
      } finally {
        this.free();
        await gate?.end();
      }
    }

    override free(): void {
      gate?.close();
      super.free();
      listeners.clear();
      // Who wants to know how that ends calls close().
      gate?.end().catch(() => {});
    }

    onStorage(listener: (status: StorageStatus) => void): () => void {
      const entry = (status: StorageStatus): void => listener(status);
      listeners.add(entry);
      return () => void listeners.delete(entry);
    }

    /** Tells how the storage stands. */
    tell(): void {
      for (const listener of [...listeners]) guarded(() => listener(this.#storage));
    }
  }

  if (!('log' in kept)) return new Stored({ ...options, members: true });
  const { log, left, failed } = kept;
  let changed: (keyId: number) => void = () => {};
  const keep: ReplicaOptions['keep'] = (engine, told) => {
    const own = engine as MembersEngine;
    for (const { records } of left) {
      if (!restore(own, records, false)) throw failed('what it holds is damaged, or of a later version of this package');
    }
    changed = told;
    gate = new CommitGate(own, log, left, failed, () => counters.tell());
    return gate.after;
  };
  const counters = new Stored({ ...options, members: true, keep });
  try {
    // What was read took its time, and so does what is written: others may have a turn between them.
    await new Promise((resolve) => setTimeout(resolve));
    // Whatever goes to peers waits for this, too.
    await gate!.flush();
  } catch (error) {
    counters.free();
    throw error;
  }
  log.onRemains?.(async (remains) => {
    if (!gate!.takeOver(remains, changed)) return false;
    await counters.flush();
    return true;
  });
  return counters;
}
