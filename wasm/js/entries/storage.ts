/**
 * What keeps counters over the end of a page or Worker, and how to bring a storage of one's own. It has a copy of
 * nothing, and goes with each of the entries that open counters.
 *
 * @module tallymesh/storage
 */
export { durableObject, type DurableObjectOptions, type DurableObjectStorage } from '../storages/durable-object.js';
export { indexedDb, type IndexedDbOptions } from '../storages/indexeddb.js';
export { stored, type StorageStatus, type StoredCounters, type StoredStatus } from '../storages/stored-counters.js';
export type { Log, Opened, OwnerKey, Remains, StorageState, Store } from '../storages/store.js';
