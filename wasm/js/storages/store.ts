import type { Sign } from '../internal/sign.js';

/** How writes to a storage stand. */
export type StorageState = 'durable' | 'writing' | 'failing';

/** The owner's key that a store keeps: that of all tabs of a profile, or of all starts of a program. */
export interface OwnerKey {
  /** The public half, Ed25519, 32 bytes; where there is no Ed25519, 32 random bytes. */
  readonly publicKey: Uint8Array;
  /** Signs with the private half; nothing where there is none. */
  readonly sign?: Sign;
}

/** What a process left behind that is gone. */
export interface Remains {
  /** The records of its log, oldest first. */
  readonly records: readonly Uint8Array[];
}

/** The log of one process: a sequence of records, of which the first stands for all before it. */
export interface Log {
  /**
   * Adds a record; with `whole` it takes the place of all that the log has. What `taken` names is gone with it, in
   * one step with the write or after it; never before. At most one write is under way at a time.
   *
   * @returns a promise that is fulfilled once all of that is durable.
   */
  write(record: Uint8Array, whole: boolean, taken: readonly Remains[]): Promise<void>;
  /** Lets the log go: it stays, and the next who opens the store finds it among the remains. */
  close(): Promise<void>;
  /**
   * Optional: calls `take` with what another process leaves behind while this one runs. It answers whether that is
   * taken over; then a write names it.
   */
  onRemains?(take: (remains: Remains) => Promise<boolean>): void;
}

/** What {@link Store.open} gives: an empty log, or why there is none here (then counters are kept in memory only). */
export type Opened =
  | {
      /** The log of this process. */
      readonly log: Log;
      /** What processes left behind that are gone. Nobody else may be given it as long as this log is open. */
      readonly left: readonly Remains[];
      /** The key of all that open this store. Default: a fresh one each time. */
      readonly ownerKey?: OwnerKey;
    }
  | {
      /** Why there is no log, as a sentence. */
      readonly none: string;
    };

/**
 * A place that keeps counters: what one's own storage implements. Give it as `open({ storage: stored(store) })`.
 *
 * Each process has a log of its own, so that no two ever write to one; those of processes that are gone are taken over
 * by the next one. A record is bytes that only this package reads.
 */
export interface Store {
  /** What it is called in the status and in errors. */
  readonly kind: string;
  /**
   * Opens the store for one process, for as long as its log is open.
   *
   * @throws anything: it becomes an error with the code `storage_failed`.
   */
  open(space: string): Promise<Opened>;
}
