import type { Connection, Replica } from 'tallymesh';
import { broadcastChannel } from 'tallymesh/transports';
import { isConsole } from './make.js';
import type { Node, NodeStatus, PeerRow } from './node.js';
import type { Edge, Vertex } from './stage/mesh.js';
import { STAGE_KEY, type Stage } from './stage/stage.js';
import { short } from './writers.js';

const NODE_LOOK_MS = 500;
const HERE_MS = 5_000;
/** Tabs in the background may be held up for a minute. */
const GONE_MS = 70_000;

/** What tabs tell each other for the drawing; counts travel by the transport. */
interface Presence {
  readonly id: string;
  readonly kind: 'here' | 'ask' | 'bye';
  readonly value: string | null;
}

/** Puts on the stage what is outside of this page: other tabs, the node, and the nodes that it talks with. */
export class OutsideWorld {
  readonly #stage: Stage;
  readonly #replica: Replica;
  readonly #connection: Connection;
  readonly #node: Node | undefined;
  #tab: Vertex | undefined;
  #nodeEdge: Edge | undefined;
  #left = false;
  readonly #far = new Map<string, Edge>();
  readonly #tabs = new Map<string, { edge: Edge; heard: number }>();
  #broadcast: Connection | undefined;
  #presence: BroadcastChannel | undefined;
  readonly #id = crypto.randomUUID();

