// What every entry exports; an entry adds only how the module is obtained.
export { connect, Connection, type ConnectionState, type ConnectOptions } from './connect.js';
export { TallymeshError } from './errors.js';
export type { ModuleSource } from './engine.js';
export type { CounterJSON, ReplicaJSON } from './json.js';
export type { Shard } from './layout.js';
export type { Link, Peer } from './links.js';
export { Counter, Replica, type Listener, type ReplicaOptions, type Status } from './replica.js';
export type { InitOptions } from './entry.js';
