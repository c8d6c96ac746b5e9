/**
 * A way to peers by a node of js-libp2p that the user has. It has a copy of neither, and goes with each of the entries
 * that open counters.
 *
 * @module tallymesh/libp2p
 */
export { gossipsubOptions, libp2pTransport, type Libp2pOptions } from '../transports/libp2p.js';
export type { Gossipsub, Libp2pNode, NodeConnection, NodeStream, PeerName } from '../transports/libp2p/node.js';
export type { RetryOptions } from '../transports/connection.js';
