/// <reference lib="esnext.disposable" preserve="true" />
import type { TallymeshError } from '../internal/errors.js';
import type { Connection, ConnectionState } from '../transports/connection.js';
import { connect, type ConnectOptions } from '../transports/websocket.js';
import { Replica, type ReplicaOptions, type Status } from './replica.js';

/** A way to peers: begins to keep a replica in sync with them, and gives what stands for it. */
export type Transport = (replica: Replica) => Connection;

/** How {@link Counters} are opened. What is said of connections is of those that addresses lead to. */
export interface CountersOptions extends ReplicaOptions, ConnectOptions {
  /**
   * The peers to keep in sync with: a node by its address, as {@link connect} takes it, or any other way.
   * Default: none.
   */
  readonly transports?: readonly (string | URL | Transport)[];
  /**
   * What keeps the counters over the end of this process, such as `indexedDb()` of `tallymesh/storage` gives.
   * It takes the second module. Default: memory only.
   */
  readonly storage?: Storage;
}

/** Opens counters that are kept somewhere; `Class` is that of the entry that is used. */
export type Storage = (options: CountersOptions, Class: typeof Counters) => Promise<Counters>;

/** What a connection of {@link Counters} comes to. */
export interface PeerStatus {
  /** Where it leads. */
  readonly url: string;
  /** Where it stands. */
  readonly state: ConnectionState;
  /** Why the last link or attempt ended, if it went wrong. */
  readonly error: TallymeshError | undefined;
  /** When a peer was last heard there, in milliseconds since 1970: what it counted since may be missing here. */
  readonly heardAt: number | undefined;
}

/** What {@link Counters} hold, in numbers. */
export interface CountersStatus extends Status {
  /** Those that `transports` named, in that order. */
  readonly peers: readonly PeerStatus[];
}

/** How {@link Counters.watch} waits. */
export interface Watching {
  /** Ends it: what waits throws the signal's reason. */
  readonly signal?: AbortSignal;
}

/**
 * The counters of a space: a {@link Replica} that is kept in sync with peers until it is closed.
 *
 * @example
 * ```ts
 * const counters = await open({ transports: ['http://127.0.0.1:4280'] });
 * counters.add('likes');
 * counters.get('likes'); // 1n
 * ```
 */
export class Counters extends Replica {
  /** The connections, in the order of `transports`. */
  readonly connections: readonly Connection[];
  /** What waits for the next value. */
  readonly #waits = new Set<() => void>();
  #closed = false;

  /**
   * Opens the counters of a space. The module must be loaded: `open()` does both.
   *
   * @throws {@link TallymeshError} `not_ready`, `space_name`, `replica_name`, `owner_key`, and as {@link connect} does.
   */
  constructor(options: CountersOptions = {}) {
    super(options);
    const connections: Connection[] = [];
    this.connections = connections;
    try {
      for (const transport of options.transports ?? []) {
        connections.push(typeof transport === 'function' ? transport(this) : connect(this, transport, options));
      }
    } catch (error) {
      this.free();
      throw error;
    }
  }

  /** What is held here, in numbers, and how the connections stand. */
  override status(): CountersStatus {
    return { ...super.status(), peers: this.connections.map(({ url, state, error, heardAt }) => ({ url, state, error, heardAt })) };
  }

  /**
   * The counter's value now, and again whenever it has changed; values that came and went meanwhile are
   * passed over. It ends when the counters are closed.
   *
   * @param options - a signal that ends it.
   * @throws the reason of `signal`, once that is aborted.
   *
   * @example
   * ```ts
   * for await (const likes of counters.watch('likes')) render(likes ?? 0n);
   * ```
   */
  async *watch(key: string, { signal }: Watching = {}): AsyncGenerator<bigint | undefined, void, undefined> {
    let look = (): void => {};
    const wake = (): void => look();
    const stop = this.subscribe(key, wake);
    this.#waits.add(wake);
    signal?.addEventListener('abort', wake);
    try {
      let told: bigint | undefined | null = null;
      while (!this.#closed) {
        signal?.throwIfAborted();
        const value = this.get(key);
        const next = new Promise<void>((resolve) => (look = resolve));
        if (value === told) await next;
        else yield (told = value);
      }
    } finally {
      stop();
      this.#waits.delete(wake);
      signal?.removeEventListener('abort', wake);
    }
  }

  /**
   * Retires the writer as {@link Replica.leave} does, and frees the memory as {@link Counters.free} does.
   * Closing twice does no harm.
   */
  async close(): Promise<void> {
    if (!this.#closed) this.leave();
    this.free();
  }

  /** Closes at the end of an `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** As {@link Replica.free}, and ends all connections. {@link Counters.close} says goodbye before. */
  override free(): void {
    this.#closed = true;
    super.free();
    for (const connection of this.connections) connection.close();
    for (const wake of this.#waits) wake();
  }
}
