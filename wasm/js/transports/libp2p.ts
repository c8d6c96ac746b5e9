import { isTallymeshError } from '../internal/error-class.js';
import type { TallymeshError } from '../internal/errors.js';
import type { Transport } from '../replica/open-counters.js';
import type { Link } from '../replica/peer.js';
import type { Replica } from '../replica/replica.js';
import type { RetryOptions } from './connection.js';
import { isHello, isPush, JOIN, spaceOf, SYNC, takeRequest, topicOf } from './libp2p/frames.js';
import { Hub, type Participant } from './libp2p/hub.js';
import { gossipsubOf, type Gossipsub, type Libp2pNode, type NodeConnection, type PeerName } from './libp2p/node.js';
import { ask } from './libp2p/streams.js';
import { FRAME_BYTES_MAX } from './messages.js';
import { PersistentConnection } from './persistent.js';
import { roleOf } from './ticket.js';
import type { ConnectOptions } from './websocket.js';

/** How {@link libp2pTransport} behaves. */
export interface Libp2pOptions extends RetryOptions, Pick<ConnectOptions, 'ticket'> {
  /**
   * Addresses of peers to stay connected to, each as `node.dial` takes it: `multiaddr('/dns4/node.example/tcp/443/wss/p2p/...')`,
   * of a native node, or of a page at a relay. Whoever else connects takes part, too.
   */
  readonly peers?: readonly unknown[];
}

/**
 * What a node's `gossipsub()` has to be made with, so that it takes part in the pushes of native nodes: nobody signs
 * them, and equal ones are one message.
 *
 * @example
 * ```ts
 * createLibp2p({ services: { identify: identify(), ping: ping(), pubsub: gossipsub({ ...gossipsubOptions }) } });
 * ```
 */
export const gossipsubOptions = {
  /** Messages are not signed. */
  globalSignaturePolicy: 'StrictNoSign' as const,
  /** Names a message by its content. */
  msgIdFn: async ({ data }: { data: Uint8Array }): Promise<Uint8Array> =>
    new Uint8Array(await crypto.subtle.digest('SHA-256', data as Uint8Array<ArrayBuffer>)).subarray(0, 20),
  /** Nobody may be there yet. */
  allowPublishToZeroTopicPeers: true,
  /** A push that was heard already need not be made again. */
  ignoreDuplicatePublishError: true,
};

/** Tells what others speak; and native nodes cut off who does not answer pings. */
const NEEDED = ['/ipfs/id/1.0.0', '/ipfs/ping/1.0.0'];
/** An attempt that takes longer is given up. */
const DIAL_MS_MAX = 10_000;
/** Most bytes that wait for one peer. Frames beyond are dropped, and made good later. */
const QUEUE_BYTES_MAX = 8 << 20;
/** How often it is tried to get back to a peer that nobody named. */
const TRIES_MAX = 4;
const ANSWER_BYTES_MAX = 16 << 10;

/**
 * Keeps a replica in sync with all peers of a running node of js-libp2p that take part in the space: native nodes,
 * and other programs with this transport. It works as between native nodes: the same protocol from peer to peer, and
 * the same gossipsub topic, if the node has the service `gossipsub()` (made with {@link gossipsubOptions}). It
 * needs the services `identify()` and `ping()`.
 *
 * The connection is `online` while a peer takes part. The node stays when it is closed; its connections with peers
 * that took part are closed, as they are the links. For the same reason those that were there before it began are made
 * anew: so it best begins first, and dials itself.
 *
 * @throws {@link TallymeshError} `libp2p_services`, `gossipsub_policy`, `ticket` or `ticket_role`, when the connection is made.
 *
 * @example
 * ```ts
 * const transport = libp2pTransport(node, { peers: [multiaddr(address)] });
 * const counters = await open({ transports: [transport] });
 * ```
 */
export function libp2pTransport(node: Libp2pNode, options: Libp2pOptions = {}): Transport {
  return (replica) => new Libp2pConnection(replica, node, options);
}

/** A peer that is connected. */
interface Mate {
  readonly peer: PeerName;
  link: Link | undefined;
  /** Whether it has said anything: until then it may be one that has not opened this space. */
  greeted: boolean;
  queue: Uint8Array[];
  bytes: number;
  sending: boolean;
}

/** Whom to dial. */
interface Target {
  readonly to: unknown;
  /** Whether the user named it. */
  readonly named: boolean;
  /** Who was there. */
  peer: string | undefined;
  failures: number;
  /** What `failures` was when the link was begun. */
  failuresBefore: number;
  timer: ReturnType<typeof setTimeout> | undefined;
  dialling: boolean;
}

/** The time from a beginning to an end. */
interface Run {
  readonly targets: Target[];
  timer: ReturnType<typeof setTimeout> | undefined;
}

