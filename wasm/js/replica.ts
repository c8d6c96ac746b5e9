import { amount } from './amount.js';
import { errorCode, keyOf, newEngine, takeHandles, type Engine } from './engine.js';
import { coded, TallymeshError } from './errors.js';
import { toJSON, type ReplicaJSON } from './json.js';
import { readShards, readStatus, type Shard } from './layout.js';
import { Links } from './links.js';
import type { Link, Peer } from './peer.js';

/** How a {@link Replica} is made. */
export interface ReplicaOptions {
  /** The space whose counters it holds: 1 to 64 of `A-Z a-z 0-9 . _ -`. Default: `"default"`. */
  readonly space?: string;
  /**
   * The owner's public key, 32 bytes, from which the writer id is derived. Default: fresh random bytes,
   * which suit a replica that nobody has to recognise.
   */
  readonly ownerKey?: Uint8Array;
}

/** Called with a counter's value (`undefined` when it is absent) and its key. */
export type Listener = (value: bigint | undefined, key: string) => void;

/** What a replica holds, in numbers. */
export interface Status {
  /** The space. */
  readonly space: string;
  /** This replica's writer id, 32 hex digits. */
  readonly writer: string;
  /** How many transactions this writer has made. */
  readonly clock: bigint;
  /** How many counters exist. */
  readonly counters: number;
  /** How many shards they are made of. */
  readonly shards: number;
  /** For each writer, up to which of its transactions this replica has seen. */
  readonly vector: ReadonlyMap<string, bigint>;
  /** How many links are up. */
  readonly links: number;
  /** How many forks were met: one writer, one clock, two contents. More than 0 calls for a look. */
  readonly faults: number;
}

/** How many keys keep their number at hand; the one that was taken up longest ago goes first. */
const CACHED_KEYS_MAX = 16_384;

/**
 * One copy of a space: it counts with no network at all, and adds up with every other replica of the
 * space once their bytes have met.
 *
 * @example
 * ```ts
 * const replica = await open();
 * replica.add('likes');
 * replica.value('likes'); // 1n
 * ```
 */
export class Replica {
  /** The space that this replica belongs to. */
  readonly space: string;
  /** The id under which this replica writes: 32 hex digits, new for each replica. */
  readonly writer: string;

  #engine: Engine | undefined;
  readonly #links: Links;
  /** Keys that cross no more: each is pinned once. */
  readonly #handles = new Map<string, number>();
  readonly #listeners = new Map<string | undefined, Set<Listener>>();
  readonly #dirty = new Set<number>();
  #localChange = false;
  #scheduled = false;

  /**
   * Makes an empty replica. The module must be loaded: await `init()` before, or use `open()`.
   *
   * @throws {@link TallymeshError} `not_ready`, `space_name` or `owner_key`.
   */
  constructor(options: ReplicaOptions = {}) {
    this.space = options.space ?? 'default';
    this.#engine = newEngine(this.space, options.ownerKey);
    this.#links = new Links(this.#engine, (handle) => this.#touch(handle));
    this.writer = this.status().writer;
  }

  /**
   * Adds to a counter, and creates it if need be (also with 0).
   *
   * @param by - a whole number or a bigint of 64 bits; negative to subtract. Default: 1.
   * @throws {@link TallymeshError} `key_length`, `amount_not_integer`, `amount_unsafe`, `amount_range`,
   * `overflow` or `freed`; nothing is changed then.
   */
  add(key: string, by: number | bigint = 1): void {
    const handle = this.#handles.get(key);
    if (handle !== undefined) this.#add(handle, by, key);
    else {
      if (typeof by !== 'number' || (by | 0) !== by) by = amount(by);
      this.#add(this.#take(key), by, key);
    }
  }

  /** The counter's exact value, or `undefined` when it does not exist. */
  value(key: string): bigint | undefined {
    const engine = this.#live();
    const handle = this.#handles.get(key) ?? engine.handle(key);
    return handle === undefined ? undefined : engine.value_at(handle);
  }

