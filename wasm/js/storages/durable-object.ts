import type { Storage } from '../replica/open-counters.js';
import { freshKey, freshName, keptKey, type StoredKey } from './owner-key.js';
import type { Log, Opened, Remains, Store } from './store.js';
import { stored } from './stored-counters.js';

/** What {@link durableObject} needs of a Durable Object's `ctx.storage`. */
export interface DurableObjectStorage {
  /** Reads one value. */
  get<T>(key: string): Promise<T | undefined>;
  /** Reads the values of keys that begin alike, in order. */
  list<T>(options: { prefix: string; limit?: number; startAfter?: string }): Promise<Map<string, T>>;
  /** Writes values. */
  put(entries: Record<string, unknown>): Promise<void>;
  /** Deletes keys. */
  delete(keys: string[]): Promise<number>;
  /** Makes all changes or none. */
  transaction<T>(change: (storage: DurableObjectStorage) => Promise<T>): Promise<T>;
  /** Waits until all is on the disk. */
  sync(): Promise<void>;
}

/** How {@link durableObject} keeps counters. */
export interface DurableObjectOptions {
  /** What the keys begin with that it uses. Default: `"tallymesh"`. */
  readonly prefix?: string;
}

/**
 * Keeps counters in the storage of a Durable Object (Cloudflare Workers), over its eviction. Open them once in an
 * object, as in its constructor under `blockConcurrencyWhile`: of two at once, the later takes over what the earlier
 * still writes.
 *
 * @param storage - `ctx.storage`.
 * @param options - what its keys begin with.
 *
 * @example
 * ```ts
 * const counters = await open({ storage: durableObject(ctx.storage), transports: [post('https://node.example')] });
 * ```
 */
export function durableObject(storage: DurableObjectStorage, { prefix = 'tallymesh' }: DurableObjectOptions = {}): Storage {
  return stored(new DurableObjectStore(storage, prefix));
}

/** A value may have 128 KiB, in objects of the older kind. */
const VALUE_BYTES_MAX = 120 << 10;
/** How many keys one call may name. */
const KEYS_MAX = 128;

interface Left extends Remains {
  readonly keys: readonly string[];
}

class DurableObjectStore implements Store {
  readonly kind = 'durable-object';
  readonly #storage: DurableObjectStorage;
  readonly #prefix: string;

  constructor(storage: DurableObjectStorage, prefix: string) {
    this.#storage = storage;
    this.#prefix = prefix;
  }

  async open(space: string): Promise<Opened> {
    const key = `${this.#prefix}/owner`;
    let kept = await this.#storage.get<StoredKey>(key);
    if (!kept) {
      kept = await freshKey();
      await this.#storage.put({ [key]: kept });
    }
    const logs = `${this.#prefix}/log/${space}/`;
    const left = remains(await listed(this.#storage, logs), logs);
    return { log: new DurableObjectLog(this.#storage, `${logs}${freshName()}/`), left, ownerKey: await keptKey(kept) };
  }
}

/** Keys are the log's, the record's number and the number of its part, so that they are listed in order. */
class DurableObjectLog implements Log {
  readonly #storage: DurableObjectStorage;
  readonly #log: string;
  #next = 0;
  #keys: string[] = [];

  constructor(storage: DurableObjectStorage, log: string) {
    this.#storage = storage;
    this.#log = log;
  }

  async write(record: Uint8Array, whole: boolean, taken: readonly Remains[]): Promise<void> {
    const entries: [string, Uint8Array][] = [];
    for (let at = 0; at < record.length; at += VALUE_BYTES_MAX) {
      const part = record.slice(at, at + VALUE_BYTES_MAX);
      entries.push([`${this.#log}${number(this.#next)}/${number(entries.length)}`, part]);
    }
    const gone = [...(whole ? this.#keys : []), ...(taken as readonly Left[]).flatMap(({ keys }) => keys)];
    await this.#storage.transaction(async (storage) => {
      for (let at = 0; at < entries.length; at += KEYS_MAX) await storage.put(Object.fromEntries(entries.slice(at, at + KEYS_MAX)));
      for (let at = 0; at < gone.length; at += KEYS_MAX) await storage.delete(gone.slice(at, at + KEYS_MAX));
    });
    await this.#storage.sync();
    this.#next++;
    this.#keys = [...(whole ? [] : this.#keys), ...entries.map(([key]) => key)];
  }

  async close(): Promise<void> {}
}

const number = (value: number): string => String(value).padStart(10, '0');

/** All that is stored under a prefix, in the order of its keys. */
async function listed(storage: DurableObjectStorage, prefix: string): Promise<[string, Uint8Array][]> {
  const found: [string, Uint8Array][] = [];
  for (;;) {
    const last = found.at(-1)?.[0];
    const page = await storage.list<Uint8Array>({ prefix, limit: 1_000, ...(last !== undefined && { startAfter: last }) });
    found.push(...page);
    if (page.size < 1_000) return found;
  }
}

/** Puts the parts of records together, log by log. */
function remains(entries: readonly [string, Uint8Array][], prefix: string): Left[] {
  const logs = new Map<string, { keys: string[]; records: Map<string, Uint8Array[]> }>();
  for (const [key, part] of entries) {
    const [log = '', record = ''] = key.slice(prefix.length).split('/');
    const { keys, records } = logs.get(log) ?? { keys: [], records: new Map<string, Uint8Array[]>() };
    logs.set(log, { keys, records });
    keys.push(key);
    records.set(record, [...(records.get(record) ?? []), part]);
  }
  return [...logs.values()].map(({ keys, records }) => ({ keys, records: [...records.values()].map(joined) }));
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