class Libp2pConnection extends PersistentConnection implements Participant {
  readonly #node: Libp2pNode;
  readonly #hub: Hub;
  readonly #pubsub: Gossipsub | undefined;
  readonly #options: Libp2pOptions;
  readonly #topic: string;
  readonly #mates = new Map<string, Mate>();
  #run: Run | undefined;
  /** How often in a row it could not begin. */
  #failures = 0;
  /** What was given to the topic last: the machine hands out one push for each link. */
  #published: Uint8Array = new Uint8Array();

  constructor(replica: Replica, node: Libp2pNode, options: Libp2pOptions) {
    super(replica, `libp2p:${node.peerId.toString()}:${replica.space}`, options);
    this.#node = node;
    this.#options = options;
    this.#hub = Hub.of(node);
    this.#topic = topicOf(replica.space);
    this.#pubsub = gossipsubOf(node);
    const spoken = node.getProtocols();
    if (!NEEDED.every((protocol) => spoken.includes(protocol))) {
      throw this.problem('libp2p_services', 'the node has to be started, with the services identify() and ping()');
    }
    if (this.#pubsub && this.#pubsub.globalSignaturePolicy !== 'StrictNoSign') {
      throw this.problem('gossipsub_policy', 'pushes are not signed: make the node with gossipsub({ ...gossipsubOptions })');
    }
    if (options.ticket !== undefined) this.#lookAtTicket(options.ticket);
    if (!options.paused) this.begin();
  }

