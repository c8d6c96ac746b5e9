// All counters of the console, apart from the page: sorting a hundred thousand of them would hold up its hand.
import { Feed } from './feed.js';
import type { Chosen, Look, Shown, WorkerReport, WorkerRequest } from './messages.js';
import { Rows, type Row } from './rows.js';

/** Changes within this time are told together. */
const SOON_MS = 100;
/** Sparklines move on so often. */
const TICK_MS = 1_000;
const SWEEP_MS = 30_000;

const rows = new Rows();
let feed: Feed | undefined;
let look: Look | undefined;
let chosen: string | undefined;
let opening = 0;
let pending = false;

const post = (told: WorkerReport): void => postMessage(told);

function show(): void {
  pending = false;
  if (!look) return;
  const now = Date.now();
  // By key nothing moves but for what is new; and while the list is read it grows.
  const held = look.held && look.sort !== 'key' && feed?.state !== 'reading';
  const order = rows.order(look, held);
  post({
    kind: 'rows',
    opening,
    from: look.from,
    rows: order.slice(look.from, look.to).map((row) => shown(row, now)),
    count: order.length,
    known: rows.size,
    state: feed?.state ?? 'live',
    partial: feed?.partial ?? false,
    chosen: choice(now),
  });
}

function shown(row: Row, now: number): Shown {
  return { key: row.key, value: row.value, ...Rows.lately(row, now) };
}

function choice(now: number): Chosen | undefined {
  const row = chosen === undefined ? undefined : rows.get(chosen);
  if (!row) return undefined;
  const value = row.value === undefined ? null : Number(row.value);
  const { times, values } = row.history ?? { times: [row.seen], values: [value] };
  return {
    ...shown(row, now),
    expires: row.expires,
    changed: row.changed,
    times: [...times, now].map((at) => at / 1_000),
    values: [...values, value],
  };
}

function soon(): void {
  if (pending) return;
  pending = true;
  setTimeout(show, SOON_MS);
}

onmessage = ({ data }: MessageEvent<WorkerRequest>) => {
  switch (data.do) {
    case 'open':
      feed?.close();
      rows.clear();
      chosen = undefined;
      opening = data.opening;
      feed = data.place && new Feed(data.place, rows, soon, (name, news) => post({ kind: 'news', opening, name, data: news, at: Date.now() }));
      return soon();
    case 'look':
      look = data.look;
      feed?.want(look.prefix);
      return show();
    case 'choose':
      chosen = data.key;
      rows.choose(chosen);
      return show();
    case 'tell':
      for (const [key, value] of data.counters) rows.tell(key, value, undefined, Date.now(), true);
      return show();
    case 'rest':
      return feed?.rest(data.resting);
  }
};

setInterval(soon, TICK_MS);
setInterval(() => rows.sweep(Date.now()), SWEEP_MS);
