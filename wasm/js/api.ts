// What every entry exports; an entry adds only how the module is obtained.
export { connect, type Connection, type ConnectionState, type ConnectOptions, type Sign, type WebSocketClass } from './connect.js';
export { Counter } from './counter.js';
export { Counters, type CountersOptions, type CountersStatus, type PeerStatus, type Storage, type Transport, type Watching } from './counters.js';
export { TallymeshError } from './errors.js';
export type { CounterJSON, ReplicaJSON } from './json.js';
export type { Members, Returned, Shard, Writer } from './layout.js';
export type { Operation, Transaction } from './operation.js';
export type { Link, Peer } from './peer.js';
export { Replica, type Listener, type ReplicaOptions, type Status, type Waiting, type Watched } from './replica.js';
export type { Entry, InitOptions, ModuleSource } from './entry.js';
