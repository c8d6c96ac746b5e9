import { amount } from '../internal/amount.js';
import { ERROR_CLASS } from '../internal/error-symbol.js';
import { coded, TallymeshError } from '../internal/errors.js';
import { guarded } from '../internal/guarded.js';
import type { Sign } from '../internal/sign.js';
import { Counter } from './counter.js';
import {
  errorCode, keyOf, loadGuest, named, newEngine, origin, read, resumed, takeKeyIds, utf8, type Engine, type Guest,
} from './engine.js';
import { Expiries } from './expiries.js';
import { toJSON, type ReplicaJSON } from './json.js';
import { keyBytes, quoted, RESERVED } from './key.js';
import { readShards, readStatus, type Members, type Returned, type Shard, type Writer } from './layout.js';
import { LINK_CLOSED, Links, now, turnEnd, type After } from './links.js';
import { CHANGES, COUNTERS, DELTA, NO_KEY_ID, SHARDS, STATUS } from './numbers.js';
import type { Link, Peer } from './peer.js';
import { acted, pack, Transaction, type Operation } from './transaction.js';

/** How a {@link Replica} is made. */
export interface ReplicaOptions {
  /** The space whose counters it holds: 1 to 64 of `A-Z a-z 0-9 . _ -`. Default: `"default"`. */
  readonly space?: string;
  /**
   * What this replica is called for people: peers are told it, and nodes show it in `/v1/peers` and in their console,
   * such as `tallymesh-js/0.1.0 till 3`. Up to 40 bytes of UTF-8 without control characters. It identifies nothing:
   * several replicas may have one name. Default: none.
   */
  readonly name?: string;
  /**
   * The owner's public key (Ed25519), 32 bytes, from which the writer id is derived. Default: in a page the key
   * that `open()` makes, since nodes ask pages for a proof; elsewhere fresh random bytes, which suit a replica
   * that nobody has to recognise. See {@link ConnectOptions.sign}.
   */
  readonly ownerKey?: Uint8Array;
  /** Signs with that key, for connections that are given nothing of their own to sign with. */
  readonly sign?: Sign;
  /**
   * Whether to begin with the second module, which must be loaded then: for a space that is known to have
   * members, and for tokens. Default: false; the replica finds out by itself.
   */
  readonly members?: boolean;
  /** @internal Brings back what was stored, and says what is kept from then on. */
  readonly keep?: (engine: Engine, changed: (keyId: number) => void) => After;
}

/** How {@link Replica.reached} waits. */
export interface Waiting {
  /** How long to wait, in milliseconds; `Infinity` waits for as long as it takes. Default: 5000, as at a node. */
  readonly waitMs?: number;
  /** Ends the wait: it rejects with the signal's reason. Default: none. */
  readonly signal?: AbortSignal;
}

/** What {@link Replica.subscribe} listens to: a counter, by its key, or all whose keys begin with a prefix. */
export type Watched =
  | string
  | {
      /** What the keys begin with; `''` is all counters. */
      readonly prefix: string;
    };

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
  /** How many counters exist, parts of budgets among them. */
  readonly counters: number;
  /** How many shards they are made of. */
  readonly shards: number;
  /** For each writer, up to which of its transactions this replica has seen. */
  readonly vector: ReadonlyMap<string, bigint>;
  /** How many links are up. */
  readonly links: number;
  /** How many forks were met: one writer, one clock, two contents. More than 0 calls for a look. */
  readonly faults: number;
  /** The space's members as this replica knows them; `undefined` while it takes the space for open. */
  readonly members: Members | undefined;
  /** The writer of the member that takes care of this replica, once one does. */
  readonly home: string | undefined;
  /**
   * How many transactions no member is known to hold, of those that this replica made since it knows of members;
   * `undefined` while it takes the space for open: whoever holds them there may be gone the next moment with all it
   * held, so a 0 would promise nothing.
   */
  readonly pending: number | undefined;
}

/** How many keys keep their number at hand; the one that was taken up longest ago goes first. */
const CACHED_KEYS_MAX = 131_072;