  #lookAtTicket(ticket: string): void {
    if (!/^[\w.-]+$/.test(ticket)) throw this.problem('ticket', `${JSON.stringify(ticket)} is no ticket`);
    if (roleOf(ticket) === 'member') {
      // It would be admitted, and counted on: members have a disk.
      throw this.problem('ticket_role', 'a member\'s ticket makes the node\'s key a member, and a page can be none; ask for one of an editor');
    }
  }

  protected override begin(): void {
    this.#failures = 0;
    this.become('connecting');
    // A listener may have ended it.
    if (this.state === 'connecting') this.#start();
  }

  #start(): void {
    const { peers = [] } = this.#options;
    const targets = peers.map((to) => target(to, true));
    const run: Run = { targets, timer: undefined };
    this.#run = run;
    this.#enter(run).catch((error) => {
      if (this.#run !== run) return;
      this.end();
      this.note(this.#coded(error));
      const again: Run = { targets: [], timer: setTimeout(() => this.#start(), this.backOff(this.#failures++)) };
      this.#run = again;
      this.become('waiting');
    });
  }

  async #enter(run: Run): Promise<void> {
    const role = this.#options.ticket === undefined ? undefined : roleOf(this.#options.ticket);
    if (role !== undefined) await this.#holdTo(role);
    if (this.#run !== run) return;
    if (!(await this.#hub.join(this.replica.space, this))) {
      throw this.problem('space_taken', `another replica takes part in ${this.replica.space} over this node`);
    }
    // It left while it came in.
    if (this.#run !== run) {
      if (!this.#run) this.#hub.leave(this.replica.space, this);
      return;
    }
    this.#pubsub?.topicValidators.set(this.#topic, this.#pushed);
    this.#pubsub?.subscribe(this.#topic);
    this.#show();
    for (const target of run.targets) void this.#dial(run, target);
    await this.#meetConnected(run);
  }

  /** Holds the engine to a role as a node's challenge would; who has the key, the connection itself has proved. */
  async #holdTo(role: unknown): Promise<void> {
    const zeros = '0'.repeat(64);
    const proof = await this.replica.prove(JSON.stringify({ challenge: zeros, node: zeros, role }), async () => new Uint8Array(64));
    if (JSON.parse(proof).owner !== hex(this.#node.peerId.publicKey?.raw)) {
      throw this.problem('owner_key', 'with a ticket the key is the node\'s: open the replica with node.peerId.publicKey.raw as ownerKey');
    }
  }

  /**
   * Begins links with those that are connected already. Who takes part in the space has said hello to nobody then:
   * its next word gives that away, and the connection is made anew.
   */
  async #meetConnected(run: Run): Promise<void> {
    const peers = new Map(this.#node.getConnections().map(({ remotePeer }) => [remotePeer.toString(), remotePeer]));
    const met = [...peers.values()].map(async (peer) => {
      const known = await this.#node.peerStore.get(peer).catch(() => undefined);
      if (this.#run === run && known?.protocols.includes(SYNC)) this.met(peer);
    });
    await Promise.all(met);
  }

  protected override end(): void {
    const run = this.#run;
    this.#run = undefined;
    clearTimeout(run?.timer);
    for (const { timer } of run?.targets ?? []) clearTimeout(timer);
    this.#hub.leave(this.replica.space, this);
    if (run && this.#pubsub?.topicValidators.get(this.#topic) === this.#pushed) {
      this.#pubsub.topicValidators.delete(this.#topic);
      try {
        this.#pubsub.unsubscribe(this.#topic);
      } catch {
        // The node was stopped.
      }
    }
    for (const mate of [...this.#mates.values()]) {
      this.#forget(mate);
      this.#hangUp(mate.peer);
    }
  }

  #hangUp(peer: PeerName): Promise<void> {
    return this.#node.hangUp(peer).catch(() => {});
  }

  #forget(mate: Mate): void {
    this.#mates.delete(mate.peer.toString());
    mate.queue = [];
    mate.link?.close();
    mate.link = undefined;
  }

  // ---- what the hub tells ----

  met(peer: PeerName): void {
    const id = peer.toString();
    const run = this.#run;
    if (!run || this.#mates.has(id)) return;
    // Before the ticket is shown, a link would be a stranger's.
    if (this.#options.ticket !== undefined && run.targets.some((it) => it.dialling)) return;
    this.#meet(peer);
  }

  #meet(peer: PeerName): Mate {
    const mate: Mate = { peer, link: undefined, greeted: false, queue: [], bytes: 0, sending: false };
    const id = peer.toString();
    this.#mates.set(id, mate);
    const current = (): boolean => this.#mates.get(id) === mate;
    const link = this.attach(
      (frame) => current() && this.#send(mate, frame),
      () => current() && this.#run && void this.#part(this.#run, peer, true),
      (reason) => current() && this.#refuse(peer, reason),
    );
    if (current()) mate.link = link;
    else link?.close();
    return mate;
  }

  gone(peer: PeerName): void {
    const run = this.#run;
    const id = peer.toString();
    const mate = this.#mates.get(id);
    if (!run) return;
    if (mate) {
      this.#forget(mate);
      if (mate.greeted) this.note(this.problem('link_lost', `the link to ${id} was lost`));
    }
    for (const target of [...run.targets]) if (target.peer === id) this.#later(run, target);
    this.#show();
  }

  frame(peer: PeerName, frame: Uint8Array<ArrayBuffer>): void {
    if (!this.#run) return;
    const id = peer.toString();
    const mate = this.#mates.get(id) ?? this.#meet(peer);
    this.#take(mate, frame);
  }

  misbehaved(peer: PeerName, code: string, why: string): void {
    if (this.#run) this.#refuse(peer, this.problem(code, `the link was closed: ${why}`));
  }

  /** Hands a frame over; false if that ended the link. */
  #take(mate: Mate, frame: Uint8Array): boolean {
    mate.link?.receive(frame);
    const id = mate.peer.toString();
    if (this.#mates.get(id) !== mate) return false;
    if (!mate.greeted) {
      mate.greeted = true;
      this.note(undefined);
      for (const target of this.#run?.targets ?? []) {
        if (target.peer === id) [target.failuresBefore, target.failures] = [target.failures, 0];
      }
      this.#show();
    }
    return true;
  }

  // ---- pushes ----

  /** Judges what came on the topic: what is taken, or is no news, is passed on. */
  readonly #pushed = (from: PeerName, { data }: { data: Uint8Array }): 'accept' | 'reject' => {
    if (data.length > FRAME_BYTES_MAX || spaceOf(data) !== this.replica.space || !isPush(data)) return 'reject';
    const mate = this.#mates.get(from.toString());
    // Who has not said hello yet is asked for all of it then.
    return !mate?.greeted || this.#take(mate, data) ? 'accept' : 'reject';
  };

  #gossips(peer: PeerName): boolean {
    const id = peer.toString();
    return this.#pubsub?.getSubscribers(this.#topic).some((it) => it.toString() === id) === true;
  }

  #send(mate: Mate, frame: Uint8Array): void {
    if (isPush(frame) && this.#gossips(mate.peer)) return this.#publish(frame);
    if (mate.bytes + frame.length > QUEUE_BYTES_MAX) return;
    mate.bytes += frame.length;
    mate.queue.push(frame);
    if (!mate.sending) void this.#flush(mate);
  }

  #publish(frame: Uint8Array): void {
    const last = this.#published;
    if (last.length === frame.length && last.every((byte, at) => byte === frame[at])) return;
    this.#published = frame;
    const options = { allowPublishToZeroTopicPeers: true, ignoreDuplicatePublishError: true };
    // What gets lost is made good by links.
    this.#pubsub!.publish(this.#topic, frame, options).catch(() => {});
  }

  async #flush(mate: Mate): Promise<void> {
    mate.sending = true;
    while (mate.queue.length > 0) {
      let hello = false;
      const request = (): Uint8Array => {
        const before = [...mate.queue];
        const bytes = takeRequest(mate.queue);
        const taken = before.slice(0, before.length - mate.queue.length);
        hello = taken.some(isHello);
        mate.bytes -= taken.reduce((sum, { length }) => sum + length, 0);
        return bytes;
      };
      try {
        await this.#hub.send(mate.peer, request);
      } catch (error) {
        // Without a connection nothing was taken.
        const unsent = mate.queue.splice(0);
        hello ||= unsent.some(isHello);
        mate.bytes = 0;
        if (hello && this.#mates.get(mate.peer.toString()) === mate) this.#unheard(mate, error);
      }
    }
    mate.sending = false;
  }

  /** The hello did not arrive, so there is no link. */
  #unheard(mate: Mate, error: unknown): void {
    const run = this.#run;
    const id = mate.peer.toString();
    const named = run?.targets.some(({ peer }) => peer === id);
    if (run && named) this.#refuse(mate.peer, this.#coded(error));
    // One that begins later makes the connection anew.
    else this.#forget(mate);
  }

  // ---- ends and beginnings of links ----

  /** Ends a link for this reason. */
  #refuse(peer: PeerName, reason: TallymeshError): void {
    this.note(reason);
    const id = peer.toString();
    for (const target of this.#run?.targets ?? []) {
      // What was refused will be refused again: that the link came up was no success.
      if (target.peer === id) target.failures = Math.max(target.failures, target.failuresBefore);
    }
    if (this.#run) void this.#part(this.#run, peer, reason.code === 'handshake');
  }

  /** Ends a link, and its connections; `again` has it made anew by whoever can. */
  async #part(run: Run, peer: PeerName, again: boolean): Promise<void> {
    const id = peer.toString();
    const mate = this.#mates.get(id);
    if (mate) this.#forget(mate);
    if (again && !run.targets.some((it) => it.peer === id)) run.targets.push({ ...target(peer, false), peer: id });
    this.#show();
    await this.#hangUp(peer);
    // If there was a connection, this was done as it went.
    if (this.#run === run) for (const target of [...run.targets]) if (target.peer === id) this.#later(run, target);
  }

  #later(run: Run, target: Target): void {
    if (target.timer !== undefined || target.dialling) return;
    if (!target.named && target.failures >= TRIES_MAX) {
      run.targets.splice(run.targets.indexOf(target), 1);
      return;
    }
    target.timer = setTimeout(() => void this.#dial(run, target), this.backOff(target.failures++));
    this.#show();
  }

  async #dial(run: Run, target: Target): Promise<void> {
    clearTimeout(target.timer);
    target.timer = undefined;
    target.dialling = true;
    this.#show();
    try {
      const connection = await this.#node.dial(target.to, { signal: AbortSignal.timeout(DIAL_MS_MAX) });
      if (this.#run !== run) return;
      target.peer = connection.remotePeer.toString();
      if (target.named && this.#options.ticket !== undefined) await this.#showTicket(connection, this.#options.ticket);
      target.dialling = false;
      if (this.#run !== run) return;
      // It may be gone again: who took a ticket closes the connection, to be met anew.
      if (connection.status !== 'open') this.#later(run, target);
      else if (target.named) this.met(connection.remotePeer);
      else run.targets.splice(run.targets.indexOf(target), 1);
    } catch (error) {
      target.dialling = false;
      if (this.#run !== run) return;
      this.note(this.#coded(error));
      this.#later(run, target);
    }
    this.#show();
  }

  async #showTicket(connection: NodeConnection, ticket: string): Promise<void> {
    const question = new TextEncoder().encode(JSON.stringify({ ticket }));
    const answer = JSON.parse(new TextDecoder().decode(await ask(connection, JOIN, question, ANSWER_BYTES_MAX)));
    if (typeof answer?.code !== 'string') return;
    const code = /^[a-z_]{1,64}$/.test(answer.code) ? answer.code : 'ticket';
    throw this.problem(code, `${connection.remotePeer.toString()} refused the ticket: ${String(answer.detail)}`);
  }

  #coded(error: unknown): TallymeshError {
    if (isTallymeshError(error)) return error;
    return this.problem('link_lost', `a link over ${this.url} failed: ${String(error)}`, { cause: error });
  }

  #show(): void {
    const run = this.#run;
    if (!run || !this.running) return;
    if ([...this.#mates.values()].some(({ greeted }) => greeted)) this.become('online');
    else this.become(run.targets.some(({ timer }) => timer !== undefined) ? 'waiting' : 'connecting');
  }
}

function target(to: unknown, named: boolean): Target {
  return { to, named, peer: undefined, failures: 0, failuresBefore: 0, timer: undefined, dialling: false };
}

function hex(bytes: Uint8Array = new Uint8Array()): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
