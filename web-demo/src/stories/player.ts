import { element, make } from '../make.js';
import { grouped } from '../number.js';
import { Drawing } from '../stage/drawing.js';
import { places, type Point } from '../stage/layout.js';
import { STORIES, type Story } from './scripts.js';
import { TRAVEL_MS, World, type Person } from './world.js';

const SEED = 7;
const STEP_MS = 2_600;
const calm = matchMedia('(prefers-reduced-motion: reduce)');

/** Plays stories: by itself, step by step, or by the visitor's hand. */
export class Player {
  #story: Story = STORIES[0]!;
  #world = new World(SEED);
  #cast: Record<string, Person> = {};
  /** How many steps have begun. */
  #step = 0;
  /** When the step that was begun last is over. */
  #until = 0;
  #playing = false;
  #looked = 0;
  #byHand = false;
  readonly #drawing: Drawing;
  readonly #root = element('story');
  readonly #caption = element('story-caption');
  readonly #dots = element('story-dots');
  readonly #play = element<HTMLButtonElement>('story-play');
  readonly #next = element<HTMLButtonElement>('story-next');
  readonly #delete = element<HTMLButtonElement>('story-delete');
  readonly #table = element('story-compare');
  readonly #tabs: HTMLButtonElement[];

  constructor() {
    const hands = {
      count: (vertex: { id: string }) => this.#hand((world) => {
        const person = world.vertices.find(({ id }) => id === vertex.id)!;
        world.count(person);
        world.tell(person);
      }),
      toggle: (edge: { id: string }) => this.#hand((world) => {
        const found = world.edges.find(({ id }) => id === edge.id)!;
        if ([found.a, found.b].some(({ gone }) => gone)) return;
        world.cut(found, !found.cut);
        if (!found.cut) for (const person of [found.a, found.b]) world.tell(person as Person);
      }),
    };
    this.#drawing = new Drawing(element('story-view'), 'The story’s replicas', this.#world, (width, height, radius) => this.#arrange(width, height, radius), hands);
    this.#tabs = STORIES.map((story) => {
      const tab = make('button', 'story-tab', story.title);
      tab.dataset['story'] = story.id;
      tab.addEventListener('click', () => {
        this.#begin(story);
        this.#setPlaying(!calm.matches);
      });
      return tab;
    });
    element('story-tabs').append(...this.#tabs);
    this.#play.addEventListener('click', () => {
      if (!this.#playing && this.#over) this.#begin(this.#story);
      this.#setPlaying(!this.#playing);
    });
    this.#next.addEventListener('click', () => this.step());
    this.#delete.addEventListener('click', () => this.#hand((world) => {
      world.delete(world.vertices[0]!);
      world.tell(world.vertices[0]!);
    }));
    element('story-again').addEventListener('click', () => {
      this.#begin(this.#story);
      this.#setPlaying(false);
    });
    this.#begin(this.#story);
    const seen = new IntersectionObserver(([entry]) => {
      if (!entry?.isIntersecting) return;
      seen.disconnect();
      if (this.#step === 0 && !this.#byHand) this.#setPlaying(!calm.matches);
    }, { threshold: 0.6 });
    seen.observe(element('story-view'));
    const frame = (now: number): void => {
      this.#pass(Math.min(now - this.#looked, 100));
      this.#looked = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  /** Shows the end of the step that runs, if one does, and else the end of the next. */
  step(): void {
    this.#setPlaying(false);
    if (this.#settled) this.#act();
    if (this.#step > 0) this.#world.run(this.#until);
    this.#show();
  }

  get #settled(): boolean {
    return this.#world.now >= this.#until;
  }

  get #over(): boolean {
    return this.#settled && this.#step >= this.#story.steps.length;
  }

  #begin(story: Story): void {
    this.#world.free();
    this.#world = new World(SEED);
    this.#story = story;
    this.#cast = {};
    for (const name of story.cast) this.#cast[name] = this.#world.join(name);
    this.#step = 0;
    this.#until = 0;
    this.#byHand = false;
    this.#root.dataset['story'] = story.id;
    this.#delete.hidden = story.id !== 'delete';
    for (const tab of this.#tabs) tab.setAttribute('aria-pressed', String(tab.dataset['story'] === story.id));
    element('story-hint').textContent = story.hint;
    this.#dots.replaceChildren(...story.steps.map(() => make('i', '')));
    this.#caption.textContent = 'Press Play, or step through it.';
    this.#drawing.use(this.#world);
    this.#show();
  }

  /** Begins the next step. */
  #act(): void {
    const step = this.#story.steps[this.#step];
    if (!step) return;
    this.#step++;
    this.#until = this.#world.now + (step.ms ?? STEP_MS);
    this.#caption.textContent = step.caption;
    step.act(this.#world, this.#cast);
    for (const person of this.#world.vertices) this.#cast[person.name] ??= person;
    this.#drawing.use(this.#world);
    this.#show();
  }

  /** A visitor takes over: the story waits, and time goes on. */
  #hand(act: (world: World) => void): void {
    this.#setPlaying(false);
    this.#byHand = true;
    act(this.#world);
    this.#until = this.#world.now + 2 * TRAVEL_MS;
    if (calm.matches) this.#world.run(this.#until);
    this.#caption.textContent = 'Now it’s you. Count on both sides of a cut, then mend it.';
    this.#show();
  }

  #setPlaying(playing: boolean): void {
    this.#playing = playing && !this.#over;
    this.#play.textContent = this.#playing ? 'Pause' : 'Play';
  }

  #pass(ms: number): void {
    const runs = this.#playing || (this.#byHand && !this.#settled);
    if (!runs) return;
    if (this.#playing && this.#settled) {
      if (this.#over) this.#setPlaying(false);
      else this.#act();
    }
    const before = this.#world.flying.length;
    this.#world.run(Math.min(this.#world.now + ms, Math.max(this.#until, this.#world.now)));
    if (before !== this.#world.flying.length || this.#settled) this.#show();
    this.#drawing.frame();
  }

  #arrange(width: number, height: number, radius: number): Map<string, Point> {
    const people = this.#world.vertices;
    const points = people.length === 2 ? [{ x: -1, y: 0 }, { x: 1, y: 0 }] : places(people.length).map(({ x, y }) => ({ x: y, y: -x }));
    const wide = Math.min(width / 2 - radius - 16, 190);
    const high = height / 2 - radius - 20;
    const middle = { x: width / 2, y: height / 2 - (people.length === 2 ? 8 : -high * 0.12) };
    return new Map(people.map(({ id }, at) => [id, { x: middle.x + points[at]!.x * wide, y: middle.y + points[at]!.y * high }]));
  }

  #show(): void {
    this.#drawing.refresh();
    this.#drawing.frame();
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
    element('story-exact').textContent = write(world.exact);
    this.#root.dataset['exact'] = String(world.exact ?? 'absent');
    this.#root.dataset['step'] = String(this.#step);
    this.#root.dataset['settled'] = String(this.#settled);
    this.#next.disabled = this.#over && !this.#byHand;
    [...this.#dots.children].forEach((dot, at) => ((dot as HTMLElement).dataset['done'] = String(at < this.#step)));
  }
}
