import { make } from '../make.js';
import { grouped } from '../number.js';
import type { Shown } from './messages.js';
import { Spark } from './spark.js';
import { perSecond } from './words.js';

const ROW_PX = 44;
/** Rows beyond the visible ones, so that a slow scroll never meets an empty one. */
const MORE = 8;
/** Browsers draw nothing further down than some 17 million pixels. */
const COUNT_MAX = 350_000;
/** A hand on the keys holds the order for so long. */
const HELD_MS = 4_000;

/** What a hand does on the grid. */
export interface Hands {
  /** A row was chosen; `opened` says that it was meant, and not only passed by the arrow keys. */
  choose(key: string, opened: boolean): void;
  /** Other rows are in sight, or a hand came or went. */
  moved(): void;
}

interface Drawn {
  readonly row: HTMLElement;
  readonly key: HTMLElement;
  readonly spark: Spark;
  readonly rate: HTMLElement;
  readonly value: HTMLElement;
  index: number;
}

/** A list of any length, of which only what is in sight is in the document. */
export class Grid {
  readonly #grid: HTMLElement;
  readonly #body: HTMLElement;
  readonly #hands: Hands;
  readonly #drawn: Drawn[] = [];
  /** What is known of the rows in sight, by their place. */
  #known = new Map<number, Shown>();
  #count = 0;
  #height = 0;
  #top = 0;
  #active = -1;
  /** Whether the active row is to be chosen once it is known what is in it. */
  #wanted = false;
  #chosen: string | undefined;
  #pointed = false;
  #typed = -Infinity;
  #scheduled = false;

