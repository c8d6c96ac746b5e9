import { make } from '../make.js';
import { quantile, rate, sum, type Reading } from './figures.js';
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

const FIGURES: readonly Figure[] = [
  {
    name: 'Counters',
    read: ({ space }) => ({
      text: whole(space?.counters ?? 0),
      more: `${brief(space?.shards ?? 0)} shards of ${space?.writers ?? 0} writers`,
      point: undefined,
    }),
  },
  {
    name: 'Operations a second',
    read({ before, now }) {
      const adds = rate(before, now, 'tallymesh_adds_total');
      const others = rate(before, now, 'tallymesh_operations_total');
      return { text: brief(adds + others), more: `${brief(sum(now, 'tallymesh_adds_total') + sum(now, 'tallymesh_operations_total'))} since the start`, point: adds + others };
    },
  },
  {
    name: 'Merged from others a second',
    read({ before, now }) {
      const merged = rate(before, now, 'tallymesh_shards_merged_total');
      return { text: brief(merged), more: `${brief(sum(now, 'tallymesh_shards_merged_total'))} shards since the start`, point: merged };
    },
  },
  {
    name: 'Sync traffic',
    read({ before, now }) {
      const [down, up] = [rate(before, now, 'tallymesh_frame_bytes_in_total'), rate(before, now, 'tallymesh_frame_bytes_out_total')];
      return { text: `${bytes(down + up)}/s`, more: `${bytes(down)}/s in, ${bytes(up)}/s out`, point: down + up };
    },
  },
  {
    name: 'Commits, 99 of 100',
    read({ before, now }) {
      const slow = quantile(before, now, 'tallymesh_commit_seconds', 0.99);
      return { text: took(slow), more: `${brief(rate(before, now, 'tallymesh_commits_total'))} durable commits a second`, point: slow === undefined || slow === Infinity ? 0 : slow };
    },
  },
  {
    name: 'Requests, 99 of 100',
    read({ before, now }) {
      const slow = quantile(before, now, 'tallymesh_http_request_duration_seconds', 0.99);
      return { text: took(slow), more: `${brief(rate(before, now, 'tallymesh_http_requests_total'))} over HTTP a second`, point: slow === undefined || slow === Infinity ? 0 : slow };
    },
  },
  {
    name: 'Links',
    read: ({ nodes, pages }) => ({ text: whole(nodes + pages), more: `${nodes === 1 ? '1 node' : `${nodes} nodes`}, ${pages === 1 ? '1 page' : `${pages} pages`}`, point: undefined }),
  },
  {
    name: 'Memory',
    read({ now }) {
      const memory = sum(now, 'process_resident_memory_bytes');
      const disk = sum(now, 'tallymesh_data_bytes');
      const free = sum(now, 'tallymesh_disk_free_bytes');
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
