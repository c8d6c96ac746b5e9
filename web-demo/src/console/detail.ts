import type { Shard } from 'tallymesh';
import { element, make } from '../make.js';
import { grouped, RollingNumber } from '../number.js';
import { shares, short, writerColour } from '../writers.js';
import { Chart } from './chart.js';
import type { Chosen } from './messages.js';
import { complain, type Asker } from './question.js';
import { perSecond, span, timeOfDay } from './words.js';
import type { Deed, Write } from './writes.js';

const WRITERS_MAX = 5;
const SHARDS_MS = 1_500;

/** What the detail asks of the console. */
export interface Source {
  readonly write: Write;
  /** What each writer says of a counter; none if that can't be asked. */
  shards(key: string): Promise<readonly Shard[]>;
  /** The writer whose colour is the page's accent, once it is known. */
  self(): string | undefined;
}

/** One counter: its number, its history, and what can be done to it. */
export class Detail {
  readonly #asker: Asker;
  readonly #changed: (key: string, value: bigint | undefined) => void;
  readonly #number = new RollingNumber();
  readonly #chart = new Chart(element('history'), element('history-read'));
  readonly #by = element<HTMLInputElement>('detail-by');
  readonly #add = element<HTMLButtonElement>('detail-add');
  readonly #complaint = element('detail-complaint');
  #source: Source | undefined;
  #shown: Chosen | undefined;
  /** Whose shards were asked for last, and as of which change. */
  #sharded = { key: '', changed: -1, at: 0 };

  constructor(asker: Asker, changed: (key: string, value: bigint | undefined) => void) {
    this.#asker = asker;
    this.#changed = changed;
    element('detail-number').append(this.#number.element);
    element('detail-form').addEventListener('submit', (event) => {
      event.preventDefault();
      void this.#adds();
    });
    element('detail-set').addEventListener('click', () => this.#asks('set'));
    element('detail-reset').addEventListener('click', () => this.#asks('reset'));
    element('detail-delete').addEventListener('click', () => this.#asks('delete'));
  }

  use(source: Source): void {
    this.#source = source;
    this.#shown = undefined;
    this.#sharded = { key: '', changed: -1, at: 0 };
    this.#body(false);
  }

  /** Shows a counter, or that none is chosen. */
  show(chosen: Chosen | undefined): void {
    const other = chosen?.key !== this.#shown?.key;
    this.#shown = chosen;
    if (other) {
      this.#complaint.replaceChildren();
      this.#body(chosen !== undefined);
    }
    if (!chosen) return;
    const { key, value, rate, changed, expires } = chosen;
    if (other) element('detail-key').textContent = key;
    if (other) this.#number.jump(value ?? 0n);
    else this.#number.show(value ?? 0n);
    const parts = [
      value === undefined ? 'Deleted, or expired. The next add makes it again.' : '',
      perSecond(rate),
      changed === 0 ? 'No change since this page was opened' : `Changed at ${timeOfDay(changed)}`,
      expires === undefined ? '' : `expires in ${span(Math.max(expires - Date.now(), 0) / 1_000)}`,
    ];
    const text = parts.filter(Boolean).join(' · ');
    const about = element('detail-about');
    if (about.textContent !== text) about.textContent = text;
    element('detail').dataset['value'] = String(value ?? 'absent');
    this.#chart.show(chosen);
    void this.#showShards(key, changed);
  }

  /** Asks for a name, and makes a counter. */
  create(key: string, made: (key: string) => void): void {
    const source = this.#source;
    if (!source) return;
    this.#asker.ask({
      title: 'New counter',
      text: 'The first add makes it, here and everywhere.',
      deed: 'Create',
      destroys: false,
      fields: [
        { name: 'key', label: 'Name', value: key },
        { name: 'number', label: 'Begin with', value: '0' },
      ],
      act: async ({ key: name = '', number = '' }) => {
        if (await this.#write(source, { op: 'add', key: name, by: number })) made(name);
      },
    });
  }

  /** Writes. Returns whether the value is of the space that is still open, and then tells of it. */
  async #write(source: Source, deed: Deed): Promise<boolean> {
    const value = await source.write(deed);
    const open = source === this.#source;
    if (open) this.#changed(deed.key, value);
    return open;
  }

  async #adds(): Promise<void> {
    const { key } = this.#shown ?? {};
    const source = this.#source;
    if (key === undefined || !source || this.#add.disabled) return;
    this.#add.disabled = true;
    try {
      await this.#write(source, { op: 'add', key, by: this.#by.value.trim() });
      this.#complaint.replaceChildren();
    } catch (error) {
      complain(this.#complaint, error);
    } finally {
      this.#add.disabled = false;
    }
  }

  #asks(op: 'set' | 'reset' | 'delete'): void {
    const { key, value } = this.#shown ?? {};
    const source = this.#source;
    if (key === undefined || !source) return;
    const now = value === undefined ? 'nothing' : grouped(value);
    const rest = 'What others add at the same moment stays.';
    const asked = {
      set: { title: `Set ${key}`, text: `Its ${now} will be replaced everywhere. ${rest}`, deed: 'Set' },
      reset: { title: `Reset ${key} to 0?`, text: `Its ${now} will be gone everywhere, and can’t be brought back. ${rest}`, deed: 'Reset to 0' },
      delete: { title: `Delete ${key}?`, text: `Its ${now} will be gone everywhere, and can’t be brought back. ${rest}`, deed: 'Delete' },
    }[op];
    this.#asker.ask({
      ...asked,
      destroys: true,
      ...(op === 'set' ? { fields: [{ name: 'number', label: 'New value', value: String(value ?? 0n) }] } : {}),
      act: async ({ number = '' }) => {
        const deed: Deed = op === 'set' ? { op, key, value: number } : { op, key };
        await this.#write(source, deed);
      },
    });
  }

  #body(there: boolean): void {
    element('detail-body').hidden = !there;
    element('detail-none').hidden = there;
  }

  async #showShards(key: string, changed: number): Promise<void> {
    const now = performance.now();
    const { key: before, changed: then, at } = this.#sharded;
    if (key === before && (changed === then || now - at < SHARDS_MS)) return;
    this.#sharded = { key, changed, at: now };
    const source = this.#source;
    const shards = await source?.shards(key).catch(() => []);
    if (!shards || source !== this.#source || key !== this.#shown?.key) return;
    const self = source?.self() ?? '';
    const parts = shares([...shards]);
    element('detail-bar').replaceChildren(
      ...parts.filter(({ percent }) => percent > 0).map(({ shard, percent }) => {
        const part = make('i', '');
        part.style.setProperty('--part', String(Math.max(percent, 1)));
        part.style.setProperty('--writer', writerColour(shard.writer, self));
        return part;
      }),
    );
    const list = parts.slice(0, WRITERS_MAX).map(({ shard }) => {
      const mark = make('i', '');
      mark.style.setProperty('--writer', writerColour(shard.writer, self));
      const name = make('span', 'who', short(shard.writer), shard.writer === self ? ' (own)' : '');
      name.title = shard.writer;
      return make('li', '', mark, name, make('b', '', grouped(shard.total)));
    });
    if (parts.length > WRITERS_MAX) {
      const rest = parts.slice(WRITERS_MAX).reduce((sum, { shard }) => sum + shard.total, 0n);
      list.push(make('li', '', make('i', ''), make('span', 'who', `${parts.length - WRITERS_MAX} more`), make('b', '', grouped(rest))));
    }
    element('detail-writers').replaceChildren(...list);
  }
}
