import type { Replica } from 'tallymesh';
import { grouped } from './number.js';
import { shares, short, writerColour } from './writers.js';

/** Rows beyond these are summed up in one. */
const ROWS_MAX = 12;

/** The table that shows what one counter is made of. */
export class ShardTable {
  readonly #replica: Replica;
  readonly #title: HTMLElement;
  readonly #rows: HTMLElement;
  readonly #sum: HTMLElement;
  /** The node's own writer id, once it is known. */
  nodeWriter: string | undefined;

  constructor(replica: Replica, title: HTMLElement, rows: HTMLElement, sum: HTMLElement) {
    this.#replica = replica;
    this.#title = title;
    this.#rows = rows;
    this.#sum = sum;
  }

  /** Shows the shards of a counter. */
  show(key: string): void {
    const parts = shares(this.#replica.shards(key));
    // This tab's own row stays in sight, however small its share.
    const own = parts.findIndex(({ shard }) => shard.writer === this.#replica.writer);
    if (own >= ROWS_MAX) parts.splice(ROWS_MAX - 1, 0, ...parts.splice(own, 1));
    const rows = parts.slice(0, ROWS_MAX).map(({ shard, percent }) => {
      const row = document.createElement('tr');
      row.style.setProperty('--writer', writerColour(shard.writer, this.#replica.writer));
      row.style.setProperty('--part', `${percent}%`);
      row.append(this.#who(shard.writer), number(shard.clock), number(shard.total), meter());
      return row;
    });
    const rest = parts.slice(ROWS_MAX);
    if (rest.length > 0) {
      const row = document.createElement('tr');
      row.className = 'rest';
      const name = document.createElement('td');
      name.textContent = `and ${rest.length} more`;
      const total = rest.reduce((sum, { shard }) => sum + shard.total, 0n);
      row.append(name, document.createElement('td'), number(total), document.createElement('td'));
      rows.push(row);
    }
    if (rows.length === 0) rows.push(nothing());
    this.#title.textContent = key;
    this.#rows.replaceChildren(...rows);
    this.#sum.textContent = grouped(this.#replica.get(key) ?? 0n);
  }

  #who(writer: string): HTMLTableCellElement {
    const cell = document.createElement('td');
    const who = document.createElement('div');
    who.className = 'who';
    who.title = writer;
    who.append(document.createElement('i'), short(writer));
    const role = writer === this.#replica.writer ? 'this tab' : writer === this.nodeWriter ? 'this node' : '';
    if (role) {
      const badge = document.createElement('span');
      badge.className = 'badge';
      badge.textContent = role;
      who.append(badge);
    }
    cell.append(who);
    return cell;
  }
}

function number(value: bigint): HTMLTableCellElement {
  const cell = document.createElement('td');
  cell.className = 'num';
  cell.textContent = grouped(value);
  return cell;
}

function meter(): HTMLTableCellElement {
  const cell = document.createElement('td');
  cell.className = 'share';
  const track = document.createElement('div');
  track.className = 'meter';
  track.append(document.createElement('i'));
  cell.append(track);
  return cell;
}

function nothing(): HTMLTableRowElement {
  const row = document.createElement('tr');
  const cell = document.createElement('td');
  cell.colSpan = 4;
  cell.textContent = 'Nobody has counted this yet. You could be the first.';
  row.className = 'rest';
  row.append(cell);
  return row;
}
