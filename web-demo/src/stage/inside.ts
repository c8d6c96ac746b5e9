import type { Shard } from 'tallymesh';
import { make } from '../make.js';
import { grouped } from '../number.js';
import { shares, short, writerColour } from '../writers.js';
import type { Vertex } from './mesh.js';

/** What one replica held at one time. */
export interface Snapshot {
  readonly value: bigint | undefined;
  readonly shards: readonly Shard[];
  readonly vector: ReadonlyMap<string, bigint>;
}

/** Reads what a replica holds of a counter by now. */
export function held(vertex: Vertex, key: string): Snapshot {
  const { replica } = vertex;
  if (!replica) return { value: vertex.value, shards: [], vector: new Map() };
  return { value: replica.get(key), shards: replica.shards(key), vector: replica.status().vector };
}

const ROWS_MAX = 10;
const WRITERS_MAX = 10;

/** Shows the shard map of one replica, and who knows how much of whom. */
export class Inside {
  readonly #title: HTMLElement;
  readonly #bar: HTMLElement;
  readonly #list: HTMLElement;
  readonly #matrix: HTMLTableElement;
  readonly #self: string;
  /** How writers are called. */
  readonly names = new Map<string, string>();

  constructor(title: HTMLElement, bar: HTMLElement, list: HTMLElement, matrix: HTMLTableElement, self: string) {
    this.#title = title;
    this.#bar = bar;
    this.#list = list;
    this.#matrix = matrix;
    this.#self = self;
  }

  /** Shows one replica's copy. */
  show(name: string, { value, shards }: Snapshot): void {
    this.#title.textContent = name;
    const parts = shares([...shards]);
    this.#bar.replaceChildren(
      ...parts.map(({ shard, percent }) => {
        const part = make('i', '');
        part.style.setProperty('--part', String(Math.max(percent, 2)));
        part.style.setProperty('--writer', writerColour(shard.writer, this.#self));
        return part;
      }),
    );
    const rows = parts.slice(0, ROWS_MAX).map(({ shard }) => {
      const mark = make('i', '');
      mark.style.setProperty('--writer', writerColour(shard.writer, this.#self));
      return make('li', '', mark, make('span', 'who', this.#name(shard.writer)), make('span', 'clock', `clock ${shard.clock}`), make('b', '', grouped(shard.total)));
    });
    if (parts.length > ROWS_MAX) {
      const rest = parts.slice(ROWS_MAX).reduce((sum, { shard }) => sum + shard.total, 0n);
      rows.push(make('li', '', make('i', ''), make('span', 'who', `${parts.length - ROWS_MAX} more`), make('span', ''), make('b', '', grouped(rest))));
    }
    const sum = value === undefined ? 'absent' : grouped(value);
    rows.push(make('li', 'sum', make('i', ''), make('span', 'who', 'adds up to'), make('span', ''), make('b', '', sum)));
    this.#list.replaceChildren(...rows);
  }

  /** Shows for each replica up to which transaction it has seen each writer. */
  showVectors(rows: readonly { name: string; vector: ReadonlyMap<string, bigint> }[]): void {
    const newest = new Map<string, bigint>();
    for (const { vector } of rows) for (const [writer, clock] of vector) if (clock > (newest.get(writer) ?? 0n)) newest.set(writer, clock);
    const writers = [...newest.keys()].sort((a, b) => this.#order(a) - this.#order(b)).slice(0, WRITERS_MAX);
    const head = make('tr', '', make('td', ''), ...writers.map((writer) => this.#heading(writer, 'col')));
    const lines = rows.slice(0, WRITERS_MAX).map(({ name, vector }) => {
      const row = make('th', '', name);
      row.scope = 'row';
      return make('tr', '', row, ...writers.map((writer) => {
        const clock = vector.get(writer) ?? 0n;
        const cell = make('td', '', String(clock));
        cell.dataset['behind'] = String(clock < (newest.get(writer) ?? 0n));
        return cell;
      }));
    });
    if (writers.length === 0) {
      const cell = make('td', '', 'Nobody has counted yet.');
      this.#matrix.replaceChildren(make('tr', '', cell));
      return;
    }
    this.#matrix.replaceChildren(head, ...lines);
  }

  #heading(writer: string, scope: string): HTMLTableCellElement {
    const mark = make('i', '');
    mark.style.setProperty('--writer', writerColour(writer, this.#self));
    const cell = make('th', '', mark, this.#name(writer));
    cell.scope = scope;
    return cell;
  }

  #name(writer: string): string {
    return this.names.get(writer) ?? short(writer).slice(0, 6);
  }

  #order(writer: string): number {
    const at = [...this.names.keys()].indexOf(writer);
    return at < 0 ? Infinity : at;
  }
}
