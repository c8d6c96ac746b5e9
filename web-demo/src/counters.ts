import type { Replica } from 'tallymesh';
import { RollingNumber } from './number.js';
import { shares, writerColour } from './writers.js';

/** Cards beyond these are not drawn: a mesh may hold thousands of counters. */
const CARDS_MAX = 24;

/** The cards, one a counter. */
export class Counters {
  readonly #replica: Replica;
  readonly #root: HTMLElement;
  readonly #choose: (key: string) => void;
  readonly #cards = new Map<string, Card>();

  constructor(replica: Replica, root: HTMLElement, choose: (key: string) => void) {
    this.#replica = replica;
    this.#root = root;
    this.#choose = choose;
  }

  /** Makes sure that a counter has a card, if need be instead of the oldest that was not asked for. */
  pin(key: string): void {
    const card = this.#cards.get(key) ?? this.#make(key);
    card.pinned = true;
  }

  /** Shows that a counter has changed. */
  refresh(key: string): void {
    const card = this.#cards.get(key) ?? (this.#cards.size < CARDS_MAX ? this.#make(key) : undefined);
    card?.show(this.#replica.get(key) ?? 0n);
  }

  /** Marks the counter whose shards are shown. */
  mark(chosen: string): void {
    for (const [key, card] of this.#cards) card.mark(key === chosen);
  }

  #make(key: string): Card {
    if (this.#cards.size >= CARDS_MAX) {
      for (const [old, card] of this.#cards) {
        if (card.pinned) continue;
        card.element.remove();
        this.#cards.delete(old);
        break;
      }
    }
    const card = new Card(this.#replica, key, this.#choose);
    this.#cards.set(key, card);
    this.#root.append(card.element);
    card.show(this.#replica.get(key) ?? 0n);
    return card;
  }
}

class Card {
  readonly element = document.createElement('article');
  pinned = false;
  readonly #replica: Replica;
  readonly #key: string;
  readonly #number = new RollingNumber();
  readonly #bar = document.createElement('div');
  readonly #name = document.createElement('button');

  constructor(replica: Replica, key: string, choose: (key: string) => void) {
    this.#replica = replica;
    this.#key = key;
    this.element.className = 'card';
    this.element.dataset.key = key;
    this.#name.className = 'name';
    this.#name.textContent = key;
    this.#name.title = 'Show what it is made of';
    this.#name.addEventListener('click', () => choose(key));
    this.#bar.className = 'bar';
    this.#bar.setAttribute('aria-hidden', 'true');
    const steps = document.createElement('div');
    steps.className = 'steps';
    for (const by of [-1, 1, 10]) steps.append(this.#step(by, choose));
    this.element.append(this.#name, this.#number.element, this.#bar, steps);
    this.mark(false);
  }

  show(value: bigint): void {
    this.#number.show(value);
    const parts = shares(this.#replica.shards(this.#key)).filter(({ percent }) => percent > 0);
    this.#bar.replaceChildren(
      ...parts.map(({ shard, percent }) => {
        const part = document.createElement('i');
        part.style.setProperty('--part', String(percent));
        part.style.setProperty('--writer', writerColour(shard.writer, this.#replica.writer));
        return part;
      }),
    );
  }

  mark(chosen: boolean): void {
    this.element.dataset.chosen = String(chosen);
    this.#name.setAttribute('aria-pressed', String(chosen));
  }

  #step(by: number, choose: (key: string) => void): HTMLButtonElement {
    const button = document.createElement('button');
    button.textContent = by < 0 ? `\u2212${-by}` : `+${by}`;
    button.dataset.by = String(by);
    button.className = by === 1 ? 'add' : '';
    button.setAttribute('aria-label', `${by < 0 ? 'Subtract' : 'Add'} ${Math.abs(by)}: ${this.#key}`);
    button.addEventListener('click', () => {
      this.#replica.add(this.#key, by);
      choose(this.#key);
    });
    return button;
  }
}