  constructor(stage: Stage, replica: Replica, connection: Connection, node: Node | undefined) {
    this.#stage = stage;
    this.#replica = replica;
    this.#connection = connection;
    this.#node = node;
    connection.subscribe(() => this.#linked());
    if (!node) this.#join();
  }

  /** Lights up the link to the node. */
  passed(out: boolean, bytes: number): void {
    const edge = this.#nodeEdge;
    if (edge && !edge.cut) this.#stage.mesh.passed(edge, out ? edge.a : edge.b, bytes, bytes > 80 ? 'push' : 'digest');
  }

  /** Shows what the node says of itself. At work, and not for a demonstration, it is none of the stage's business. */
  seen(status: NodeStatus, peers: readonly PeerRow[]): void {
    if (this.#replica.status().members) return this.#leave();
    if (!status.demo || this.#left) return;
    this.#join();
    this.#showNode();
    if (!this.#nodeEdge) return;
    const nodes = peers.filter(({ kind }) => kind === 'node').slice(0, 4);
    for (const { id } of nodes) {
      if (this.#far.has(id)) continue;
      const vertex: Vertex = { id: `far-${id}`, name: short(id.slice(-8)), kind: 'far-node', value: undefined, known: false };
      void this.#lookFar(id, vertex);
      this.#far.set(id, this.#stage.show(vertex, this.#nodeEdge.b, (cut) => void this.#node?.cut(cut, id).catch(() => {})));
    }
    for (const [id, edge] of this.#far) edge.cut = status.cut || !nodes.some((row) => row.id === id);
    this.#stage.refresh();
  }

  #join(): void {
    if (this.#tab) return;
    const tab = (this.#tab = this.#stage.join(this.#replica));
    if (!globalThis.BroadcastChannel) return;
    this.#broadcast = this.#node ? broadcastChannel('tallymesh-page')(this.#replica) : this.#connection;
    this.#linked();
    const channel = new BroadcastChannel(`tallymesh-presence:${this.#replica.space}`);
    this.#presence = channel;
    const tell = (kind: Presence['kind']): void => {
      if (this.#presence) channel.postMessage({ id: this.#id, kind, value: tab.value === undefined ? null : String(tab.value) } satisfies Presence);
    };
    channel.onmessage = ({ data }) => this.#heard(data as Presence, tell);
    this.#replica.subscribe(STAGE_KEY, () => tell('here'));
    addEventListener('pagehide', () => tell('bye'));
    addEventListener('pageshow', () => tell('ask'));
    setInterval(() => {
      tell('here');
      const now = performance.now();
      for (const [id, { heard }] of this.#tabs) if (now - heard > GONE_MS) this.#forget(id);
    }, HERE_MS);
    tell('ask');
  }

  #heard({ id, kind, value }: Presence, tell: (kind: Presence['kind']) => void): void {
    if (kind === 'bye') return this.#forget(id);
    let known = this.#tabs.get(id);
    if (!known && this.#tab) {
      const vertex: Vertex = { id: `tab-${id}`, name: `tab ${this.#tabs.size + 2}`, kind: 'other-tab', value: undefined, known: true };
      const edge = this.#stage.show(vertex, this.#tab, (cut) => {
        if (cut) this.#broadcast?.pause();
        else this.#broadcast?.resume();
        this.#linked();
      });
      known = { edge, heard: 0 };
      this.#tabs.set(id, known);
      this.#linked();
    }
    if (!known) return;
    known.heard = performance.now();
    const vertex = known.edge.b;
    const now = value === null ? undefined : BigInt(value);
    if (vertex.value !== now && !known.edge.cut) this.#stage.mesh.passed(known.edge, vertex, 64, 'push');
    vertex.value = now;
    this.#stage.refresh();
    if (kind === 'ask') tell('here');
  }

  #forget(id: string): void {
    const known = this.#tabs.get(id);
    if (!known) return;
    this.#tabs.delete(id);
    this.#stage.hide(known.edge.b);
  }

  /** One switch cuts this tab off from the node and from other tabs. */
  #linked(): void {
    const broadcast = this.#broadcast;
    const { state } = this.#connection;
    if (this.#nodeEdge) this.#nodeEdge.cut = state !== 'online';
    if (broadcast && broadcast !== this.#connection) {
      if (state === 'paused' && !this.#alone) {
        this.#alone = true;
        broadcast.pause();
      } else if (state !== 'paused' && this.#alone) {
        this.#alone = false;
        broadcast.resume();
      }
    }
    for (const { edge } of this.#tabs.values()) edge.cut = broadcast?.state === 'paused';
    this.#stage.refresh();
  }

  /** Whether the other tabs are cut off because the node is. */
  #alone = false;

  #showNode(): void {
    if (this.#nodeEdge || !this.#tab || !this.#node) return;
    const node = this.#node;
    const vertex: Vertex = { id: 'node', name: 'its node', kind: 'node', value: undefined, known: true };
    this.#nodeEdge = this.#stage.show(vertex, this.#tab, (cut) => (cut ? this.#connection.pause() : this.#connection.resume()));
    this.#linked();
    const look = async (): Promise<void> => {
      try {
        if (!document.hidden && !isConsole()) {
          const value = await node.counter(STAGE_KEY);
          if (value !== vertex.value) this.#stage.refresh();
          vertex.value = value;
        }
      } catch {
        // It is seen at its link that it does not answer.
      }
      if (!this.#left) setTimeout(() => void look(), NODE_LOOK_MS);
    };
    void look();
  }

  /** Has the node ask another what that shows, again and again; what is cut off can't be asked. */
  async #lookFar(id: string, vertex: Vertex): Promise<void> {
    while (!this.#left && this.#node) {
      const before = vertex.known ? vertex.value : null;
      try {
        if (!document.hidden && !isConsole()) {
          vertex.value = await this.#node.counterAt(id, STAGE_KEY);
          vertex.known = true;
        }
      } catch {
        vertex.known = false;
      }
      if (before !== (vertex.known ? vertex.value : null)) this.#stage.refresh();
      await pause();
    }
  }

  /** A space with members is real work, which the stage keeps out of. */
  #leave(): void {
    this.#left = true;
    if (!this.#tab) return;
    this.#presence?.close();
    this.#presence = undefined;
    if (this.#broadcast !== this.#connection) this.#broadcast?.close();
    this.#nodeEdge = this.#tab = this.#broadcast = undefined;
    this.#tabs.clear();
    this.#far.clear();
    this.#stage.leave();
  }
}

function pause(): Promise<void> {
  return new Promise((go) => setTimeout(go, NODE_LOOK_MS));
}
