import type { Storage } from '../replica/open-counters.js';
import { freshName, freshPair, owner, publicHalf } from './owner-key.js';
import type { Log, Opened, OwnerKey, Remains, Store } from './store.js';
import { stored } from './stored-counters.js';

/** How {@link indexedDb} keeps counters. */
export interface IndexedDbOptions {
  /** The name of the database. Default: `"tallymesh"`. */
  readonly name?: string;
}

/**
 * Keeps counters in this origin's IndexedDB. Each tab has a log of its own, and all have one owner's key. What a tab
 * leaves behind that is closed or killed another one takes over: at once if one is open, or else the next that comes.
 * Nothing is told to anybody before it is durable here.
 *
 * A page that came over plain `http` (but from this machine) has no Web Locks, and so cannot know which tabs are alive.
 * Its counters are kept in memory only, which `status().storage` and a warning in the console say.
 *
 * @param options - the name of the database.
 * @throws {@link TallymeshError} `storage_failed`, by `open()`: where the database cannot be opened or written.
 *
 * @example
 * ```ts
 * const counters = await open({ storage: indexedDb(), transports: ['https://node.example', broadcastChannel()] });
 * ```
 */
export function indexedDb({ name = 'tallymesh' }: IndexedDbOptions = {}): Storage {
  return stored(new IndexedDbStore(name));
}

// Records are kept by [log, number]; a log is listed under its name with its space; keys has the owner's.
const LOGS = 'logs';
const RECORDS = 'records';
const KEYS = 'keys';
const OWNER = 'owner';

interface KeptOwner {
  readonly publicKey: Uint8Array;
  readonly privateKey: CryptoKey | undefined;
}

/** A log that a tab left behind, held by its lock until it is gone. */
interface Left extends Remains {
  readonly id: string;
  readonly release: () => void;
}

class IndexedDbStore implements Store {
  readonly kind = 'indexeddb';
  readonly #name: string;

  constructor(name: string) {
    this.#name = name;
  }

