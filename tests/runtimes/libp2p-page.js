// A page with js-libp2p, as a user's: it listens at a relay, and others reach it there by WebRTC.
import { circuitRelayTransport } from '@libp2p/circuit-relay-v2';
import { gossipsub } from '@libp2p/gossipsub';
import { identify } from '@libp2p/identify';
import { noise } from '@libp2p/noise';
import { ping } from '@libp2p/ping';
import { webRTC } from '@libp2p/webrtc';
import { webSockets } from '@libp2p/websockets';
import { yamux } from '@libp2p/yamux';
import { multiaddr } from '@multiformats/multiaddr';
import { createLibp2p } from 'libp2p';
import { open } from 'tallymesh/inline';
import { gossipsubOptions, libp2pTransport } from 'tallymesh/libp2p';

let node;

globalThis.begin = async ({ space, peers, ticket }) => {
  node = await createLibp2p({
    addresses: { listen: ['/p2p-circuit', '/webrtc'] },
    transports: [webSockets(), circuitRelayTransport(), webRTC({ rtcConfiguration: { iceServers: [] } })],
    connectionEncrypters: [noise()],
    streamMuxers: [yamux()],
    services: { identify: identify(), ping: ping(), pubsub: gossipsub({ ...gossipsubOptions }) },
    connectionGater: { denyDialMultiaddr: () => false },
  });
  const transport = libp2pTransport(node, { peers: peers.map((peer) => multiaddr(peer)), ticket });
  const ownerKey = ticket && node.peerId.publicKey.raw;
  globalThis.counters = await open({ space, ownerKey, transports: [transport] });
};

globalThis.placeAtRelay = () => node.getMultiaddrs().map(String).find((address) => address.includes('/webrtc/p2p/'));
globalThis.isDirect = () => node.getConnections().some(({ limits, remoteAddr }) => !limits && /webrtc/.test(remoteAddr.toString()));
