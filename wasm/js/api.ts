// What every entry exports; an entry adds only how the module is obtained.
export { connect, Connection, type ConnectionState, type ConnectOptions } from './connect.js';
export { Counter } from './counter.js';
export { TallymeshError } from './errors.js';
export type { CounterJSON, ReplicaJSON } from './json.js';
export type { Members, Returned, Shard, Writer } from './layout.js';
export type { Operation } from './operation.js';
export type { Link, Peer } from './peer.js';
export { Replica, type Listener, type ReplicaOptions, type Status, type Waiting } from './replica.js';
export type { Entry, InitOptions, ModuleSource } from './entry.js';
