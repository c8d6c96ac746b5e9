/**
 * Ways to peers beside a node's address: other tabs, workers, and requests. It has a copy of nothing, and goes with each
 * of the entries that open counters.
 *
 * @module tallymesh/transports
 */
export { broadcastChannel } from '../transports/broadcast-channel.js';
export { messagePort, type Port } from '../transports/message-port.js';
export { post, type PostOptions } from '../transports/post.js';
export type { RetryOptions } from '../transports/connection.js';
