import type { Replica } from 'tallymesh';
import { element } from '../make.js';
import { grouped } from '../number.js';
import { Announcer } from './announcer.js';
import { Drawing } from './drawing.js';
import { held, Inside, type Snapshot } from './inside.js';
import { arrange, neighbours, places } from './layout.js';
import { Mesh, type Edge, type Message, type Vertex } from './mesh.js';
import { Timeline } from './timeline.js';

/** The counter that is counted on the stage. */
export const STAGE_KEY = 'likes';

const NAMES =
  'Ada Ben Cleo Dan Eve Finn Gus Hana Ivo Jo Kim Lena Max Nora Otto Pia Quin Rosa Sam Tess Uma Vito Wes Xena Yan Zoe Abe Bea Cy Dot Eli Fay Gil Hal Ida Jed Kai Lou Mia Ned Ola Pam Ray Sue Tom Ugo Val Wim Yara Zak'.split(' ');
const START = 6;
/** With more replicas than these only what reaches the chosen one is listed. */
const LISTED_MAX = 12;
/** How often what lies below the drawing is written anew. */
const INSIDE_MS = 120;
const INSIDE_MANY_MS = 300;

/** Several replicas side by side, their links, and what they say to each other. */
export class Stage {
  readonly mesh: Mesh;
  readonly #drawing: Drawing;
  readonly #inside: Inside;
  readonly #timeline: Timeline;
  readonly #status = element('stage-status');
  readonly #announcer = new Announcer(element('stage-said'));
  /** This tab, once it takes part. */
  #tab: Vertex | undefined;
  #chosen: Vertex;
  #held = new Map<string, Snapshot>();
  #next = 0;
  #dirty = true;
  #wrote = 0;
  #perSecond = 0;
  #owed = 0;
  #looked = performance.now();
  #visible = true;

