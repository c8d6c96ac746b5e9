import { Replica, type Link } from 'tallymesh';

/** What a point of the drawing stands for; only what has a replica lives in this page. */
export type Kind = 'tab' | 'peer' | 'other-tab' | 'node' | 'far-node';

/** A replica as it is drawn. */
export interface Vertex {
  readonly id: string;
  readonly name: string;
  readonly kind: Kind;
  /** What pressing it does, if that is not to add one to its replica. */
  readonly does?: string | undefined;
  /** Its replica, if that is in this page. */
  readonly replica?: Replica | undefined;
  /** What it shows; `undefined` when the counter is absent. */
  value: bigint | undefined;
  /** Whether its number can be known here. */
  known: boolean;
  /** Whether it has gone; then it is only remembered. */
  gone?: boolean;
}

/** A link as it is drawn. */
export interface Edge {
  readonly id: string;
  readonly a: Vertex;
  readonly b: Vertex;
  cut: boolean;
  /** Whether a hand may cut it. */
  readonly cuttable: boolean;
  /** Cuts or heals a link that does not end in this page. */
  readonly toggle?: ((cut: boolean) => void) | undefined;
}

/** A message on its way, as it is drawn and listed. */
export interface Message {
  readonly edge: Edge;
  readonly from: Vertex;
  readonly to: Vertex;
  readonly bytes: number;
  readonly what: string;
  readonly sent: number;
  readonly arrives: number;
  readonly lost: boolean;
}

interface Frame extends Message {
  readonly frame: Uint8Array;
  /** The link's number when it was sent: what was on its way as a link was cut never arrives. */
  readonly epoch: number;
}

interface InPage extends Edge {
  epoch: number;
  ends: (Link | undefined)[];
  /** When the last frame in each direction arrives: a link keeps the order, as a socket does. */
  last: [number, number];
}

/** What a frame's type byte says; docs/protocol.md, section 2. */
export const TYPES = ['', 'hello', 'digest', 'pull', 'delta', 'more', 'push', 'contents', 'writer', 'return', 'ended', 'ask', 'answer', 'own', 'want', 'draw'];
const TYPE_AT = 3;
const HELLO = 1;
/** How long a link that a replica gave up stays down. */
const AGAIN_MS = 1_000;

/** Real replicas in this page and the links between them, which lose and delay what passes. */
export class Mesh {
  readonly vertices: Vertex[] = [];
  readonly edges: Edge[] = [];
  /** What is on its way. */
  flying: Message[] = [];
  /** The part of all frames that get lost, greetings aside. */
  loss = 0;
  delayMs = 300;
  /** How many frames were sent since the page was opened. */
  sent = 0;
  readonly key: string;
  readonly #space: string;
  readonly #random: () => number;
  /** The time of the last look. */
  now = 0;

  arrived: (message: Message) => void = () => {};
  changed: (vertex: Vertex) => void = () => {};

  constructor(space: string, key: string, random: () => number = Math.random) {
    this.#space = space;
    this.key = key;
    this.#random = random;
  }