  async open(space: string): Promise<Opened> {
    const locks = globalThis.navigator?.locks;
    if (!locks || !globalThis.indexedDB) {
      return { none: 'nothing is stored, as this page is no secure context (https, or this machine) with IndexedDB and Web Locks' };
    }
    const db = await opened(this.#name);
    try {
      const ownerKey = await locks.request(`tallymesh:${this.#name}`, () => ownerOf(db));
      const log = new IndexedDbLog(db, locks, this.#name, space);
      await log.begin();
      return { log, left: await log.remains(), ownerKey };
    } catch (error) {
      db.close();
      throw error;
    }
  }
}

class IndexedDbLog implements Log {
  readonly #db: IDBDatabase;
  readonly #locks: LockManager;
  readonly #name: string;
  readonly #space: string;
  readonly #id = freshName();
  readonly #news: BroadcastChannel;
  /** Logs that are held here, or watched. */
  readonly #known = new Set<string>();
  readonly #ends = new AbortController();
  /** Lets go all locks that are held here. */
  readonly #releases = new Set<() => void>();
  #next = 0;

  constructor(db: IDBDatabase, locks: LockManager, name: string, space: string) {
    this.#db = db;
    this.#locks = locks;
    this.#name = name;
    this.#space = space;
    this.#news = new BroadcastChannel(`tallymesh:${name}:logs`);
    // Another version of this package may want to change the database.
    db.onversionchange = () => void this.close();
  }

  /** Begins the log: whoever can have its lock knows that nobody writes to it any more. */
  async begin(): Promise<void> {
    this.#known.add(this.#id);
    await this.#hold(this.#id, {});
    await this.#change((tx) => tx.objectStore(LOGS).put({ id: this.#id, space: this.#space }));
    this.#news.postMessage(this.#space);
  }

  /** What tabs left behind that are gone. */
  async remains(): Promise<Left[]> {
    const found: Left[] = [];
    for (const id of await this.#others()) {
      const release = await this.#hold(id, { ifAvailable: true });
      const left = release && (await this.#left(id, release));
      if (left) found.push(left);
    }
    return found;
  }

  async write(record: Uint8Array, whole: boolean, taken: readonly Remains[]): Promise<void> {
    const gone = taken as readonly Left[];
    const at = whole ? 0 : this.#next;
    await this.#change((tx) => {
      const records = tx.objectStore(RECORDS);
      if (whole) records.delete(range(this.#id));
      records.put(record, [this.#id, at]);
      for (const { id } of gone) {
        records.delete(range(id));
        tx.objectStore(LOGS).delete(id);
      }
    });
    this.#next = at + 1;
    for (const { release } of gone) release();
  }

  onRemains(take: (remains: Remains) => Promise<boolean>): void {
    const look = async (): Promise<void> => {
      for (const id of await this.#others()) {
        if (!this.#known.has(id)) void this.#watch(id, take);
      }
    };
    const see = (): void => void look().catch(() => {});
    this.#news.onmessage = ({ data }) => data === this.#space && see();
    see();
  }

  async close(): Promise<void> {
    this.#ends.abort();
    this.#news.close();
    for (const release of [...this.#releases]) release();
    this.#db.close();
  }

  /** Waits until a tab is gone, and has what it left behind taken over. */
  async #watch(id: string, take: (remains: Remains) => Promise<boolean>): Promise<void> {
    this.#known.add(id);
    try {
      const release = await this.#hold(id, { signal: this.#ends.signal });
      const left = release && (await this.#left(id, release));
      // Else it stays for the next who opens the store.
      if (left && !(await take(left))) release!();
    } catch {
      // This log is closed, or the storage fails: of that its writes tell.
    }
  }

  /** The other logs of this space. */
  async #others(): Promise<string[]> {
    const logs = await read<{ id: string; space: string }[]>(this.#db, LOGS, (store) => store.getAll());
    return logs.filter(({ id, space }) => space === this.#space && id !== this.#id).map(({ id }) => id);
  }

  /** A log that is held here; nothing if somebody else has taken it over. */
  async #left(id: string, release: () => void): Promise<Left | undefined> {
    const log = await read<unknown>(this.#db, LOGS, (store) => store.get(id));
    if (log === undefined) {
      release();
      return undefined;
    }
    this.#known.add(id);
    return { id, release, records: await read<Uint8Array[]>(this.#db, RECORDS, (store) => store.getAll(range(id))) };
  }

  /** Takes the lock of a log; gives what lets it go, or nothing if it is not to be had. */
  #hold(id: string, options: LockOptions): Promise<(() => void) | undefined> {
    return new Promise((resolve, reject) => {
      const held = this.#locks.request(`tallymesh:${this.#name}:${id}`, options, (lock) => {
        if (!lock) return resolve(undefined);
        return new Promise<void>((done) => {
          const release = (): void => {
            this.#releases.delete(release);
            done();
          };
          this.#releases.add(release);
          resolve(release);
        });
      });
      held.catch(reject);
    });
  }

  #change(change: (tx: IDBTransaction) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      // Strict: it is on the disk, and not only with the system, when it is said to be done.
      const tx = this.#db.transaction([LOGS, RECORDS], 'readwrite', { durability: 'strict' });
      tx.oncomplete = () => resolve();
      tx.onabort = tx.onerror = () => reject(tx.error);
      change(tx);
    });
  }
}

const range = (id: string): IDBKeyRange => IDBKeyRange.bound([id, 0], [id, Infinity]);

function opened(name: string): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(name, 1);
    opening.onupgradeneeded = () => {
      opening.result.createObjectStore(LOGS, { keyPath: 'id' });
      opening.result.createObjectStore(RECORDS);
      opening.result.createObjectStore(KEYS);
    };
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });
}

function read<T>(db: IDBDatabase, from: string, request: (store: IDBObjectStore) => IDBRequest): Promise<T> {
  return new Promise((resolve, reject) => {
    const asked = request(db.transaction(from).objectStore(from));
    asked.onsuccess = () => resolve(asked.result as T);
    asked.onerror = () => reject(asked.error);
  });
}

/** The key of all tabs, made by the first one. Its private half never leaves the browser. */
async function ownerOf(db: IDBDatabase): Promise<OwnerKey> {
  const kept = await read<KeptOwner | undefined>(db, KEYS, (store) => store.get(OWNER));
  if (kept) return owner(kept.publicKey, kept.privateKey);
  const pair = await freshPair(false);
  const publicKey = await publicHalf(pair);
  const fresh: KeptOwner = { publicKey, privateKey: pair?.privateKey };
  await new Promise<void>((resolve, reject) => {
    const tx = db.transaction(KEYS, 'readwrite', { durability: 'strict' });
    tx.oncomplete = () => resolve();
    tx.onabort = tx.onerror = () => reject(tx.error);
    tx.objectStore(KEYS).put(fresh, OWNER);
  });
  return owner(fresh.publicKey, fresh.privateKey);
}