  constructor(space: string, self: string) {
    this.mesh = new Mesh(space, STAGE_KEY);
    this.mesh.now = performance.now();
    this.mesh.changed = () => (this.#dirty = true);
    this.mesh.arrived = (message) => this.#arrived(message);
    this.#drawing = new Drawing(element('stage-view'), 'Replicas and their links', this.mesh, (width, height, radius) => arrange(this.mesh.vertices, width, height, radius), {
      count: (vertex) => this.count(vertex),
      toggle: (edge) => this.toggle(edge),
      part: (inside) => this.part(inside),
    });
    this.#inside = new Inside(element('inside-name'), element('inside-bar'), element('inside-list'), element<HTMLTableElement>('matrix'), self);
    this.#timeline = new Timeline(() => this.#look());
    this.resize(START);
    this.#chosen = this.mesh.vertices[0]!;
    this.#choose(this.#chosen);
    this.#controls();
    new IntersectionObserver(([seen]) => (this.#visible = seen?.isIntersecting ?? true)).observe(element('stage-view'));
    const frame = (): void => {
      this.#tick();
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    // A hidden tab gets no frames; its replicas gossip on.
    setInterval(() => document.hidden && this.#tick(), 250);
  }

  /** The replicas that live in this page. */
  get here(): Vertex[] {
    return this.mesh.vertices.filter(({ replica }) => replica);
  }

  /** Lets this tab's own replica take part. */
  join(replica: Replica): Vertex {
    const [first] = this.mesh.vertices;
    if (first) this.mesh.remove(first);
    this.#tab = { id: 'tab', name: 'this tab', kind: 'tab', replica, value: undefined, known: true };
    this.mesh.adopt(this.#tab);
    this.mesh.vertices.unshift(this.mesh.vertices.pop()!);
    this.#relink();
    this.#choose(this.#tab);
    return this.#tab;
  }

  /** Takes this tab's own replica out again. */
  leave(): void {
    if (!this.#tab) return;
    for (const vertex of this.mesh.vertices.filter(({ replica }) => !replica)) this.mesh.remove(vertex);
    this.mesh.remove(this.#tab);
    this.#tab = undefined;
    this.resize(Math.max(this.here.length, 2));
  }

  /** Shows somebody outside this page, linked with `to`. */
  show(vertex: Vertex, to: Vertex, toggle?: (cut: boolean) => void): Edge {
    this.mesh.vertices.push(vertex);
    const edge: Edge = { id: `${to.id}~${vertex.id}`, a: to, b: vertex, cut: false, cuttable: toggle !== undefined, toggle };
    this.mesh.edges.push(edge);
    this.#drawing.layout();
    return edge;
  }

  hide(vertex: Vertex): void {
    this.mesh.remove(vertex);
    this.#drawing.layout();
  }

  refresh(): void {
    this.#dirty = true;
  }

  /** Counts one at a replica, and looks into that one. */
  count(vertex: Vertex): void {
    vertex.replica?.add(STAGE_KEY);
    this.#choose(vertex);
  }

  toggle(edge: Edge): void {
    this.mesh.cut(edge, !edge.cut);
    this.#dirty = true;
  }

  /** Cuts every link between those inside and the others. */
  part(inside: ReadonlySet<string>): void {
    for (const edge of this.mesh.edges) {
      if (inside.has(edge.a.id) !== inside.has(edge.b.id)) this.mesh.cut(edge, true);
    }
    this.#dirty = true;
  }

  heal(): void {
    for (const edge of this.mesh.edges) this.mesh.cut(edge, false);
    this.#dirty = true;
  }

  /** Has so many replicas in this page. */
  resize(count: number): void {
    const own = this.mesh.vertices.filter(({ kind }) => kind === 'peer');
    const wanted = count - (this.#tab ? 1 : 0);
    for (const vertex of own.slice(wanted)) this.mesh.remove(vertex);
    for (let at = own.length; at < wanted; at++) {
      const name = NAMES[this.#next % NAMES.length]!;
      this.mesh.spawn(`peer-${this.#next++}`, name);
    }
    this.#relink();
    if (this.#chosen && !this.mesh.vertices.includes(this.#chosen)) this.#choose(this.here[0]!);
  }

  /** Everyone counts, so many times a second in all; 0 ends it. */
  everyoneCounts(perSecond: number): void {
    this.#perSecond = perSecond;
    element('everyone').setAttribute('aria-checked', String(perSecond > 0));
  }

  #relink(): void {
    const { here } = this;
    const wanted = new Map(neighbours(here.length).map(([a, b]) => [`${here[a]!.id}~${here[b]!.id}`, [here[a]!, here[b]!] as const]));
    for (const edge of this.mesh.edges.filter((edge) => 'ends' in edge && !wanted.has(edge.id))) this.mesh.unlink(edge);
    const there = new Set(this.mesh.edges.map(({ id }) => id));
    for (const [id, [a, b]] of wanted) if (!there.has(id)) this.mesh.link(a, b);
    this.#held = new Map(here.map((vertex) => [vertex.id, held(vertex, STAGE_KEY)]));
    this.#inside.names.clear();
    for (const { replica, name } of here) if (replica) this.#inside.names.set(replica.writer, name);
    this.#drawing.layout();
    this.#dirty = true;
  }

  #choose(vertex: Vertex): void {
    this.#chosen = vertex;
    this.#drawing.marked = vertex.id;
    this.#dirty = true;
  }

  #arrived(message: Message): void {
    if (message.what !== 'push' && message.what !== 'delta') return;
    if (this.here.length > LISTED_MAX && message.to !== this.#chosen) return;
    this.#held.set(message.to.id, held(message.to, STAGE_KEY));
    this.#timeline.add({ message, held: new Map(this.#held) });
  }

  #tick(): void {
    const now = performance.now();
    const passed = Math.min(now - this.#looked, 1_000);
    this.#looked = now;
    this.#owed += (passed / 1_000) * this.#perSecond;
    const { here } = this;
    for (; this.#owed >= 1; this.#owed--) here[Math.floor(Math.random() * here.length)]?.replica?.add(STAGE_KEY);
    this.mesh.run(now);
    if (!this.#visible || document.hidden) return;
    this.#drawing.frame();
    if (!this.#dirty) return;
    const late = now - this.#wrote >= (here.length > LISTED_MAX ? INSIDE_MANY_MS : INSIDE_MS);
    if (!this.#timeline.past && (late || here.length <= LISTED_MAX)) this.#drawing.refresh();
    if (!late) return;
    this.#wrote = now;
    this.#dirty = false;
    this.#look();
  }

  /** Writes what is held by now, or was at the moment that is looked at. */
  #look(): void {
    const past = this.#timeline.past;
    const { here } = this;
    if (!past) for (const vertex of here.length > LISTED_MAX ? [this.#chosen] : here) this.#held.set(vertex.id, held(vertex, STAGE_KEY));
    const all = past?.held ?? this.#held;
    const values = past && new Map(this.mesh.vertices.map(({ id, value, replica }) => [id, replica ? all.get(id)?.value : value]));
    this.#drawing.refresh(values);
    const shown = past ? past.message.to : this.#chosen;
    const one = all.get(shown.id);
    if (one) this.#inside.show(shown.name, one);
    const rows = here.slice(0, LISTED_MAX).map((vertex) => {
      const vector = here.length > LISTED_MAX && !past ? held(vertex, STAGE_KEY).vector : (all.get(vertex.id)?.vector ?? new Map());
      return { name: vertex.name, vector };
    });
    this.#inside.showVectors(rows);
    this.#sayStatus(past !== undefined);
  }

  #sayStatus(past: boolean): void {
    const numbers = this.mesh.vertices.filter(({ known, gone }) => known && !gone).map(({ value }) => value);
    const distinct = new Set(numbers.map(String));
    const cuts = this.mesh.edges.filter(({ cut }) => cut).length;
    const links = cuts === 0 ? '' : cuts === 1 ? ' One link is cut.' : ` ${cuts} links are cut.`;
    let text: string;
    if (past) text = 'This is the past. Press Now to return.';
    else if (distinct.size > 1) text = `${distinct.size} different numbers.${links || ' News is on its way.'}`;
    else if (numbers[0] === undefined) text = `Nobody has counted yet. Press a circle.${links}`;
    else text = `All ${numbers.length} agree on ${grouped(numbers[0])}.${links}`;
    if (this.#status.textContent !== text) this.#status.textContent = text;
    this.#status.dataset['agree'] = String(distinct.size <= 1);
    // How many numbers there are changes with each message, and is no news to somebody who listens.
    this.#announcer.say(!past && distinct.size > 1 ? `The numbers differ.${links}` : text);
  }

  #controls(): void {
    const slider = (id: string, say: (value: number) => string, act: (value: number) => void): void => {
      const input = element<HTMLInputElement>(id);
      const show = (): void => {
        const value = Number(input.value);
        element(`${id}-value`).textContent = say(value);
        input.setAttribute('aria-valuetext', say(value));
        act(value);
      };
      input.addEventListener('input', show);
      show();
    };
    slider('replicas', (value) => `${value}`, (value) => value !== this.here.length && this.resize(value));
    slider('delay', (value) => `${value} ms`, (value) => (this.mesh.delayMs = value));
    slider('loss', (value) => `${value}%`, (value) => (this.mesh.loss = value / 100));
    slider('rate', (value) => `${value} a second`, (value) => this.#perSecond > 0 && this.everyoneCounts(value));
    const everyone = element('everyone');
    everyone.addEventListener('click', () => this.everyoneCounts(this.#perSecond > 0 ? 0 : Number(element<HTMLInputElement>('rate').value)));
    element('cut-half').addEventListener('click', () => {
      const { here } = this;
      const at = places(here.length);
      const half = new Set(here.filter((_, index) => at[index]!.x > -0.001).map(({ id }) => id));
      if (this.#tab) for (const vertex of this.mesh.vertices) if (!vertex.replica) half.add(vertex.id);
      this.part(half);
    });
    element('heal').addEventListener('click', () => this.heal());
  }
}

/** Has messages of a connection light up its link. */
export function watchedSocket(passed: (out: boolean, bytes: number) => void): new (url: string, protocols?: string[]) => WebSocket {
  return class extends WebSocket {
    constructor(url: string, protocols?: string[]) {
      super(url, protocols);
      this.addEventListener('message', ({ data }) => data instanceof ArrayBuffer && passed(false, data.byteLength));
    }

    override send(data: Parameters<WebSocket['send']>[0]): void {
      if (data instanceof Uint8Array) passed(true, data.byteLength);
      super.send(data);
    }
  };
}
