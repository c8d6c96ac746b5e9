/** What the drawing shows. */
export interface MeshView {
  /** Whether this tab's link is up. */
  tab: boolean;
  /** Whether this node's links to other nodes are cut. */
  nodeCut: boolean;
  /** The other nodes that this node talks with. */
  nodes: string[];
  /** How many tabs this node serves. */
  tabs: number;
}

/** The middle of the drawing: lines of links start from here. */
const MIDDLE = 68;
const TAB = { x: 42, y: MIDDLE };
const NODE = { x: 152, y: MIDDLE };
const NODES_X = 268;
const NODES_SHOWN_MAX = 4;

/** The nodes that were seen last, so that a cut shows who is missing. */
let known: string[] = [];

/** Draws this tab, its node, and the nodes behind it. */
export function drawMesh(svg: SVGElement, view: MeshView): void {
  if (view.nodes.length > 0) known = [...view.nodes].sort().slice(0, NODES_SHOWN_MAX);
  const parts: SVGElement[] = [line(TAB, NODE, view.tab)];
  const others = known.map((id, index) => ({ id, x: NODES_X, y: MIDDLE - lift(known.length) + (index - (known.length - 1) / 2) * spread(known.length) }));
  for (const other of others) parts.push(line(NODE, other, !view.nodeCut && view.nodes.includes(other.id)));
  parts.push(circle(TAB, 11, view.tab ? 'self' : 'self away'), text(TAB, 'this tab'));
  parts.push(circle(NODE, 15, ''), text(NODE, 'its node', 36));
  for (const other of others) parts.push(circle(other, 10, view.nodes.includes(other.id) && !view.nodeCut ? '' : 'away'));
  const last = others.at(-1);
  if (last) parts.push(text(last, others.length === 1 ? 'another node' : 'other nodes'));
  svg.replaceChildren(...parts);
}

function spread(count: number): number {
  return count > 2 ? 26 : 46;
}

/** Several nodes stand a little higher: their one label goes below the last. */
function lift(count: number): number {
  return count > 1 ? 8 : 0;
}

type Point = { x: number; y: number };

function shape(name: string, attributes: Record<string, string | number>): SVGElement {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}

function line(from: Point, to: Point, up: boolean): SVGElement {
  return shape('line', { x1: from.x, y1: from.y, x2: to.x, y2: to.y, class: up ? '' : 'cut' });
}

function circle({ x, y }: Point, r: number, kind: string): SVGElement {
  return shape('circle', { cx: x, cy: y, r, class: kind });
}

function text({ x, y }: Point, words: string, below = 30): SVGElement {
  const made = shape('text', { x, y: y + below });
  made.textContent = words;
  return made;
}
