// The entry `tallymesh/storage`: what keeps counters over the end of a page or process. It has a copy of nothing, and
// works with the counters of every other entry.
export { durableObject, type DurableObjectOptions, type DurableObjectStorage } from './durable-object.js';
export { indexedDb, type IndexedDbOptions } from './indexeddb.js';
export { stored, type StorageStatus, type StoredCounters, type StoredStatus } from './stored.js';
export type { Log, Opened, OwnerKey, Remains, StorageState, Store } from './store.js';
