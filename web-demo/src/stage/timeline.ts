import { element } from '../make.js';
import { grouped } from '../number.js';
import type { Snapshot } from './inside.js';
import type { Message } from './mesh.js';

/** A message that arrived, and what all held right after. */
export interface Moment {
  readonly message: Pick<Message, 'from' | 'to' | 'bytes' | 'what'>;
  readonly held: ReadonlyMap<string, Snapshot>;
}

const MOMENTS_MAX = 40;

/** The last messages, which can be stepped back and forth. */
export class Timeline {
  readonly #moments: Moment[] = [];
  readonly #range = element<HTMLInputElement>('moment');
  readonly #text = element('moment-text');
  readonly #live = element<HTMLButtonElement>('moment-live');
  readonly #show: (moment: Moment | undefined) => void;
  /** The place of the moment that is looked at; `undefined` while it is now. */
  #at: number | undefined;

  constructor(show: (moment: Moment | undefined) => void) {
    this.#show = show;
    this.#range.addEventListener('input', () => this.#look(Number(this.#range.value)));
    element('moment-back').addEventListener('click', () => this.#look((this.#at ?? this.#moments.length) - 1));
    element('moment-on').addEventListener('click', () => this.#look((this.#at ?? this.#moments.length) + 1));
    this.#live.addEventListener('click', () => this.#look(this.#moments.length));
    this.#write();
  }

  /** Whether the past is looked at. */
  get past(): Moment | undefined {
    return this.#at === undefined ? undefined : this.#moments[this.#at];
  }

  /** Keeps a moment; while the past is looked at, nothing moves. */
  add(moment: Moment): void {
    if (this.#at !== undefined) return;
    this.#moments.push(moment);
    if (this.#moments.length > MOMENTS_MAX) this.#moments.shift();
    this.#write();
  }

  #look(at: number): void {
    const { length } = this.#moments;
    this.#at = at >= length || length === 0 ? undefined : Math.max(at, 0);
    this.#write();
    this.#show(this.past);
  }

  #write(): void {
    const { length } = this.#moments;
    this.#range.max = String(length);
    this.#range.value = String(this.#at ?? length);
    this.#range.disabled = length === 0;
    this.#live.disabled = this.#at === undefined;
    const moment = this.past ?? this.#moments.at(-1);
    if (!moment) {
      this.#text.textContent = 'No message yet. Count something.';
      return;
    }
    const { message, held } = moment;
    const value = held.get(message.to.id)?.value;
    const shows = value === undefined ? 'nothing' : grouped(value);
    const place = this.#at === undefined ? 'Last message' : `Message ${this.#at + 1} of ${length}`;
    this.#text.textContent = `${place}: ${message.from.name} to ${message.to.name}, ${message.what} of ${message.bytes} bytes. Then ${message.to.name} shows ${shows}.`;
    this.#range.setAttribute('aria-valuetext', this.#text.textContent);
  }
}
