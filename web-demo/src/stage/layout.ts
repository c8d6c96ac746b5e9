import type { Vertex } from './mesh.js';

/** A place on the stage, in pixels. */
export interface Point {
  x: number;
  y: number;
}

const RING_MAX = 10;
const ACROSS_MIN = 5;
const GOLDEN_ANGLE = Math.PI * (3 - Math.sqrt(5));

/** Where each of `count` replicas of this page stands, in a disc of radius 1: a ring, and a sunflower once that is full. */
export function places(count: number): Point[] {
  return Array.from({ length: count }, (_, at) => {
    if (count === 1) return { x: 0, y: 0 };
    const angle = count <= RING_MAX ? (at / count) * 2 * Math.PI : at * GOLDEN_ANGLE;
    const radius = count <= RING_MAX ? 1 : Math.sqrt((at + 0.5) / count);
    return { x: Math.cos(angle) * radius, y: Math.sin(angle) * radius };
  });
}

/**
 * Who is linked with whom: each with the two or three nearest, and with one that came before it, so that all hang together; in
 * a ring with the one across.
 */
export function neighbours(count: number): [number, number][] {
  const at = places(count);
  const pairs = new Map<string, [number, number]>();
  const join = (a: number, b: number): void => void pairs.set(`${Math.min(a, b)}-${Math.max(a, b)}`, [Math.min(a, b), Math.max(a, b)]);
  // The disc is drawn wider than high.
  const distance = (a: number, b: number): number => Math.hypot((at[a]!.x - at[b]!.x) * (count > RING_MAX ? 1.7 : 1), at[a]!.y - at[b]!.y);
  const near = count > RING_MAX ? 3 : 2;
  for (let one = 0; one < count; one++) {
    const others = [...at.keys()].filter((other) => other !== one).sort((a, b) => distance(one, a) - distance(one, b) || a - b);
    for (const other of others.slice(0, near)) join(one, other);
    const before = others.find((other) => other < one);
    if (before !== undefined) join(one, before);
    // A ring alone falls in two by any two cuts.
    if (count >= ACROSS_MIN && count <= RING_MAX) join(one, (one + Math.floor(count / 2)) % count);
  }
  return [...pairs.values()];
}

/** Places all that is drawn in a box: what is in this page in the middle, other tabs to the left, nodes to the right. */
export function arrange(vertices: readonly Vertex[], width: number, height: number, radius: number): Map<string, Point> {
  const found = new Map<string, Point>();
  const here = vertices.filter(({ replica }) => replica);
  const column = (members: Vertex[], x: number): void => {
    members.forEach(({ id }, at) => found.set(id, { x, y: ((at + 0.5) / members.length) * height }));
  };
  const tabs = vertices.filter(({ kind }) => kind === 'other-tab');
  const nodes = vertices.filter(({ kind }) => kind === 'node');
  const far = vertices.filter(({ kind }) => kind === 'far-node');
  const edge = radius + 14;
  const gap = Math.min(width * 0.2, 130);
  const left = tabs.length > 0 ? edge + gap : edge;
  const right = nodes.length > 0 ? edge + gap + (far.length > 0 ? gap : 0) : edge;
  column(tabs, edge);
  column(nodes, width - right + gap);
  column(far, width - edge);
  const middle = { x: (left + width - right) / 2, y: (height - 16) / 2 };
  const high = Math.max(height / 2 - edge - 8, 10);
  const wide = Math.max(Math.min((width - left - right) / 2, here.length <= RING_MAX ? high * 2.1 : Infinity), 10);
  const points = places(here.length);
  here.forEach(({ id }, at) => found.set(id, { x: middle.x + points[at]!.x * wide, y: middle.y + points[at]!.y * high }));
  return found;
}