/**
 * One copy of a space: it counts with no network at all, and adds up with every other replica of the
 * space once their bytes have met.
 *
 * @example
 * ```ts
 * const replica = await open();
 * replica.add('likes');
 * replica.get('likes'); // 1n
 * ```
 */
export class Replica {
  /** The space that this replica belongs to. */
  readonly space: string;

  /** What the engine was made with. */
  readonly #origin: Uint8Array;
  /** @internal Signs with the owner's key. */
  readonly sign: Sign | undefined;
  /** The name for people and the space, as an engine takes them. */
  readonly #named: string;
  #writer: string;
  #engine: Engine | undefined;
  /** The second module, if the engine is of that one. */
  #guest: Guest | undefined;
  #upgrading: Promise<void> | undefined;
  /** Faults that the engine of the first module had met. */
  #faultsBefore = 0;
  readonly #links: Links;
  /** Keys that cross no more: each is pinned once. */
  readonly #keyIds = new Map<string, number>();
  /** Counter objects, which keep their keys' numbers. */
  readonly #counters = new Set<Counter>();
  readonly #byKey = new Map<string, Set<Listener>>();
  readonly #byPrefix = new Map<string, Set<Listener>>();
  /** How many listeners there are. */
  #watching = 0;
  readonly #returnListeners = new Set<(returned: Returned) => void>();
  /** Changed counters that listeners are not told of yet; by key, since a key may lose its number. */
  readonly #dirty = new Set<string>();
  readonly #expiries = new Expiries((keys) => {
    for (const key of keys) this.#dirty.add(key);
    this.#flush();
  }, () => this.#engine!.set_time());
  #localChange = false;
  #scheduled = false;
  /** Whether an expiry was ever seen; before that no time has to be told, which costs as much as an add. */
  #timed = false;

  /**
   * Makes an empty replica. The module must be loaded: await `init()` before, or use `open()`.
   *
   * @throws {@link TallymeshError} `not_ready`, `space_name`, `replica_name` or `owner_key`.
   */
  constructor(options: ReplicaOptions = {}) {
    this.space = options.space ?? 'default';
    this.#origin = origin(options.ownerKey);
    this.sign = options.sign;
    this.#named = named(this.space, options.name);
    const { engine, by } = newEngine(this.space, this.#named, this.#origin, options.members === true);
    this.#engine = engine;
    this.#guest = by;
    const changed = (keyId: number): void => this.#changed(keyId);
    this.#links = new Links(engine, {
      changed,
      returned: (bytes) => this.#returned(bytes),
      closed: () => void this.upgrade().catch((error: TallymeshError) => this.#links.giveUp(error)),
    }, options.keep?.(engine, changed));
    this.#timed = !!options.keep;
    this.#writer = this.#status().writer;
  }

  /**
   * The id under which this replica writes: 32 hex digits, new for each replica. It changes when a space
   * with members has declared this replica dead and it rejoins, under a fresh one.
   */
  get writer(): string {
    return this.#writer;
  }

  /**
   * Adds to a counter, and creates it if need be (also with 0).
   *
   * @param by - a whole number or a bigint of 64 bits; negative to subtract. Default: 1.
   * @throws {@link TallymeshError} `key_length`, `key_reserved`, `amount_not_integer`, `amount_unsafe`, `amount_range`,
   * `overflow` or `freed`; nothing is changed then.
   */
  add(key: string, by: number | bigint = 1): void {
    this.addAt(this.#keyIds.get(key) ?? this.#take(key, by), by, key);
  }

  /**
   * Replaces the counter's value, and creates the counter if need be. It cancels what is seen of the
   * counter here; what others add at the same time stays. Of concurrent calls one counts, and it beats
   * a reset.
   *
   * @param value - as the amount of {@link Replica.add}.
   * @throws {@link TallymeshError} as {@link Replica.add} does.
   */
  set(key: string, value: number | bigint): void {
    this.transact([{ op: 'set', key, value }]);
  }

  /**
   * Takes the counter to 0, and creates it if need be. It cancels what is seen of the counter here; what
   * others add at the same time stays.
   *
   * @throws {@link TallymeshError} as {@link Replica.add} does.
   */
  reset(key: string): void {
    this.transact([{ op: 'reset', key }]);
  }

  /**
   * Makes the counter absent. It cancels what is seen of the counter here; what others add at the same
   * time stays, and then the counter exists with that.
   *
   * @returns whether the counter existed.
   * @throws {@link TallymeshError} as {@link Replica.add} does.
   */
  delete(key: string): boolean {
    return this.#one({ op: 'delete', key });
  }

  /**
   * Lets the counter expire: from that time on, by the clock of whoever reads it, it is absent. Of
   * concurrent expiries the longest counts. A counter that is absent is left so.
   *
   * @param at - when, such as `new Date(Date.now() + 60_000)`.
   * @returns whether the counter existed, and so got this expiry.
   * @throws {@link TallymeshError} `not_a_date`, and as {@link Replica.add} does.
   */
  expire(key: string, at: Date): boolean {
    return this.#one({ op: 'expire', key, at });
  }

  /**
   * Takes the counter's expiry away; that beats concurrent expiries.
   *
   * @returns whether there was one.
   * @throws {@link TallymeshError} as {@link Replica.add} does.
   */
  persist(key: string): boolean {
    return this.#one({ op: 'persist', key });
  }

  /**
   * Makes several operations on any counters as one: every replica sees all of them or none. Each sees
   * what the ones before it did.
   *
   * @param work - a function that names the operations, one call each, or a list of them. What the function
   * throws is thrown, and nothing is done.
   * @returns for each operation whether the counter existed before it; for `persist`, whether there was
   * an expiry.
   * @throws {@link TallymeshError} `operation`, `transaction_over` (the function is async, or calls came
   * after it), `transaction_too_large` (over 10,000), and as the methods of the same names do. Nothing of
   * the transaction is done then.
   *
   * @example
   * ```ts
   * replica.transact((t) => {
   *   t.add('stock', -1);
   *   t.add('sold');
   * });
   * replica.transact([{ op: 'add', key: 'stock', by: -1 }, { op: 'add', key: 'sold' }]); // the same
   * ```
   */
  transact(work: readonly Operation[] | ((transaction: Transaction) => void)): boolean[] {
    const operations = typeof work === 'function' ? new Transaction().of(work) : work;
    this.#timed ||= operations.some(({ op }) => op === 'expire');
    const engine = this.#live();
    // All checks of this side come before the first step.
    const packed = operations.map((operation) => ({ ...pack(operation), key: operation.key, bytes: keyBytes(operation.key) }));
    for (const { bytes, kind, number } of packed) engine.stage(bytes, kind, number);
    if (!engine.commit()) {
      const [first] = operations;
      const what = operations.length === 1 && first ? `${first.op} ${quoted(first.key)}` : 'make this transaction';
      throw coded(errorCode(engine), `cannot ${what}`);
    }
    const told = Array.from(engine.take(), Boolean);
    packed.forEach((operation, at) => {
      if (acted(operation, told[at] === true)) this.#touch(operation.key);
    });
    this.#localChange = true;
    return told;
  }

  /** The counter's exact value, or `undefined` when it does not exist. */
  get(key: string): bigint | undefined {
    const engine = this.#live();
    const keyId = this.#keyIds.get(key) ?? engine.find(utf8(key), false);
    return keyId === NO_KEY_ID ? undefined : engine.value_at(keyId);
  }

  /** When the counter expires; `undefined` when it does not, or is absent. */
  expiresAt(key: string): Date | undefined {
    const engine = this.#live();
    const keyId = engine.find(utf8(key), false);
    const at = keyId === NO_KEY_ID ? 0 : engine.expiry_at(keyId);
    return at > 0 ? new Date(at) : undefined;
  }

  /**
   * A counter under a fixed key, for code that uses it again and again. It need not exist yet.
   *
   * @throws {@link TallymeshError} `key_length`, `key_reserved` or `freed`.
   */
  counter(key: string): Counter {
    const counter = new Counter(this, key, this.#intern(key));
    this.#counters.add(counter);
    return counter;
  }

  /** @internal */
  get [ERROR_CLASS](): typeof TallymeshError {
    return TallymeshError;
  }

  /** @internal Adds by a key's number. */
  addAt(keyId: number, by: number | bigint, key: string): void {
    const engine = this.#live();
    const added =
      typeof by === 'number' && (by | 0) === by ? engine.add_small(keyId, by) : engine.add(keyId, amount(by));
    if (!added) throw coded(errorCode(engine), `cannot add ${by} to ${quoted(key)}`);
    this.#localChange = true;
    this.#touch(key);
  }

  /** @internal Reads by a key's number. */
  valueAt(keyId: number): bigint | undefined {
    return this.#live().value_at(keyId);
  }

  /** @internal Lets go of a counter object. */
  release(counter: Counter): void {
    if (this.#counters.delete(counter)) this.#engine?.release(counter.keyId!);
  }

  /** The keys of all counters that exist and begin with `prefix`, sorted. */
  keys(prefix = ''): string[] {
    return this.list(prefix).map(([key]) => key);
  }

  /** All counters that exist and whose key begins with `prefix`, with their values, sorted by key. */
  list(prefix = ''): [key: string, value: bigint][] {
    const found: [string, bigint][] = [];
    this.#each((engine, keyId) => {
      const key = keyOf(engine, keyId);
      if (key?.startsWith(prefix)) found.push([key, engine.value_at(keyId) ?? 0n]);
    });
    return found.sort(([a], [b]) => (a < b ? -1 : 1));
  }

  /** Calls `act` with the number of each counter that exists. */
  #each(act: (engine: Engine, keyId: number) => void): void {
    const engine = this.#live();
    engine.read(COUNTERS, 0);
    for (const keyId of takeKeyIds(engine)) act(engine, keyId);
  }

  /** What each writer says of a counter, sorted by writer. The totals add up to its value. */
  shards(key: string): Shard[] {
    const engine = this.#live();
    const keyId = engine.find(utf8(key), false);
    if (keyId === NO_KEY_ID) return [];
    return readShards(read(engine, SHARDS, keyId)!);
  }

  /** What this replica holds, in numbers. */
  status(): Status {
    return this.#status();
  }

  #status(): Status {
    const engine = this.#live();
    const status = readStatus(read(engine, STATUS)!);
    // In an open space there is nothing of these.
    const closed = this.#guest?.members(engine) as Pick<Status, 'members' | 'home' | 'pending'>;
    return { space: this.space, ...status, faults: status.faults + this.#faultsBefore, links: this.#links.size, ...closed };
  }

  /** The writers that are known here, sorted, and what became of them. */
  writers(): Writer[] {
    const engine = this.#live();
    if (this.#guest) return this.#guest.writers(engine);
    return [...this.#status().vector].map(([writer, clock]) => ({ writer, clock, fate: 'living' }));
  }

  /**
   * Moves this replica to the second module, which deals with spaces that have members and with tokens, and
   * loads that if need be. A replica does this by itself when a link brings word of members, or when it is
   * asked for a token; links are closed with `upgraded` then and are to be made again, as `connect()` does.
   * Nothing that is counted gets lost.
   *
   * @throws {@link TallymeshError} `module_load`; it may be tried again.
   */
  upgrade(): Promise<void> {
    this.#live();
    return (this.#upgrading ??= loadGuest().then(
      (guest) => this.#move(guest),
      (error: unknown) => {
        this.#upgrading = undefined;
        throw error;
      },
    ));
  }

  /**
   * Says goodbye to the member that takes care of this replica, which then takes over what was counted
   * here: at once, and not only when this replica was not heard of for ten minutes. To be called before
   * a page goes. All links end with `left`, which pauses a {@link Connection}. Whatever is counted after it
   * waits here; once a link is made again, the replica rejoins, under another {@link Replica.writer}.
   *
   * @returns false, with nothing done, where there is nobody to say it to: the space is open, or no member
   * was met yet.
   */
  leave(): boolean {
    const engine = this.#live();
    if (this.#guest?.leave(engine, now()) !== true) return false;
    this.#links.drain(Infinity);
    this.#links.end(coded('left', LINK_CLOSED));
    return true;
  }

  /**
   * A token: what a session depends on that did what was done here and saw what is seen here, as text. Who
   * reads with it at any replica of the space sees all of that: over HTTP with the header `tallymesh-token`,
   * in a page by {@link Replica.reached}. Takes the second module, as {@link Replica.upgrade} does.
   *
   * @param before - the token that the session had, such as a node's last answer gave it.
   * @throws {@link TallymeshError} `token`, `token_full`, `module_load` or `freed`.
   *
   * @example
   * ```ts
   * replica.add('likes');
   * await fetch(url, { headers: { 'tallymesh-token': await replica.token() } });
   * ```
   */
  async token(before?: string | null): Promise<string> {
    await this.upgrade();
    const engine = this.#live();
    return this.#guest!.token(engine, before);
  }

  /**
   * Waits until this replica sees all that a token names. It has to be connected for that. Takes the second
   * module, as {@link Replica.upgrade} does.
   *
   * @param token - as an answer of a node gave it, or {@link Replica.token} of another replica.
   * @throws {@link TallymeshError} `token_not_reached`, `token`, `module_load` or `freed`; and the reason of
   * `signal`, once that is aborted.
   */
  async reached(token: string, options: Waiting = {}): Promise<void> {
    await this.upgrade();
    this.#live();
    return this.#guest!.reached(() => this.#live(), this.#links.looks, token, options);
  }

  /**
   * Calls `listener` after local operations and merges, with each counter that they changed; changes of
   * one turn come together, in a microtask after it, and what takes longer than 10 ms goes on in further
   * turns. It is also called when a counter expires.
   *
   * @param watched - the key of a counter, or `{ prefix }`: `{ prefix: '' }` is all counters.
   * @returns a function that ends it.
   * @throws {@link TallymeshError} `key_type`, `key_unicode` or `key_reserved`.
   */
  subscribe(watched: Watched, listener: Listener): () => void {
    const one = typeof watched === 'string';
    const name = one ? watched : watched?.prefix;
    const map = one ? this.#byKey : this.#byPrefix;
    keyBytes(name);
    const listeners = map.get(name) ?? new Set();
    // One function may be subscribed twice: each subscription is its own.
    const entry: Listener = (value, changed) => listener(value, changed);
    map.set(name, listeners.add(entry));
    this.#watching++;
    if (one) this.#expiries.note(name, this.expiresAt(name));
    else {
      this.#each((engine, keyId) => {
        const at = engine.expiry_at(keyId);
        // One that nobody listens to does no harm.
        if (at > 0) this.#expiries.note(keyOf(engine, keyId)!, at);
      });
    }
    return () => {
      if (!listeners.delete(entry)) return;
      if (listeners.size === 0) map.delete(name);
      if (--this.#watching === 0) this.#expiries.clear();
    };
  }

  /**
   * Calls `listener` when this replica rejoined a space with members after it had been declared dead, or had
   * left: what it had counted counts once, but for what is said to be unknown or weaker. Without a listener,
   * such losses are written to the console as a warning.
   *
   * @returns a function that ends it.
   */
  onReturn(listener: (returned: Returned) => void): () => void {
    const entry = (returned: Returned): void => listener(returned);
    this.#returnListeners.add(entry);
    return () => void this.#returnListeners.delete(entry);
  }

  /** The whole state as bytes, for {@link Replica.merge} of any other replica of the space. */
  delta(): Uint8Array {
    return read(this.#live(), DELTA)!;
  }

  /**
   * What changed since this was last called, or `undefined` when nothing did: what a store appends.
   * The first call gives the whole state.
   */
  changes(): Uint8Array | undefined {
    return read(this.#live(), CHANGES);
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
    const changed = takeKeyIds(engine);
    if (!merged) throw coded(errorCode(engine), 'these bytes cannot be merged');
    for (const keyId of changed) this.#changed(keyId);
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

  /** @internal Answers a node that asks for the proof of the owner's key. */
  async prove(asked: string, sign: Sign | undefined): Promise<string> {
    await this.upgrade();
    return this.#guest!.prove(this.#live(), asked, this.#origin, sign ?? this.sign);
  }

  /** The full shard map as JSON, with 64-bit numbers as decimal strings. */
  toJSON(): ReplicaJSON {
    const status = this.#status();
    return toJSON(status, this.list().map(([key, value]) => [key, value, this.expiresAt(key), this.shards(key)]));
  }

  /**
   * Frees the memory of this replica. What it counted last is told before to listeners, and sent to those it
   * is linked to. Every later call throws `freed`; freeing twice does no harm.
   */
  free(): void {
    this.#flush(Infinity);
    if (this.#engine) this.#links.push(); // a listener may have freed it
    this.#links.end();
    this.#byKey.clear();
    this.#byPrefix.clear();
    this.#returnListeners.clear();
    this.#expiries.clear();
    this.#engine?.free();
    this.#engine = undefined;
    this.#links.look();
  }

  /**
   * Hands what was counted to all links at once, and not only after some milliseconds. Counters with a storage
   * also wait until it is durable.
   *
   * @throws {@link TallymeshError} `freed`.
   */
  async flush(): Promise<void> {
    this.#live();
    this.#flush();
    this.#links.push();
  }

  #returned(bytes: Uint8Array): void {
    const before = this.#writer;
    this.#writer = this.#status().writer;
    this.#guest?.returned(bytes, this.#writer, before, this.#returnListeners);
  }

  /** Goes on with an engine of the second module: no call of the application comes in between. */
  #move(guest: Guest): void {
    const before = this.#engine;
    if (!before || this.#guest) return;
    this.#faultsBefore = this.#status().faults;
    const engine = resumed(guest, before, this.#named, this.#origin);
    this.#engine = engine;
    this.#guest = guest;
    for (const key of this.#keyIds.keys()) this.#keyIds.set(key, this.#intern(key));
    for (const counter of this.#counters) counter.keyId = this.#intern(counter.key);
    this.#links.end(coded('upgraded', LINK_CLOSED), engine);
    before.free();
  }

  /** The engine, at this moment's time. */
  #live(): Engine {
    if (this.#engine) {
      if (this.#timed) this.#engine.set_time();
      return this.#engine;
    }
    throw new TallymeshError('freed', 'this replica was freed; open a new one');
  }

  #intern(key: string): number {
    const engine = this.#live();
    const keyId = engine.find(keyBytes(key), true);
    if (keyId === NO_KEY_ID) throw coded(errorCode(engine), `the key ${quoted(key)} was refused`);
    return keyId;
  }

  /** Pins a key, unless the amount that is to be added will be refused. */
  #take(key: string, by: number | bigint): number {
    amount(by);
    const keyId = this.#intern(key);
    if (this.#keyIds.size >= CACHED_KEYS_MAX) {
      for (const [oldest, pinned] of this.#keyIds) {
        this.#keyIds.delete(oldest);
        this.#live().release(pinned);
        break;
      }
    }
    this.#keyIds.set(key, keyId);
    return keyId;
  }

  #one(operation: Operation): boolean {
    return this.transact([operation])[0] === true;
  }

  /** A merge changed a counter. */
  #changed(keyId: number): void {
    const engine = this.#engine!;
    this.#timed ||= engine.expiry_at(keyId) > 0;
    if (this.#watching > 0) this.#touch(keyOf(engine, keyId));
  }

  #touch(key: string | undefined): void {
    if (key && key[0] !== RESERVED && this.#watching > 0) this.#dirty.add(key);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => this.#flush());
  }

  /** Tells what changed; whoever is to be told of much is told in parts, so that nothing else waits for long. */
  #flush(end = turnEnd()): void {
    this.#scheduled = false;
    if (!this.#engine) return;
    if (this.#localChange) {
      this.#localChange = false;
      this.#links.localChange();
    }
    for (const key of [...this.#dirty]) {
      if (now() > end) {
        setTimeout(() => this.#flush());
        break;
      }
      this.#dirty.delete(key);
      // A listener may free the replica.
      const tell = (listener: Listener): void => {
        if (this.#engine) guarded(() => listener(this.get(key), key));
      };
      const prefixes = [...this.#byPrefix];
      if (this.#engine) this.#expiries.note(key, this.expiresAt(key));
      this.#byKey.get(key)?.forEach(tell);
      for (const [prefix, listeners] of prefixes) {
        if (key.startsWith(prefix)) listeners.forEach(tell);
      }
    }
  }
}
