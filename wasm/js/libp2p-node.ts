// What of js-libp2p is used, by its shape: the package does not depend on it. What only passes through is `any`.

/** A peer's name. */
export interface PeerName {
  toString(): string;
  readonly publicKey?: { readonly raw: Uint8Array } | undefined;
}

/** A connection of a {@link Libp2pNode}. */
export interface NodeConnection {
  readonly remotePeer: PeerName;
  readonly status: string;
  /** What a relay grants it; nothing if it is direct. */
  readonly limits?: unknown;
  newStream(protocols: string, options?: any): Promise<NodeStream>;
}

/** A stream of a {@link NodeConnection}. */
export interface NodeStream {
  readonly status: string;
  readonly readableEnded: boolean;
  addEventListener(type: any, listener: (event: any) => void): void;
  send(data: Uint8Array): boolean;
  onDrain(options?: any): Promise<void>;
  close(options?: any): Promise<void>;
  abort(error: Error): void;
}

/** A node of js-libp2p 3, as `createLibp2p()` gives it. */
export interface Libp2pNode {
  readonly peerId: PeerName;
  readonly services: object;
  readonly peerStore: { get(peer: any): Promise<{ readonly protocols: string[] }> };
  getProtocols(): string[];
  getConnections(peer?: any): NodeConnection[];
  dial(to: any, options?: any): Promise<NodeConnection>;
  hangUp(peer: any, options?: any): Promise<void>;
  handle(protocol: string, handler: (stream: any, connection: any) => void, options?: any): Promise<unknown>;
  unhandle(protocol: string): Promise<unknown>;
  register(protocol: string, topology: any): Promise<string>;
  unregister(id: string): void;
  addEventListener(type: 'peer:disconnect', listener: (event: any) => void): void;
  removeEventListener(type: 'peer:disconnect', listener: (event: any) => void): void;
}

/** The service `gossipsub()` of a {@link Libp2pNode}. */
export interface Gossipsub {
  readonly globalSignaturePolicy: string;
  readonly topicValidators: Map<string, any>;
  getSubscribers(topic: string): PeerName[];
  subscribe(topic: string): void;
  unsubscribe(topic: string): void;
  publish(topic: string, data: Uint8Array, options?: any): Promise<unknown>;
}

/** The gossipsub among a node's services, by whatever name. */
export function gossipsubOf(node: Libp2pNode): Gossipsub | undefined {
  const isOne = (service: any): service is Gossipsub =>
    service?.topicValidators instanceof Map && typeof service.getSubscribers === 'function';
  return Object.values(node.services).find(isOne);
}
