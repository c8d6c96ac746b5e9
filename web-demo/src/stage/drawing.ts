import { grouped } from '../number.js';
import { Colours } from './colours.js';
import type { Point } from './layout.js';
import type { Edge, Message, Vertex } from './mesh.js';

/** What a drawing shows. */
export interface Scene {
  readonly vertices: readonly Vertex[];
  readonly edges: readonly Edge[];
  readonly flying: readonly Message[];
  /** The time by which messages are placed. */
  readonly now: number;
}

/** What a hand does on a drawing. */
export interface Hands {
  count(vertex: Vertex): void;
  toggle(edge: Edge): void;
  /** Some vertices were drawn around. */
  part?(inside: ReadonlySet<string>): void;
}

const SVG = 'http://www.w3.org/2000/svg';
/** Closer to a circle what a message weighs would cover the circle's number. */
const LABEL_FROM_RIM_PX = 16;
const LABELS_MAX = 14;
/** Beyond so many, links are left out of the order of the Tab key. */
const TABBABLE_EDGES_MAX = 20;
const DRAG_MIN = 8;
/** More points than these change their colour at once. */
const MANY_MIN = 12;
/** More messages than these are drawn as a crowd. */
const CROWD_MIN = 80;

/** A live graph: points and links in SVG, which keys and screen readers reach, and messages on a canvas above them. */
export class Drawing {
  readonly #root: HTMLElement;
  readonly #svg = shape('svg', { role: 'group' });
  readonly #edges = shape('g', {});
  readonly #vertices = shape('g', {});
  readonly #lasso = shape('rect', { class: 'lasso', visibility: 'hidden' });
  readonly #canvas = document.createElement('canvas');
  readonly #arrange: (width: number, height: number, radius: number) => Map<string, Point>;
  readonly #hands: Hands;
  readonly #colours = new Colours();
  #scene: Scene;
  #places = new Map<string, Point>();
  /** Kept, since to ask for it has the browser lay the page out. */
  #size = { width: 0, height: 0 };
  readonly #drawnEdges = new Map<string, { group: SVGElement; edge: Edge; hit: SVGElement; line: SVGElement }>();
  readonly #drawnVertices = new Map<string, { group: SVGElement; number: SVGElement }>();
  #ink = { accent: '', warn: '', soft: '', paper: '' };
  #dirty = false;
  /** A vertex that is marked, as the one that is looked into. */
  marked: string | undefined;

