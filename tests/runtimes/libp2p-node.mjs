// Nodes of js-libp2p as a user makes them. Node 20 lacks two things that js-libp2p takes for granted: import it first.
import { WebSocket } from 'ws';

globalThis.WebSocket ??= WebSocket;
Promise.withResolvers ??= () => {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
};

const [{ createLibp2p }, { gossipsub }, { identify }, { noise }, { ping }, { webSockets }, { yamux }, { multiaddr }] = await Promise.all([
  import('libp2p'), import('@libp2p/gossipsub'), import('@libp2p/identify'), import('@libp2p/noise'), import('@libp2p/ping'),
  import('@libp2p/websockets'), import('@libp2p/yamux'), import('@multiformats/multiaddr'),
]);

/** Makes a node that dials by WebSocket, and speaks gossipsub if there are options for it. */
export function makeNode(gossip, more = {}) {
  return createLibp2p({
    transports: [webSockets()],
    connectionEncrypters: [noise()],
    streamMuxers: [yamux()],
    services: { identify: identify(), ping: ping(), ...(gossip && { pubsub: gossipsub(gossip) }) },
    connectionGater: { denyDialMultiaddr: () => false },
    ...more,
  });
}

export { multiaddr };
