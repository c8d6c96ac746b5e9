import { Replica } from 'tallymesh';
import type { Edge, Message, Vertex } from '../stage/mesh.js';

/** A last-write-wins register: whoever wrote last has written the whole number. */
interface Register {
  value: bigint | undefined;
  /** When it was written, by the writer's clock, and who breaks a tie. */
  at: number;
  by: number;
}

/** What a naive counter tells others: what was done, and not by whom or whether it was heard before. */
type Deed = { add: bigint } | 'delete';

/** One of those who count: a real replica, and beside it the two simpler ways, given the same work and the same messages. */
export interface Person extends Vertex {
  readonly replica: Replica;
  readonly index: number;
  register: Register;
  naive: bigint | undefined;
  /** Deeds that the naive counter has not told yet. */
  untold: Deed[];
}

/** A message with what each of the three ways puts into it. */
interface Letter extends Message {
  readonly from: Person;
  readonly to: Person;
  readonly delta: Uint8Array;
  readonly register: Register;
  readonly deeds: readonly Deed[];
  readonly then?: (() => void) | undefined;
}

const KEY = 'likes';

/** How long a message takes. */
export const TRAVEL_MS = 900;

/**
 * A small world with a clock of its own, in which every run of a story is the same: time passes when it is told to,
 * messages take as long as the seed says, and nothing else happens.
 */
export class World {
  readonly vertices: Person[] = [];
  readonly edges: Edge[] = [];
  flying: Letter[] = [];
  now = 0;
  /** What is exact: every add that was not cancelled by a delete which had seen it. */
  readonly #adds: { by: bigint; cancelled: boolean }[] = [];
  readonly #seen = new Map<Person, Set<number>>();
  #seed: number;

  constructor(seed: number) {
    this.#seed = seed;
  }

  /** Adds somebody, linked with all who are there. */
  join(name: string, linkedWith: readonly Person[] = this.vertices): Person {
    const person: Person = {
      id: name, name, kind: 'peer', replica: new Replica({ space: 'story' }), value: undefined, known: true,
      index: this.vertices.length, register: { value: undefined, at: 0, by: 0 }, naive: undefined, untold: [],
    };
    for (const other of [...linkedWith]) if (!other.gone) this.edges.push({ id: `${other.id}~${name}`, a: other, b: person, cut: false, cuttable: true });
    this.vertices.push(person);
    this.#seen.set(person, new Set());
    return person;
  }

  /** Somebody is gone for good, with no goodbye. */
  kill(person: Person): void {
    person.gone = true;
    this.flying = this.flying.filter(({ to }) => to !== person);
    for (const edge of this.edges) if (edge.a === person || edge.b === person) edge.cut = true;
  }

  count(person: Person, by = 1n): void {
    if (person.gone) return;
    this.now++; // no two writes at one time
    person.replica.add(KEY, by);
    this.#seen.get(person)?.add(this.#adds.push({ by, cancelled: false }) - 1);
    person.register = { value: (person.register.value ?? 0n) + by, at: this.now, by: person.index };
    person.naive = (person.naive ?? 0n) + by;
    person.untold.push({ add: by });
    this.#look(person);
  }

  delete(person: Person): void {
    if (person.gone) return;
    this.now++;
    person.replica.delete(KEY);
    for (const at of this.#seen.get(person) ?? []) this.#adds[at]!.cancelled = true;
    person.register = { value: undefined, at: this.now, by: person.index };
    person.naive = undefined;
    person.untold.push('delete');
    this.#look(person);
  }

  /** Tells everybody (or those named) what is new. What is told over a cut link is lost. */
  tell(person: Person, to: readonly Person[] = this.vertices): void {
    if (person.gone) return;
    const letter = this.write(person);
    for (const other of to) if (other !== person) this.post(letter, other);
  }

  /** Writes a letter; whoever sends it again sends the same. */
  write(from: Person): Pick<Letter, 'from' | 'delta' | 'register' | 'deeds'> & { seen: ReadonlySet<number> } {
    const deeds = from.untold;
    from.untold = [];
    return { from, delta: from.replica.delta(), register: { ...from.register }, deeds, seen: new Set(this.#seen.get(from)) };
  }

  /** Sends a letter, or loses it on its way. */
  post(letter: ReturnType<World['write']>, to: Person, { lost = false, what = 'news', then }: { lost?: boolean; what?: string; then?: () => void } = {}): void {
    const { from } = letter;
    const edge = this.edges.find(({ a, b }) => (a === from && b === to) || (a === to && b === from));
    if (!edge || to.gone) return;
    const arrives = this.now + TRAVEL_MS * (0.9 + 0.3 * this.#random());
    const { delta, register, deeds, seen } = letter;
    const arrived = (): void => {
      for (const at of seen) this.#seen.get(to)?.add(at);
      then?.();
    };
    this.flying.push({ edge, from, to, bytes: delta.length, what, sent: this.now, arrives, lost: lost || edge.cut, delta, register, deeds, then: arrived });
  }

  cut(edge: Edge, cut: boolean): void {
    edge.cut = cut;
    for (const letter of this.flying) if (letter.edge === edge && cut) Object.assign(letter, { lost: true });
  }

  /** Cuts or heals all links between two groups. */
  part(group: readonly Person[], cut: boolean): void {
    for (const edge of this.edges) if (group.includes(edge.a as Person) !== group.includes(edge.b as Person)) this.cut(edge, cut);
  }

  /** Lets time pass; what arrives meanwhile arrives in its order. */
  run(until: number): void {
    for (;;) {
      const next = this.flying.filter(({ arrives }) => arrives <= until).sort((a, b) => a.arrives - b.arrives)[0];
      if (!next) break;
      this.now = Math.max(this.now, next.arrives);
      this.flying.splice(this.flying.indexOf(next), 1);
      if (!next.lost && !next.to.gone) this.#arrive(next);
    }
    this.now = Math.max(this.now, until);
  }

  /** The number that all should show once all have heard of all; `undefined` for none. */
  get exact(): bigint | undefined {
    const left = this.#adds.filter(({ cancelled }) => !cancelled);
    return left.length === 0 ? undefined : left.reduce((sum, { by }) => sum + by, 0n);
  }

  free(): void {
    for (const { replica } of this.vertices) replica.free();
    this.vertices.length = this.edges.length = this.flying.length = 0;
  }

  #arrive({ to, delta, register, deeds, then }: Letter): void {
    to.replica.merge(delta);
    const { at, by } = to.register;
    if (register.at > at || (register.at === at && register.by > by)) to.register = { ...register };
    for (const deed of deeds) to.naive = deed === 'delete' ? undefined : (to.naive ?? 0n) + deed.add;
    this.#look(to);
    then?.();
  }

  #look(person: Person): void {
    person.value = person.replica.get(KEY);
  }

  /** A number in 0..1 that follows from the seed (mulberry32). */
  #random(): number {
    this.#seed = (this.#seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#seed ^ (this.#seed >>> 15), 1 | this.#seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
}
