// A node has one handler of the protocol, and any number of spaces: this gives each frame to the one that it is of.
import { framesOf, REQUEST_BYTES_MAX, spaceOf, SYNC } from './frames.js';
import type { Libp2pNode, NodeConnection, NodeStream, PeerName } from './node.js';
import { ask, readAll, TooLong } from './streams.js';

/** Who takes part in a space over a node. */
export interface Participant {
  /** A peer is connected that speaks the protocol. */
  met(peer: PeerName): void;
  /** The last connection with a peer is gone. */
  gone(peer: PeerName): void;
  /** A frame of the space came. */
  frame(peer: PeerName, frame: Uint8Array<ArrayBuffer>): void;
  /** Something came that Tallymesh never sends. */
  misbehaved(peer: PeerName, code: string, why: string): void;
}

/** Most requests of one connection that come at once: one is the rule, and others may have been given up. */
const STREAMS_MAX = 8;

const hubs = new WeakMap<Libp2pNode, Hub>();

/** What the spaces of one node share. */
export class Hub {
  readonly #node: Libp2pNode;
  readonly #spaces = new Map<string, Participant>();
  /** What is under way at the node comes one after the other. */
  #turn: Promise<unknown> = Promise.resolve();
  #topology: string | undefined;
  /** The last request to each peer that is under way: one at a time, so that frames keep their order. */
  readonly #requests = new Map<string, Promise<void>>();

  private constructor(node: Libp2pNode) {
    this.#node = node;
  }

  static of(node: Libp2pNode): Hub {
    let hub = hubs.get(node);
    if (!hub) hubs.set(node, (hub = new Hub(node)));
    return hub;
  }

  /** Takes part in a space, which nobody else here does; false if somebody does. */
  async join(space: string, participant: Participant): Promise<boolean> {
    if (this.#spaces.has(space)) return false;
    this.#spaces.set(space, participant);
    try {
      await this.#settle();
    } catch (error) {
      this.leave(space, participant);
      throw error;
    }
    return true;
  }

  leave(space: string, participant: Participant): void {
    if (this.#spaces.get(space) !== participant) return;
    this.#spaces.delete(space);
    // A node that was stopped has nothing to be undone.
    this.#settle().catch(() => {});
  }

  /** Sends a request, once those before it have arrived. */
  send(peer: PeerName, request: () => Uint8Array): Promise<void> {
    const id = peer.toString();
    const send = async (): Promise<void> => {
      const open = this.#node.getConnections(peer).filter(({ status }) => status === 'open');
      // One through a relay ends some time, and is the slower one.
      const connection = open.find(({ limits }) => limits === undefined) ?? open[0];
      if (!connection) throw new Error('there is no connection');
      const bytes = request();
      // What was to be sent may be of a link that is over by now.
      if (bytes.length > 0) await ask(connection, SYNC, bytes, 0);
    };
    const sent = (this.#requests.get(id) ?? Promise.resolve()).then(send, send);
    const done = (): void => {
      if (this.#requests.get(id) === sent) this.#requests.delete(id);
    };
    this.#requests.set(id, sent);
    sent.then(done, done);
    return sent;
  }

  /** Listens at the node while there is a space, and not longer. */
  #settle(): Promise<void> {
    const settle = async (): Promise<void> => {
      const wanted = this.#spaces.size > 0;
      if (wanted === (this.#topology !== undefined)) return;
      if (wanted) await this.#begin();
      else await this.#end();
    };
    const turn = this.#turn.then(settle, settle);
    this.#turn = turn;
    return turn;
  }

  async #begin(): Promise<void> {
    await this.#node.handle(SYNC, this.#handle, { maxInboundStreams: STREAMS_MAX, maxOutboundStreams: STREAMS_MAX, runOnLimitedConnection: true });
    this.#node.addEventListener('peer:disconnect', this.#gone);
    const onConnect = (peer: PeerName): void => this.#spaces.forEach((it) => it.met(peer));
    this.#topology = await this.#node.register(SYNC, { onConnect, notifyOnLimitedConnection: true });
  }

  async #end(): Promise<void> {
    this.#node.unregister(this.#topology!);
    this.#topology = undefined;
    this.#node.removeEventListener('peer:disconnect', this.#gone);
    await this.#node.unhandle(SYNC);
  }

  readonly #gone = ({ detail }: { detail: PeerName }): void => this.#spaces.forEach((it) => it.gone(detail));

  readonly #handle = async (stream: NodeStream, connection: NodeConnection): Promise<void> => {
    const peer = connection.remotePeer;
    const refuse = (code: string, why: string): void => {
      stream.abort(new Error(why));
      this.#spaces.forEach((it) => it.misbehaved(peer, code, why));
    };
    try {
      const request = await readAll(stream, REQUEST_BYTES_MAX);
      const frames = framesOf(request);
      const spaces = frames?.map(spaceOf);
      if (!frames || !spaces?.every((space) => space !== undefined)) return refuse('malformed', 'a request came that Tallymesh never sends');
      // What was sent on a connection that is gone is of a link that is gone.
      if (connection.status !== 'open') return;
      // Nodes greet in all of their spaces: what is for others than those here is passed over.
      frames.forEach((frame, at) => this.#spaces.get(spaces[at]!)?.frame(peer, frame));
      await stream.close();
    } catch (error) {
      if (error instanceof TooLong) refuse('too_large', error.message);
    }
  };
}
