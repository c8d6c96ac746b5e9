import { post } from '../transports/post.js';
import type { Entry } from './entry.js';

/**
 * `open` for places that may have no `WebSocket`, as Node 20: there, a node's address leads to it by requests, as
 * {@link post} does. A class that was passed is used.
 */
export function withoutSockets(open: Entry['open']): Entry['open'] {
  return (options = {}) => {
    const { transports, WebSocket = globalThis.WebSocket } = options;
    if (!transports || WebSocket) return open(options);
    const ways = transports.map((way) => (typeof way === 'function' ? way : post(way, options)));
    return open({ ...options, transports: ways });
  };
}