  /**
   * A counter under a fixed key, for code that uses it again and again. It need not exist yet.
   *
   * @throws {@link TallymeshError} `key_length` or `freed`.
   */
  counter(key: string): Counter {
    const handle = this.#intern(key);
    return new Counter(key, {
      add: (by) => this.#add(handle, by, key),
      value: () => this.#live().value_at(handle),
      release: () => void this.#engine?.release(handle),
    });
  }

  /** The keys of all counters that exist and begin with `prefix`, sorted. */
  keys(prefix = ''): string[] {
    return this.list(prefix).map(([key]) => key);
  }

  /** All counters that exist and whose key begins with `prefix`, with their values, sorted by key. */
  list(prefix = ''): [key: string, value: bigint][] {
    const engine = this.#live();
    const found: [string, bigint][] = [];
    engine.read_counters();
    for (const handle of takeHandles(engine)) {
      const key = keyOf(engine, handle);
      if (key?.startsWith(prefix)) found.push([key, engine.value_at(handle) ?? 0n]);
    }
    return found.sort(([a], [b]) => (a < b ? -1 : 1));
  }

  /** What each writer says of a counter, sorted by writer. The totals add up to its value. */
  shards(key: string): Shard[] {
    const engine = this.#live();
    const handle = engine.handle(key);
    if (handle === undefined) return [];
    engine.read_shards(handle);
    return readShards(engine.take());
  }

  /** What this replica holds, in numbers. */
  status(): Status {
    const engine = this.#live();
    engine.read_status();
    return { space: this.space, ...readStatus(engine.take()), links: this.#links.size };
  }

  /**
   * Calls `listener` after local adds and merges, with each counter that they changed; changes of one
   * turn come together, in a microtask after it.
   *
   * @param key - the counter to watch; `undefined` watches all.
   * @returns a function that ends it.
   */
  subscribe(key: string | undefined, listener: Listener): () => void {
    const listeners = this.#listeners.get(key) ?? new Set();
    // One function may be subscribed twice: each subscription is its own.
    const entry: Listener = (value, changed) => listener(value, changed);
    this.#listeners.set(key, listeners.add(entry));
    return () => {
      listeners.delete(entry);
      if (listeners.size === 0 && this.#listeners.get(key) === listeners) this.#listeners.delete(key);
    };
  }

  /** The whole state as bytes, for {@link Replica.merge} of any other replica of the space. */
  delta(): Uint8Array {
    const engine = this.#live();
    engine.read_delta();
    return engine.take();
  }

  /**
   * What changed since this was last called, or `undefined` when nothing did: what a store appends.
   * The first call gives the whole state.
   */
  changes(): Uint8Array | undefined {
    const engine = this.#live();
    return engine.read_changes() ? engine.take() : undefined;
  }

  /**
   * Merges bytes that {@link Replica.delta} or {@link Replica.changes} made, in any order, any number
   * of times.
   *
   * @throws {@link TallymeshError} with the code of what is wrong with the bytes; nothing is changed then.
   */
  merge(bytes: Uint8Array): void {
    const engine = this.#live();
    if (!(bytes instanceof Uint8Array)) throw new TallymeshError('not_bytes', 'merge takes a Uint8Array');
    const merged = engine.merge(bytes);
    const changed = takeHandles(engine);
    if (!merged) throw coded(errorCode(engine), 'these bytes cannot be merged');
    for (const handle of changed) this.#touch(handle);
    this.#localChange = true;
    this.#schedule();
  }

  /**
   * Keeps this replica in sync with a peer over any channel that carries frames: give the channel's
   * sending side, and hand what it brings to the returned link. `connect()` does this over WebSocket.
   */
  attach(peer: Peer): Link {
    this.#live();
    return this.#links.attach(peer);
  }

  /** The full shard map as JSON, with 64-bit numbers as decimal strings. */
  toJSON(): ReplicaJSON {
    const status = this.status();
    return toJSON(status, this.list().map(([key, value]) => [key, value, this.shards(key)]));
  }

  /** Frees the memory of this replica. Every later call throws `freed`; freeing twice does no harm. */
  free(): void {
    this.#links.end();
    this.#listeners.clear();
    this.#engine?.free();
    this.#engine = undefined;
  }

  #live(): Engine {
    if (this.#engine) return this.#engine;
    throw new TallymeshError('freed', 'this replica was freed; open a new one');
  }

  #intern(key: string): number {
    if (typeof key !== 'string') throw new TallymeshError('key_type', `a key is a string, not ${typeof key}`);
    if (!wellFormed(key)) {
      throw new TallymeshError('key_unicode', 'a key is well-formed Unicode: half of a surrogate pair would be lost');
    }
    const engine = this.#live();
    const handle = engine.intern(key);
    if (handle === undefined) throw coded(errorCode(engine), `the key ${JSON.stringify(shorten(key))} was refused`);
    return handle;
  }

  #take(key: string): number {
    const handle = this.#intern(key);
    if (this.#handles.size >= CACHED_KEYS_MAX) {
      for (const [oldest, pinned] of this.#handles) {
        this.#handles.delete(oldest);
        this.#live().release(pinned);
        break;
      }
    }
    this.#handles.set(key, handle);
    return handle;
  }

