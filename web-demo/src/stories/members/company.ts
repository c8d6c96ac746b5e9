import init, { Members } from '../../../members/dist/members.js';
import wasm from '../../../members/dist/members.wasm';
import { TYPES, type Edge, type Message, type Vertex } from '../../stage/mesh.js';
import type { Hands, Play } from '../story.js';
import { Panel } from './panel.js';
import { SCRIPTS, type MembersScript } from './scripts.js';
import type { MemberView, State } from './state.js';

const SEED = 7;

interface Flight {
  readonly id: number;
  readonly from: number;
  readonly to: number;
  readonly type: number;
  readonly bytes: number;
  readonly sent: number;
  readonly arrives: number;
  readonly lost: boolean;
}

let loaded: Promise<unknown> | undefined;

/** Begins a story about members, and loads their module before the first one. */
export async function open(id: string, hands: Hands): Promise<Play> {
  const script = SCRIPTS.find((it) => it.id === id);
  if (!script) throw new Error(`there is no story ${id}`);
  // It lies beside this script, wherever the page is put.
  loaded ??= init({ module_or_path: new URL(wasm, import.meta.url) });
  try {
    await loaded;
  } catch (error) {
    loaded = undefined;
    throw error;
  }
  return new Company(script, hands);
}

/** Members of one space and their links, as the module plays them: all that is shown is what they say. */
export class Company implements Play {
  readonly vertices: readonly (Vertex & { readonly at: number })[];
  readonly edges: readonly (Edge & { readonly pair: readonly [number, number] })[];
  flying: readonly Message[] = [];
  now: number;
  state: State;
  readonly script: MembersScript;
  readonly figures: HTMLElement;
  readonly below: HTMLElement;
  readonly #members: Members;
  readonly #panel: Panel;
  #told: string;

  constructor(script: MembersScript, hands: Hands) {
    this.script = script;
    this.#members = new Members(script.cast.length, SEED, script.delayMs);
    this.now = this.#members.now();
    this.#told = this.#members.state();
    this.state = JSON.parse(this.#told) as State;
    const does = script.deeds[0]!.label;
    this.vertices = script.cast.map((name, at) => ({ id: name, name, kind: 'peer', does, value: undefined, known: true, at }));
    this.edges = this.vertices.flatMap((b, to) =>
      this.vertices.slice(0, to).map((a, from) => ({ id: `${a.id}~${b.id}`, a, b, cut: false, cuttable: true, pair: [from, to] as const })),
    );
    this.#panel = new Panel(this, hands);
    this.figures = this.#panel.figures;
    this.below = this.#panel.below;
    this.#look();
  }

  get lead(): string {
    return this.script.lead;
  }

  get hint(): string {
    return this.script.hint;
  }

  get byHand(): string {
    return this.script.byHand;
  }

  get handMs(): number {
    return this.script.handMs;
  }

  get steps(): MembersScript['steps'] {
    return this.script.steps;
  }

  act(step: number): void {
    this.steps[step]?.act(this);
    this.#look();
  }

  run(until: number): boolean {
    this.#members.run(until);
    return this.#look();
  }

  press(id: string): void {
    const vertex = this.vertices.find((it) => it.id === id);
    if (vertex) this.deed(0, vertex.at);
  }

  toggle(id: string): void {
    const edge = this.edges.find((it) => it.id === id);
    if (edge) this.#cut(edge, !edge.cut);
    this.#look();
  }

  /** Does what a visitor can do at a member. */
  deed(which: number, at: number): void {
    this.script.deeds[which]?.act(this, at);
    this.#look();
  }

  /** Whether a member can hear nobody. */
  isAlone(at: number): boolean {
    return this.edges.every(({ pair, cut }) => cut || !pair.includes(at));
  }

  /** Cuts all links of a member, or mends them. */
  part(at: number, cut: boolean): void {
    for (const edge of this.edges) if (edge.pair.includes(at)) this.#cut(edge, cut);
  }

  mint(at: number, name: string, amount: number): void {
    this.#members.mint(at, name, amount);
  }

  grant(at: number, name: string, to: number, amount: number): void {
    this.#members.grant(at, name, to, amount);
  }

  spend(at: number, name: string, amount: number): void {
    this.#members.spend(at, name, amount, this.script.patienceMs);
  }

  /** Spends of one account and pays into others, in one transaction. */
  transfer(at: number, from: string, to: Readonly<Record<string, number>>): void {
    this.#members.transfer(at, from, Object.keys(to), Uint32Array.from(Object.values(to)), this.script.patienceMs);
  }

  /** Begins a sequence of which a number is watched. */
  begin(at: number, name: string, watched: number): void {
    this.#members.begin(at, name);
    this.#members.watch(at, name, watched);
  }

  /** Visitors come to a member. */
  next(at: number, name: string, count = 1): void {
    for (let time = 0; time < count; time++) this.#members.next(at, name, this.script.patienceMs);
  }

  show(): void {
    this.#panel.show();
  }

  free(): void {
    this.#members.free();
  }

  #cut(edge: Company['edges'][number], cut: boolean): void {
    edge.cut = cut;
    this.#members.cut(...edge.pair, cut);
  }

  /** Asks the module how it stands; tells whether that has changed. */
  #look(): boolean {
    this.now = this.#members.now();
    const before = this.flying.length;
    this.flying = (JSON.parse(this.#members.flights()) as Flight[]).map(({ from, to, type, ...rest }) => {
      const edge = this.edges.find(({ pair }) => pair.includes(from) && pair.includes(to))!;
      return { ...rest, edge, from: this.vertices[from]!, to: this.vertices[to]!, what: TYPES[type] ?? 'frame' };
    });
    const told = this.#members.state();
    const same = told === this.#told;
    this.#told = told;
    if (!same) this.state = JSON.parse(told) as State;
    for (const vertex of this.vertices) vertex.value = this.script.shows(this.view(vertex.at));
    return !same || before !== this.flying.length;
  }

  /** What a member sees. */
  view(at: number): MemberView {
    return this.state.members[at]!;
  }
}
