import { make } from '../make.js';
import { quantile, rate, sum, type Reading } from './metrics.js';
import { Spark } from './spark.js';
import { brief, bytes, span, whole } from './words.js';
import type { SpaceStatus } from './watch.js';

const POINTS = 60;

/** One figure: what it is called, and how it is read. */
interface Figure {
  readonly name: string;
  read(now: Seen): { text: string; more: string; point: number | undefined };
}

/** All that figures are made from. */
export interface Seen {
  readonly before: Reading | undefined;
  readonly now: Reading;
  readonly space: SpaceStatus | undefined;
  readonly nodes: number;
  readonly pages: number;
}

const took = (seconds: number | undefined): string => (seconds === undefined ? '–' : seconds === Infinity ? 'over 2 s' : `≤ ${span(seconds)}`);

/** A time within which 99 of 100 were done. */
function slowest(name: string, rates: string): (seen: Seen) => { text: string; more: string; point: number } {
  return ({ before, now }) => {
    const time = quantile(before, now, name, 0.99);
    return { text: took(time), more: `99% of ${brief(rate(before, now, rates))} a second`, point: time === undefined || time === Infinity ? 0 : time };
  };
}

const FIGURES: readonly Figure[] = [
  {
    name: 'Counters',
    read: ({ space }) => ({ text: whole(space?.counters ?? 0), more: `${brief(space?.shards ?? 0)} shards, ${space?.writers ?? 0} writers`, point: undefined }),
  },
  {
    name: 'Operations here',
    read({ before, now }) {
      const made = rate(before, now, 'tallymesh_adds_total') + rate(before, now, 'tallymesh_operations_total');
      const all = sum(now, 'tallymesh_adds_total') + sum(now, 'tallymesh_operations_total');
      return { text: `${brief(made)}/s`, more: `${brief(all)} since the start`, point: made };
    },
  },
  {
    name: 'Taken from others',
    read({ before, now }) {
      const merged = rate(before, now, 'tallymesh_shards_merged_total');
      return { text: `${brief(merged)}/s`, more: `${brief(sum(now, 'tallymesh_shards_merged_total'))} shards in all`, point: merged };
    },
  },
  {
    name: 'Sync traffic',
    read({ before, now }) {
      const [down, up] = [rate(before, now, 'tallymesh_frame_bytes_in_total'), rate(before, now, 'tallymesh_frame_bytes_out_total')];
      return { text: `${bytes(down + up)}/s`, more: `${bytes(down)} in, ${bytes(up)} out`, point: down + up };
    },
  },
  { name: 'Durable commits', read: slowest('tallymesh_commit_seconds', 'tallymesh_commits_total') },
  { name: 'HTTP requests', read: slowest('tallymesh_http_request_duration_seconds', 'tallymesh_http_requests_total') },
  {
    name: 'Links',
    read: ({ nodes, pages }) => ({ text: whole(nodes + pages), more: `${nodes === 1 ? '1 node' : `${nodes} nodes`}, ${pages === 1 ? '1 page' : `${pages} pages`}`, point: undefined }),
  },
  {
    name: 'Memory',
    read({ now }) {
      const memory = sum(now, 'process_resident_memory_bytes');
      const [disk, free] = [sum(now, 'tallymesh_data_bytes'), sum(now, 'tallymesh_disk_free_bytes')];
      return { text: memory > 0 ? bytes(memory) : '–', more: free > 0 ? `${bytes(disk)} on disk, ${bytes(free)} free` : 'nothing on disk', point: memory };
    },
  },
];

/** The live figures of the node. */
export class Tiles {
  readonly #drawn: { text: HTMLElement; more: HTMLElement; spark: Spark; points: number[] }[];

  constructor(root: HTMLElement) {
    this.#drawn = FIGURES.map(({ name }) => {
      const [text, more, spark] = [make('dd', 'tile-value', '–'), make('dd', 'tile-more', '\u00a0'), new Spark()];
      const tile = make('div', 'tile', make('dt', 'tile-name', name), text, more);
      tile.append(spark.element);
      root.append(tile);
      return { text, more, spark, points: [] };
    });
  }

  /** Shows the figures by now. */
  show(seen: Seen): void {
    FIGURES.forEach((figure, at) => {
      const { text, more, spark, points } = this.#drawn[at]!;
      const read = figure.read(seen);
      write(text, read.text);
      write(more, read.more);
      if (read.point === undefined) return spark.element.toggleAttribute('hidden', true);
      // A rate takes two readings.
      if (!seen.before) return;
      points.push(read.point);
      if (points.length > POINTS) points.shift();
      spark.show(points.length > 1 ? points : undefined);
    });
  }
}

function write(at: HTMLElement, text: string): void {
  if (at.textContent !== text) at.textContent = text;
}