  /** Adds a replica of this page's own. */
  spawn(id: string, name: string): Vertex {
    return this.adopt({ id, name, kind: 'peer', replica: new Replica({ space: this.#space }), value: undefined, known: true });
  }

  /** Adds a point that was made elsewhere. */
  adopt(vertex: Vertex): Vertex {
    const { replica } = vertex;
    if (replica) {
      vertex.value = replica.get(this.key);
      replica.subscribe(this.key, (value) => {
        vertex.value = value;
        this.changed(vertex);
      });
    }
    this.vertices.push(vertex);
    return vertex;
  }

  /** Takes a point away with its links; a replica of this page's own is freed. */
  remove(vertex: Vertex): void {
    for (const edge of this.edges.filter(({ a, b }) => a === vertex || b === vertex)) this.unlink(edge);
    const at = this.vertices.indexOf(vertex);
    if (at >= 0) this.vertices.splice(at, 1);
    if (vertex.kind === 'peer') vertex.replica?.free();
  }

  /** Links two replicas of this page. */
  link(a: Vertex, b: Vertex): void {
    const edge: InPage = { id: `${a.id}~${b.id}`, a, b, cut: false, cuttable: true, epoch: 0, ends: [undefined, undefined], last: [0, 0] };
    this.edges.push(edge);
    this.#open(edge);
  }

  unlink(edge: Edge): void {
    const at = this.edges.indexOf(edge);
    if (at >= 0) this.edges.splice(at, 1);
    if ('ends' in edge) this.#close(edge as InPage);
    this.flying = this.flying.filter((message) => message.edge !== edge);
  }

  /** Cuts a link or heals it. */
  cut(edge: Edge, cut: boolean): void {
    if (edge.cut === cut) return;
    if (!('ends' in edge)) return edge.toggle?.(cut);
    edge.cut = cut;
    if (cut) this.#close(edge as InPage);
    else this.#open(edge as InPage);
  }

  /** Shows a message on a link that does not end in this page. */
  passed(edge: Edge, from: Vertex, bytes: number, what: string): void {
    const to = from === edge.a ? edge.b : edge.a;
    this.flying.push({ edge, from, to, bytes, what, sent: this.now, arrives: this.now + 350, lost: false });
  }

  /** Hands over what has arrived by now. What takes longer than `budgetMs` waits for the next look. */
  run(now: number, budgetMs = 8): void {
    this.now = now;
    const begun = performance.now();
    const still: Message[] = [];
    const due: Message[] = [];
    for (const message of this.flying) (message.arrives <= now ? due : still).push(message);
    if (due.length === 0) return;
    this.flying = still;
    due.sort((x, y) => x.arrives - y.arrives);
    for (const [at, message] of due.entries()) {
      if (performance.now() - begun > budgetMs) {
        this.flying.push(...due.slice(at));
        return;
      }
      this.#arrive(message);
    }
  }

  #arrive(message: Message): void {
    if (message.lost || !('frame' in message)) return;
    const { edge, epoch, frame, to } = message as Frame;
    const link = edge as InPage;
    if (link.epoch !== epoch) return;
    link.ends[to === link.a ? 0 : 1]?.receive(frame);
    this.arrived(message);
  }

  #open(edge: InPage): void {
    const epoch = ++edge.epoch;
    edge.last = [this.now, this.now];
    const end = (side: 0 | 1): Link | undefined => {
      const [from, to] = side === 0 ? [edge.a, edge.b] : [edge.b, edge.a];
      return from.replica?.attach({
        send: (frame) => edge.epoch === epoch && this.#send(edge, side, from, to, frame.slice()),
        close: () => {
          if (edge.epoch !== epoch) return;
          this.#close(edge);
          setTimeout(() => {
            if (!edge.cut && this.edges.includes(edge)) this.#open(edge);
          }, AGAIN_MS);
        },
      });
    };
    edge.ends = [end(0), end(1)];
  }

  #close(edge: InPage): void {
    edge.epoch++;
    for (const end of edge.ends) end?.close();
    edge.ends = [undefined, undefined];
    this.flying = this.flying.filter((message) => message.edge !== edge);
  }

  #send(edge: InPage, side: 0 | 1, from: Vertex, to: Vertex, frame: Uint8Array): void {
    const type = frame[TYPE_AT] ?? 0;
    const lost = type !== HELLO && this.#random() < this.loss;
    const arrives = Math.max(edge.last[side], this.now + this.delayMs * (0.6 + 0.8 * this.#random()));
    edge.last[side] = arrives;
    this.sent++;
    const made: Frame = { edge, from, to, bytes: frame.length, what: TYPES[type] ?? 'frame', sent: this.now, arrives, lost, frame, epoch: edge.epoch };
    this.flying.push(made);
  }
}
