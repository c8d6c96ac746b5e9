// What every entry exports; an entry adds only how the module is obtained.
export { TallymeshError } from '../internal/errors.js';
export type { Sign } from '../internal/sign.js';
export { Counter } from '../replica/counter.js';
export type { CounterJSON, ReplicaJSON } from '../replica/json.js';
export type { Members, Returned, Shard, Writer } from '../replica/layout.js';
export type { ModuleSource } from '../replica/module-source.js';
export { Counters, type CountersOptions, type CountersStatus, type PeerStatus, type Storage, type Transport, type Watching } from '../replica/open-counters.js';
export type { Link, Peer } from '../replica/peer.js';
export { Replica, type Listener, type ReplicaOptions, type Status, type Waiting, type Watched } from '../replica/replica.js';
export type { Operation, Transaction } from '../replica/transaction.js';
export type { Connection, ConnectionState } from '../transports/connection.js';
export { connect, type ConnectOptions, type WebSocketClass } from '../transports/websocket.js';
export type { Entry, InitOptions } from './entry.js';