  constructor(
    root: HTMLElement,
    label: string,
    scene: Scene,
    arrange: (width: number, height: number, radius: number) => Map<string, Point>,
    hands: Hands,
  ) {
    this.#root = root;
    this.#scene = scene;
    this.#arrange = arrange;
    this.#hands = hands;
    this.#svg.setAttribute('aria-label', label);
    this.#canvas.setAttribute('aria-hidden', 'true');
    this.#svg.append(this.#edges, this.#vertices, this.#lasso);
    root.append(this.#svg, this.#canvas);
    new ResizeObserver(() => this.layout()).observe(root);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', () => this.#readInk());
    this.#readInk();
    if (hands.part) this.#listenToDrags();
  }

  /** How large a point is drawn. */
  get radius(): number {
    const { length } = this.#scene.vertices;
    const narrow = this.#size.width < 520;
    if (length > 24) return narrow ? 13 : 18;
    if (length > 12) return narrow ? 17 : 24;
    if (length < 5) return narrow ? 30 : 38;
    return narrow ? 23 : 31;
  }

  /** Shows another scene. */
  use(scene: Scene): void {
    this.#scene = scene;
    this.layout();
  }

  /** Places everything anew: who is there has changed, or the box. */
  layout(): void {
    const { clientWidth: width, clientHeight: height } = this.#root;
    if (width === 0) return;
    this.#size = { width, height };
    this.#root.classList.toggle('many', this.#scene.vertices.length > MANY_MIN);
    this.#places = this.#arrange(width, height, this.radius);
    this.#svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    const scale = Math.min(devicePixelRatio || 1, 2);
    this.#canvas.width = width * scale;
    this.#canvas.height = height * scale;
    this.#canvas.getContext('2d')?.setTransform(scale, 0, 0, scale, 0, 0);
    this.#makeEdges();
    this.#makeVertices();
    this.refresh();
  }

  /** Shows numbers and cuts as they are by now, or those that are given in place of them. */
  refresh(values?: ReadonlyMap<string, bigint | undefined>): void {
    const { vertices } = this.#scene;
    const shown = vertices.map((vertex) => (values ? values.get(vertex.id) : vertex.value));
    const counted = vertices.map(({ known, gone }) => known && !gone);
    const hues = this.#colours.of(shown.filter((_, at) => counted[at]));
    let next = 0;
    vertices.forEach((vertex, at) => {
      const drawn = this.#drawnVertices.get(vertex.id);
      if (!drawn) return;
      const { group, number } = drawn;
      const value = shown[at];
      const text = vertex.known ? (value === undefined ? '–' : grouped(value)) : '?';
      const hue = counted[at] ? hues[next++] : undefined;
      const state = vertex.gone ? 'gone' : !counted[at] ? 'unknown' : hue === undefined ? 'agreed' : 'apart';
      group.setAttribute('data-state', state);
      group.setAttribute('data-value', vertex.known ? String(value ?? 'absent') : '');
      group.classList.toggle('marked', vertex.id === this.marked);
      if (hue !== undefined) group.style.setProperty('--hue', String(hue));
      if (number.textContent !== text) {
        number.textContent = text;
        const room = this.radius * 1.75;
        number.style.fontSize = `${Math.min(this.radius * 0.78, room / Math.max(text.length * 0.6, 1))}px`;
      }
    });
    for (const { group, edge } of this.#drawnEdges.values()) {
      if (group.dataset['cut'] === String(edge.cut)) continue;
      group.dataset['cut'] = String(edge.cut);
      if (group.hasAttribute('role')) group.setAttribute('aria-checked', String(!edge.cut));
    }
  }

  /** Draws the messages that are on their way. */
  frame(): void {
    const context = this.#canvas.getContext('2d');
    const { flying, now } = this.#scene;
    if (!context || (flying.length === 0 && !this.#dirty)) return;
    context.clearRect(0, 0, this.#size.width, this.#size.height);
    this.#dirty = flying.length > 0;
    const labels = flying.length <= LABELS_MAX;
    context.font = '600 11px system-ui, sans-serif';
    context.textAlign = 'center';
    if (flying.length > CROWD_MIN) this.#drawCrowd(context, flying, now);
    else for (const message of flying) this.#drawMessage(context, message, now, labels);
    context.globalAlpha = 1;
  }

  /** Draws many messages in a few strokes: as dots of one size, without those that only compare. */
  #drawCrowd(context: CanvasRenderingContext2D, flying: readonly Message[], now: number): void {
    const lit = new Set<Edge>();
    context.fillStyle = context.strokeStyle = this.#ink.accent;
    context.beginPath();
    for (const { edge, from, to, sent, arrives, lost, what } of flying) {
      const way = this.#way({ from, to });
      const part = Math.min((now - sent) / Math.max(arrives - sent, 1), 1);
      if (!way || what === 'digest' || (lost && part > 0.55)) continue;
      lit.add(edge);
      const [a, b] = way;
      context.rect(a.x + (b.x - a.x) * part - 2.5, a.y + (b.y - a.y) * part - 2.5, 5, 5);
    }
    context.fill();
    context.globalAlpha = 0.35;
    context.lineWidth = 3;
    context.beginPath();
    for (const { a, b } of lit) {
      const [from, to] = [this.#places.get(a.id)!, this.#places.get(b.id)!];
      context.moveTo(from.x, from.y);
      context.lineTo(to.x, to.y);
    }
    context.stroke();
  }

  #drawMessage(context: CanvasRenderingContext2D, message: Message, now: number, label: boolean): void {
    const way = this.#way(message);
    if (!way) return;
    const [from, to] = way;
    const span = Math.max(message.arrives - message.sent, 1);
    const part = Math.min(Math.max((now - message.sent) / span, 0), 1);
    const gone = message.lost && part > 0.55;
    const at = gone ? 0.55 : part;
    const x = from.x + (to.x - from.x) * at;
    const y = from.y + (to.y - from.y) * at;
    const small = message.what === 'digest' || message.what === 'hello';
    context.globalAlpha = gone ? Math.max(0, 1 - (part - 0.55) / 0.4) : small ? 0.55 : 1;
    context.strokeStyle = context.fillStyle = gone ? this.#ink.warn : small ? this.#ink.soft : this.#ink.accent;
    if (!gone && !small) {
      context.lineWidth = 3;
      context.globalAlpha = 0.35;
      context.beginPath();
      context.moveTo(from.x, from.y);
      context.lineTo(x, y);
      context.stroke();
      context.globalAlpha = 1;
    }
    const radius = small ? 2.5 : Math.min(2.5 + Math.log2(message.bytes + 1) * 0.45, 9);
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    if (gone) {
      context.lineWidth = 2;
      context.stroke();
    } else context.fill();
    const fromRim = Math.min(Math.hypot(x - from.x, y - from.y), Math.hypot(to.x - x, to.y - y));
    if (!label || small || fromRim < LABEL_FROM_RIM_PX) return;
    const text = gone ? 'lost' : `${message.bytes} B`;
    // It may pass over a name.
    context.strokeStyle = this.#ink.paper;
    context.lineWidth = 4;
    context.lineJoin = 'round';
    context.strokeText(text, x, y - radius - 5);
    context.fillText(text, x, y - radius - 5);
  }

  /** From rim to rim, so that no message hides a number. */
  #way({ from, to }: Pick<Message, 'from' | 'to'>): [Point, Point] | undefined {
    const [a, b] = [this.#places.get(from.id), this.#places.get(to.id)];
    if (!a || !b) return undefined;
    const [x, y] = [b.x - a.x, b.y - a.y];
    const part = Math.min(this.radius / Math.max(Math.hypot(x, y), 1), 0.5);
    return [{ x: a.x + x * part, y: a.y + y * part }, { x: b.x - x * part, y: b.y - y * part }];
  }

  #makeEdges(): void {
    const { edges } = this.#scene;
    const there = new Set(edges.map(({ id }) => id));
    for (const [id, { group, edge }] of this.#drawnEdges) {
      if (there.has(id) && edges.includes(edge)) continue;
      group.remove();
      this.#drawnEdges.delete(id);
    }
    for (const edge of edges) {
      const from = this.#places.get(edge.a.id);
      const to = this.#places.get(edge.b.id);
      if (!from || !to) continue;
      const drawn = this.#drawnEdges.get(edge.id) ?? this.#makeEdge(edge);
      for (const line of [drawn.hit, drawn.line]) {
        for (const [name, value] of Object.entries({ x1: from.x, y1: from.y, x2: to.x, y2: to.y })) line.setAttribute(name, value.toFixed(1));
      }
      if (drawn.group.hasAttribute('role')) drawn.group.setAttribute('tabindex', edges.length > TABBABLE_EDGES_MAX ? '-1' : '0');
    }
  }

  #makeEdge(edge: Edge) {
    const [hit, line] = [shape('line', { class: 'hit' }), shape('line', { class: 'line' })];
    const group = shape('g', { class: 'edge' });
    if (edge.cuttable) {
      group.setAttribute('role', 'switch');
      group.setAttribute('aria-checked', String(!edge.cut));
      group.setAttribute('aria-label', `Link of ${edge.a.name} and ${edge.b.name}`);
      pressed(group, () => this.#hands.toggle(edge));
    } else group.classList.add('fixed');
    group.dataset['edge'] = edge.id;
    group.append(hit, line);
    this.#edges.append(group);
    const drawn = { group, edge, hit, line };
    this.#drawnEdges.set(edge.id, drawn);
    return drawn;
  }

  #makeVertices(): void {
    const { vertices } = this.#scene;
    const there = new Set(vertices.map(({ id }) => id));
    for (const [id, { group }] of this.#drawnVertices) {
      if (there.has(id)) continue;
      group.remove();
      this.#drawnVertices.delete(id);
    }
    const { radius } = this;
    for (const vertex of vertices) {
      const place = this.#places.get(vertex.id);
      if (!place) continue;
      let drawn = this.#drawnVertices.get(vertex.id);
      if (!drawn) {
        const group = shape('g', { class: `vertex ${vertex.kind}` });
        const number = shape('text', { class: 'value' });
        const name = shape('text', { class: 'label' });
        // The blank is for who reads it aloud: "12 Ada".
        name.textContent = ` ${vertex.name}`;
        group.dataset['vertex'] = vertex.id;
        group.append(shape('circle', { class: 'halo' }), shape('circle', { class: 'disc' }), number, name);
        if (vertex.replica || vertex.does) {
          group.setAttribute('role', 'button');
          group.setAttribute('aria-description', vertex.does ?? 'Adds one');
          group.setAttribute('tabindex', '0');
          pressed(group, () => this.#hands.count(vertex));
        }
        this.#vertices.append(group);
        drawn = { group, number };
        this.#drawnVertices.set(vertex.id, drawn);
      }
      drawn.group.setAttribute('transform', `translate(${place.x.toFixed(1)} ${place.y.toFixed(1)})`);
      drawn.number.textContent = null;
      const [halo, disc, , name] = [...drawn.group.children] as SVGElement[];
      halo?.setAttribute('r', String(radius + 5));
      disc?.setAttribute('r', String(radius));
      name?.setAttribute('y', String(radius + 15));
      name?.setAttribute('visibility', radius < 20 ? 'hidden' : 'visible');
    }
  }

  #listenToDrags(): void {
    const svg = this.#svg as SVGSVGElement;
    let start: Point | undefined;
    const place = (event: PointerEvent): Point => {
      const box = svg.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    const rectangle = (a: Point, b: Point) => ({ x: Math.min(a.x, b.x), y: Math.min(a.y, b.y), width: Math.abs(a.x - b.x), height: Math.abs(a.y - b.y) });
    svg.addEventListener('pointerdown', (event) => {
      if (event.button !== 0 || (event.target as Element).closest('.vertex')) return;
      start = place(event);
    });
    svg.addEventListener('pointermove', (event) => {
      if (!start) return;
      const box = rectangle(start, place(event));
      if (box.width + box.height < DRAG_MIN) return;
      if (!svg.hasPointerCapture(event.pointerId)) svg.setPointerCapture(event.pointerId);
      for (const [name, value] of Object.entries(box)) this.#lasso.setAttribute(name, value.toFixed(1));
      this.#lasso.setAttribute('visibility', 'visible');
    });
    const end = (event: PointerEvent, done: boolean): void => {
      const from = start;
      start = undefined;
      const drawn = this.#lasso.getAttribute('visibility') === 'visible';
      this.#lasso.setAttribute('visibility', 'hidden');
      if (!from || !drawn || !done) return;
      const { x, y, width, height } = rectangle(from, place(event));
      const inside = [...this.#places].filter(([, at]) => at.x >= x && at.x <= x + width && at.y >= y && at.y <= y + height);
      this.#hands.part?.(new Set(inside.map(([id]) => id)));
    };
    svg.addEventListener('pointerup', (event) => end(event, true));
    svg.addEventListener('pointercancel', (event) => end(event, false));
  }

  #readInk(): void {
    const style = getComputedStyle(document.documentElement);
    const read = (name: string): string => style.getPropertyValue(name).trim();
    this.#ink = { accent: read('--accent'), warn: read('--warn'), soft: read('--soft'), paper: read('--paper') };
  }
}

/** Makes a shape react to a click and to the keys that press a button. */
function pressed(at: SVGElement, act: () => void): void {
  at.addEventListener('click', act);
  at.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    act();
  });
}

function shape(name: string, attributes: Record<string, string>): SVGElement {
  const made = document.createElementNS(SVG, name) as SVGElement;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
