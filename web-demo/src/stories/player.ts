import { element, make } from '../make.js';
import { Drawing } from '../stage/drawing.js';
import { places, type Point } from '../stage/layout.js';
import { SCRIPTS } from './compared.js';
import { MEMBERS } from './members.js';
import type { Hands, Play, Story } from './story.js';

const STORIES: readonly Story[] = [...SCRIPTS, ...MEMBERS];
const STEP_MS = 2_600;
const calm = matchMedia('(prefers-reduced-motion: reduce)');
const NOBODY = { vertices: [], edges: [], flying: [], now: 0 };

/** Plays stories: by itself, step by step, or by the visitor's hand. */
export class Player {
  #story: Story = STORIES[0]!;
  /** What is played; nothing while it is being loaded. */
  #play: Play | undefined;
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
  readonly #playButton = element<HTMLButtonElement>('story-play');
  readonly #next = element<HTMLButtonElement>('story-next');
  readonly #again = element<HTMLButtonElement>('story-again');
  readonly #tabs: HTMLButtonElement[];
  readonly #hands: Hands = { do: (act) => this.#hand(act) };

  constructor() {
    const hands = {
      count: ({ id }: { id: string }) => this.#hand((play) => play.press(id)),
      toggle: ({ id }: { id: string }) => this.#hand((play) => play.toggle(id)),
    };
    this.#drawing = new Drawing(element('story-view'), 'The story’s replicas', NOBODY, (width, height, radius) => this.#arrange(width, height, radius), hands);
    this.#tabs = STORIES.map((story) => {
      const tab = make('button', 'story-tab', story.title);
      tab.dataset['story'] = story.id;
      tab.addEventListener('click', () => void this.#begin(story).then((begun) => begun && this.#setPlaying(!calm.matches)));
      return tab;
    });
    element('story-tabs').append(...this.#tabs);
    this.#playButton.addEventListener('click', () => void this.#toggle());
    this.#next.addEventListener('click', () => this.step());
    this.#again.addEventListener('click', () => void this.#begin(this.#story));
    void this.#begin(this.#story);
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
    if (this.#step > 0) this.#play?.run(this.#until);
    this.#show();
  }

  get #settled(): boolean {
    return (this.#play?.now ?? 0) >= this.#until;
  }

  get #over(): boolean {
    return this.#settled && this.#step >= (this.#play?.steps.length ?? 0);
  }

  async #toggle(): Promise<void> {
    if (!this.#playing && this.#over && !(await this.#begin(this.#story))) return;
    this.#setPlaying(!this.#playing);
  }

  /** Begins a story; false if another one was begun meanwhile, or if it could not be loaded. */
  async #begin(story: Story): Promise<boolean> {
    this.#setPlaying(false);
    this.#play?.free();
    this.#play = undefined;
    this.#story = story;
    this.#step = 0;
    this.#until = 0;
    this.#byHand = false;
    this.#root.dataset['story'] = story.id;
    for (const tab of this.#tabs) tab.setAttribute('aria-pressed', String(tab.dataset['story'] === story.id));
    const opening = story.open(this.#hands);
    if (opening instanceof Promise) {
      this.#caption.textContent = 'Loading the members.';
      this.#drawing.use(NOBODY);
      this.#show();
    }
    let play: Play;
    try {
      // What is there already is shown before anything else happens.
      play = opening instanceof Promise ? await opening : opening;
    } catch (error) {
      if (this.#story === story) this.#caption.textContent = 'This story could not be loaded. Start over to try again.';
      console.warn(error);
      return false;
    }
    if (this.#play || this.#story !== story) {
      play.free();
      return false;
    }
    this.#play = play;
    this.#until = play.now;
    this.#caption.textContent = 'Press Play, or step through it.';
    element('story-lead').textContent = play.lead;
    element('story-hint').textContent = play.hint;
    element('story-figures').replaceChildren(play.figures);
    element('story-below').replaceChildren(...(play.below ? [play.below] : []));
    this.#dots.replaceChildren(...play.steps.map(() => make('i', '')));
    this.#drawing.use(play);
    this.#show();
    return true;
  }

  /** Begins the next step. */
  #act(): void {
    const step = this.#play?.steps[this.#step];
    if (!step || !this.#play) return;
    this.#until = this.#play.now + (step.ms ?? STEP_MS);
    this.#caption.textContent = step.caption;
    this.#play.act(this.#step++);
    this.#drawing.use(this.#play);
    this.#show();
  }

  /** A visitor takes over: the story waits, and time goes on. */
  #hand(act: (play: Play) => void): void {
    if (!this.#play) return;
    this.#setPlaying(false);
    this.#byHand = true;
    act(this.#play);
    this.#until = this.#play.now + this.#play.handMs;
    if (calm.matches) this.#play.run(this.#until);
    this.#caption.textContent = this.#play.byHand;
    this.#show();
  }

  #setPlaying(playing: boolean): void {
    this.#playing = playing && this.#play !== undefined && !this.#over;
    this.#playButton.textContent = this.#playing ? 'Pause' : 'Play';
  }

  #pass(ms: number): void {
    const play = this.#play;
    if (!play || !(this.#playing || (this.#byHand && !this.#settled))) return;
    if (this.#playing && this.#settled) {
      if (this.#over) this.#setPlaying(false);
      else this.#act();
    }
    const changed = play.run(Math.min(play.now + ms, Math.max(this.#until, play.now)));
    if (changed || this.#settled) this.#show();
    this.#drawing.frame();
  }

  #arrange(width: number, height: number, radius: number): Map<string, Point> {
    const people = this.#play?.vertices ?? [];
    const points = people.length === 2 ? [{ x: -1, y: 0 }, { x: 1, y: 0 }] : places(people.length).map(({ x, y }) => ({ x: y, y: -x }));
    const wide = Math.min(width / 2 - radius - 16, 190);
    const high = height / 2 - radius - 20;
    const middle = { x: width / 2, y: height / 2 - (people.length === 2 ? 8 : -high * 0.12) };
    return new Map(people.map(({ id }, at) => [id, { x: middle.x + points[at]!.x * wide, y: middle.y + points[at]!.y * high }]));
  }

  #show(): void {
    this.#drawing.refresh();
    this.#drawing.frame();
    this.#play?.show();
    this.#root.dataset['step'] = String(this.#step);
    this.#root.dataset['settled'] = String(this.#settled);
    this.#root.dataset['ready'] = String(this.#play !== undefined);
    this.#playButton.disabled = !this.#play;
    this.#next.disabled = !this.#play || (this.#over && !this.#byHand);
    [...this.#dots.children].forEach((dot, at) => ((dot as HTMLElement).dataset['done'] = String(at < this.#step)));
  }
}