  #add(handle: number, by: number | bigint, key: string): void {
    const engine = this.#live();
    const added =
      typeof by === 'number' && (by | 0) === by ? engine.add_small(handle, by) : engine.add(handle, amount(by));
    if (!added) throw coded(errorCode(engine), `cannot add ${by} to ${JSON.stringify(shorten(key))}`);
    this.#localChange = true;
    this.#touch(handle);
  }

  #touch(handle: number): void {
    if (this.#listeners.size > 0) this.#dirty.add(handle);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    const engine = this.#engine;
    if (!engine) return;
    if (this.#localChange) {
      this.#localChange = false;
      this.#links.localChange();
    }
    const handles = [...this.#dirty];
    this.#dirty.clear();
    for (const handle of handles) {
      // A listener may free the replica.
      const key = this.#engine && keyOf(this.#engine, handle);
      if (key === undefined) continue;
      for (const watched of [key, undefined]) {
        for (const listener of this.#listeners.get(watched) ?? []) {
          call(listener, this.#engine?.value_at(handle), key);
        }
      }
    }
  }
}

/** What a {@link Counter} needs of its replica. */
interface CounterPort {
  add(by: number | bigint): void;
  value(): bigint | undefined;
  release(): void;
}

/** A counter under a fixed key, made by {@link Replica.counter}. */
export class Counter {
  /** The counter's key. */
  readonly key: string;
  #port: CounterPort | undefined;

  /** @internal */
  constructor(key: string, port: CounterPort) {
    this.key = key;
    this.#port = port;
  }

  /** Adds to the counter, as {@link Replica.add} does. Default: 1. */
  add(by: number | bigint = 1): void {
    this.#live().add(by);
  }

  /** The counter's exact value, or `undefined` when it does not exist. */
  get value(): bigint | undefined {
    return this.#live().value();
  }

  /** Lets go of the key. The counter itself stays; only this object cannot be used any more. */
  free(): void {
    this.#port?.release();
    this.#port = undefined;
  }

  #live(): CounterPort {
    if (this.#port) return this.#port;
    throw new TallymeshError('freed', `this counter object of ${JSON.stringify(this.key)} was freed`);
  }
}

/** Calls a listener; its error is reported as uncaught and stops nobody else. */
function call(listener: Listener, value: bigint | undefined, key: string): void {
  try {
    listener(value, key);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}

/** Whether no surrogate stands alone: such a string would become another one in UTF-8. */
function wellFormed(text: string): boolean {
  return !/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/.test(text);
}

function shorten(key: string): string {
  return key.length > 40 ? `${key.slice(0, 40)}…` : key;
}
