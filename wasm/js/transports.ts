// The entry `tallymesh/transports`: ways to peers beside connect(). It has a copy of nothing, and works with the
// replicas of every other entry.
export { broadcastChannel } from './broadcast.js';
export { messagePort, type Port } from './port.js';
export { post, type PostOptions } from './post.js';
export type { RetryOptions } from './connect.js';
