import { element, make } from '../make.js';
import { grouped } from '../number.js';
import type { Edge, Message } from '../stage/mesh.js';
import { STORIES, type Script } from './scripts.js';
import type { Hands, Play, Step, Story } from './story.js';
import { TRAVEL_MS, World, type Person } from './world.js';

const SEED = 7;
const LEAD =
  'Real replicas again, and beside them two simpler ways to count, which are given the same work and the same messages. See which of them is right in the end.';

/** The stories in which two simpler ways to count stand beside the replicas. */
export const SCRIPTS: readonly Story[] = STORIES.map((script) => ({
  id: script.id,
  title: script.title,
  open: (hands) => new Compared(script, hands),
}));

/** A story of them that was begun. */
class Compared implements Play {
  readonly lead = LEAD;
  readonly byHand = 'Now it’s you. Count on both sides of a cut, then mend it.';
  readonly handMs = 2 * TRAVEL_MS;
  readonly figures: HTMLElement;
  readonly #script: Script;
  readonly #world = new World(SEED);
  readonly #cast: Record<string, Person> = {};
  readonly #table = make('tbody', '');
  readonly #exact = make('b', '');

  constructor(script: Script, hands: Hands) {
    this.#script = script;
    for (const name of script.cast) this.#cast[name] = this.#world.join(name);
    const table = make('table', 'compare', this.#table);
    table.setAttribute('aria-label', 'What each way shows');
    const scroll = make('div', 'scroll', table);
    scroll.tabIndex = 0;
    scroll.role = 'region';
    scroll.ariaLabel = 'The three ways to count';
    this.#table.id = 'story-compare';
    this.#exact.id = 'story-exact';
    this.figures = make('div', '', scroll, make('p', 'hint', 'Exact: ', this.#exact, '.'));
    if (script.id !== 'delete') return;
    const remove = make('button', 'plain', 'Ada deletes');
    remove.id = 'story-delete';
    remove.addEventListener('click', () =>
      hands.do(() => {
        const [ada] = this.#world.vertices;
        this.#world.delete(ada!);
        this.#world.tell(ada!);
      }),
    );
    this.figures.prepend(make('div', 'deeds', remove));
  }

  get hint(): string {
    return this.#script.hint;
  }

  get steps(): readonly Step[] {
    return this.#script.steps;
  }

  get vertices(): readonly Person[] {
    return this.#world.vertices;
  }

  get edges(): readonly Edge[] {
    return this.#world.edges;
  }

  get flying(): readonly Message[] {
    return this.#world.flying;
  }

  get now(): number {
    return this.#world.now;
  }

  act(step: number): void {
    this.#script.steps[step]?.act(this.#world, this.#cast);
    for (const person of this.#world.vertices) this.#cast[person.name] ??= person;
  }

  run(until: number): boolean {
    const before = this.#world.flying.length;
    this.#world.run(until);
    return before !== this.#world.flying.length;
  }

  press(id: string): void {
    const person = this.#world.vertices.find((it) => it.id === id)!;
    this.#world.count(person);
    this.#world.tell(person);
  }

  toggle(id: string): void {
    const edge = this.#world.edges.find((it) => it.id === id)!;
    if ([edge.a, edge.b].some(({ gone }) => gone)) return;
    this.#world.cut(edge, !edge.cut);
    if (!edge.cut) for (const person of [edge.a, edge.b]) this.#world.tell(person as Person);
  }

  show(): void {
    const world = this.#world;
    const write = (value: bigint | undefined): string => (value === undefined ? 'none' : grouped(value));
    const settled = world.flying.length === 0 && world.edges.every(({ cut, a, b }) => !cut || a.gone || b.gone);
    const row = (way: string, name: string, read: (person: Person) => bigint | undefined): HTMLElement => {
      const cells = world.vertices.map((person) => {
        const value = read(person);
        const cell = make('td', '', person.gone ? 'gone' : write(value));
        cell.dataset['who'] = person.name;
        cell.dataset['value'] = person.gone ? 'gone' : String(value ?? 'absent');
        cell.dataset['wrong'] = String(settled && !person.gone && value !== world.exact);
        return cell;
      });
      const head = make('th', '', name);
      head.scope = 'row';
      const line = make('tr', '', head, ...cells);
      line.dataset['way'] = way;
      return line;
    };
    const names = world.vertices.map(({ name }) => {
      const cell = make('th', '', name);
      cell.scope = 'col';
      return cell;
    });
    this.#table.replaceChildren(
      make('tr', '', make('td', ''), ...names),
      row('tallymesh', 'Tallymesh', ({ value }) => value),
      row('register', 'Last write wins', ({ register }) => register.value),
      row('naive', 'Naive counter', ({ naive }) => naive),
    );
    this.#exact.textContent = write(world.exact);
    element('story').dataset['exact'] = String(world.exact ?? 'absent');
  }

  free(): void {
    this.#world.free();
  }
}
