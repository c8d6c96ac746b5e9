// What of js-libp2p is used, by its shape: the package does not depend on it. What only passes through is `any`.
import type { gossipsubOptions } from '../libp2p.js';

/** A peer's name. */
export interface PeerName {
  /** The name as text, such as `12D3Koo...`. */
  toString(): string;
  /** The peer's public key, where its name tells it. */
  readonly publicKey?:
    | {
        /** The key's bytes: 32 of Ed25519. */
        readonly raw: Uint8Array;
      }
    | undefined;
}

/** A connection of a {@link Libp2pNode}. */
export interface NodeConnection {
  /** Who is at the other end. */
  readonly remotePeer: PeerName;
  /** `"open"` while it can be used. */
  readonly status: string;
  /** What a relay grants it; nothing if it is direct. */
  readonly limits?: unknown;
  /** Opens a stream that speaks a protocol. */
  newStream(protocols: string, options?: any): Promise<NodeStream>;
}

/** A stream of a {@link NodeConnection}. */
export interface NodeStream {
  /** `"open"` while it can be used. */
  readonly status: string;
  /** Whether all was read that the other end sent. */
  readonly readableEnded: boolean;
  /** Listens for what the other end sends, and for its end. */
  addEventListener(type: any, listener: (event: any) => void): void;
  /** Sends bytes; false says that {@link NodeStream.onDrain} is to be waited for. */
  send(data: Uint8Array): boolean;
  /** Waits until there is room for more. */
  onDrain(options?: any): Promise<void>;
  /** Ends it once all is sent. */
  close(options?: any): Promise<void>;
  /** Ends it at once. */
  abort(error: Error): void;
}

/** A node of js-libp2p 3, as `createLibp2p()` gives it. */
export interface Libp2pNode {
  /** The node's own name. */
  readonly peerId: PeerName;
  /** Its services by the names that they were given. */
  readonly services: object;
  /** What it knows of peers. */
  readonly peerStore: {
    /** What is known of one. */
    get(peer: any): Promise<{
      /** The protocols that it speaks. */
      readonly protocols: string[];
    }>;
  };
  /** The protocols that it speaks itself. */
  getProtocols(): string[];
  /** Its connections, or those with one peer. */
  getConnections(peer?: any): NodeConnection[];
  /** Connects to an address. */
  dial(to: any, options?: any): Promise<NodeConnection>;
  /** Closes all connections with a peer. */
  hangUp(peer: any, options?: any): Promise<void>;
  /** Answers a protocol. */
  handle(protocol: string, handler: (stream: any, connection: any) => void, options?: any): Promise<unknown>;
  /** Answers it no more. */
  unhandle(protocol: string): Promise<unknown>;
  /** Asks to be told of peers that speak a protocol; gives what ends that. */
  register(protocol: string, topology: any): Promise<string>;
  /** Ends what {@link Libp2pNode.register} gave. */
  unregister(id: string): void;
  /** Listens for the end of the last connection with a peer. */
  addEventListener(type: 'peer:disconnect', listener: (event: any) => void): void;
  /** Listens no more. */
  removeEventListener(type: 'peer:disconnect', listener: (event: any) => void): void;
}

/** The service `gossipsub()` of a {@link Libp2pNode}. */
export interface Gossipsub {
  /** Whether messages are signed: `"StrictNoSign"`, as {@link gossipsubOptions} says. */
  readonly globalSignaturePolicy: string;
  /** What judges the messages of a topic. */
  readonly topicValidators: Map<string, any>;
  /** The peers that listen to a topic. */
  getSubscribers(topic: string): PeerName[];
  /** Listens to a topic. */
  subscribe(topic: string): void;
  /** Listens to it no more. */
  unsubscribe(topic: string): void;
  /** Sends a message to all who listen. */
  publish(topic: string, data: Uint8Array, options?: any): Promise<unknown>;
}

/** The gossipsub among a node's services, by whatever name. */
export function gossipsubOf(node: Libp2pNode): Gossipsub | undefined {
  const isOne = (service: any): service is Gossipsub =>
    service?.topicValidators instanceof Map && typeof service.getSubscribers === 'function';
  return Object.values(node.services).find(isOne);
}