  constructor(grid: HTMLElement, body: HTMLElement, hands: Hands) {
    this.#grid = grid;
    this.#body = body;
    this.#hands = hands;
    grid.addEventListener('scroll', () => this.#soon(), { passive: true });
    new ResizeObserver(() => this.#soon()).observe(grid);
    const point = (pointed: boolean): void => {
      this.#pointed = pointed;
      hands.moved();
    };
    body.addEventListener('pointerenter', () => point(true));
    body.addEventListener('pointerleave', () => point(false));
    body.addEventListener('click', (event) => {
      const row = (event.target as Element).closest<HTMLElement>('.grid-row');
      if (row) this.#choose(Number(row.dataset['index']), true);
    });
    grid.addEventListener('keydown', (event) => this.#pressed(event));
  }

  /** The rows that are to be known: those in sight and some around. */
  get range(): { from: number; to: number } {
    const from = Math.max(Math.floor(this.#top / ROW_PX) - MORE, 0);
    return { from, to: Math.min(from + this.#pool, Math.max(this.#count, this.#pool)) };
  }

  /** Whether the order should stay as it is, since a hand is on it. */
  get held(): boolean {
    return this.#pointed || performance.now() - this.#typed < HELD_MS;
  }

  /** Shows rows from a place on, of so many. */
  show(from: number, rows: readonly Shown[], count: number): void {
    this.#known = new Map(rows.map((row, at) => [from + at, row]));
    const shown = Math.min(count, COUNT_MAX);
    if (shown !== this.#count) {
      this.#count = shown;
      this.#body.style.height = `${shown * ROW_PX}px`;
      this.#grid.setAttribute('aria-rowcount', String(shown + 1));
    }
    if (this.#wanted) this.#choose(this.#active, false);
    this.#place();
  }

  /** Begins again at the top: another view is shown. */
  restart(): void {
    this.#active = -1;
    this.#wanted = false;
    this.#grid.scrollTop = 0;
    this.#top = 0;
  }

  /** Marks the chosen counter. */
  mark(key: string | undefined): void {
    this.#chosen = key;
    this.#place();
  }

  focus(): void {
    this.#grid.focus({ preventScroll: true });
  }

  get #pool(): number {
    // Rows that were once drawn stay, also when the grid gets lower.
    return Math.max(Math.ceil((this.#height || 600) / ROW_PX) + 2 * MORE, this.#drawn.length);
  }

  #soon(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      this.#height = this.#grid.clientHeight;
      this.#top = this.#grid.scrollTop;
      this.#place();
      this.#hands.moved();
    });
  }

  #place(): void {
    const { from } = this.range;
    const pool = this.#pool;
    while (this.#drawn.length < pool) this.#drawn.push(this.#make());
    for (let index = from; index < from + this.#drawn.length; index++) this.#write(this.#drawn[index % this.#drawn.length]!, index);
    const active = this.#active >= from && this.#active < Math.min(from + pool, this.#count);
    if (active) this.#grid.setAttribute('aria-activedescendant', `counter-${this.#active}`);
    else this.#grid.removeAttribute('aria-activedescendant');
  }

  #make(): Drawn {
    const [key, spark, rate, value] = [make('div', 'g-key'), new Spark(), make('span', 'g-rate'), make('div', 'g-value')];
    const minute = make('div', 'g-minute');
    minute.append(spark.element, rate);
    const row = make('div', 'grid-row', key, minute, value);
    row.setAttribute('role', 'row');
    for (const cell of [key, minute, value]) cell.setAttribute('role', 'gridcell');
    this.#body.append(row);
    return { row, key, spark, rate, value, index: -1 };
  }

  #write(drawn: Drawn, index: number): void {
    const { row, key, spark, rate, value } = drawn;
    row.hidden = index >= this.#count;
    if (row.hidden) {
      delete row.dataset['key'];
      delete value.dataset['value'];
      key.textContent = null;
      return;
    }
    if (drawn.index !== index) {
      drawn.index = index;
      row.style.transform = `translateY(${index * ROW_PX}px)`;
      row.id = `counter-${index}`;
      row.dataset['index'] = String(index);
      row.setAttribute('aria-rowindex', String(index + 2));
    }
    const known = this.#known.get(index);
    const text = known?.key ?? '';
    if (key.textContent !== text) {
      key.textContent = text;
      key.title = text;
      row.dataset['key'] = text;
    }
    row.classList.toggle('unknown', !known);
    row.classList.toggle('active', index === this.#active);
    row.setAttribute('aria-selected', String(known !== undefined && text === this.#chosen));
    const number = known?.value === undefined ? (known ? 'deleted' : '') : grouped(known.value);
    if (value.textContent !== number) {
      value.textContent = number;
      value.title = number;
    }
    value.dataset['value'] = known ? String(known.value ?? 'absent') : '';
    const speed = known ? perSecond(known.rate) : '';
    if (rate.textContent !== speed) rate.textContent = speed;
    spark.show(known?.spark);
  }

  #choose(index: number, opened: boolean): void {
    this.#active = index;
    const known = this.#known.get(index);
    this.#wanted = !known;
    if (known) this.#hands.choose(known.key, opened);
    this.#place();
  }

  #pressed(event: KeyboardEvent): void {
    if (event.target !== this.#grid) return;
    const page = Math.max(Math.floor(this.#height / ROW_PX) - 2, 1);
    const from = this.#active < 0 ? Math.ceil(this.#top / ROW_PX) - 1 : this.#active;
    const to = { ArrowDown: from + 1, ArrowUp: from - 1, PageDown: from + page, PageUp: from - page, Home: 0, End: this.#count - 1 }[event.key];
    if (to !== undefined) this.#go(Math.min(Math.max(to, 0), this.#count - 1));
    else if (event.key === 'Enter' && this.#active >= 0) this.#choose(this.#active, true);
    else return;
    this.#typed = performance.now();
    setTimeout(() => this.#hands.moved(), HELD_MS);
    event.preventDefault();
  }

  /** Goes to a row, and brings it into sight. */
  #go(index: number): void {
    if (index < 0) return;
    const head = this.#body.offsetTop;
    const [above, below] = [index * ROW_PX, (index + 1) * ROW_PX + head - this.#height];
    if (this.#grid.scrollTop > above) this.#grid.scrollTop = above;
    else if (this.#grid.scrollTop < below) this.#grid.scrollTop = below;
    this.#top = this.#grid.scrollTop;
    this.#choose(index, false);
    this.#hands.moved();
  }
}
