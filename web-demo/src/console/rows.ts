/** What the console keeps of one counter. */
export interface Row {
  readonly key: string;
  /** `undefined` once it is absent. */
  value: bigint | undefined;
  /** When it was first seen here, in milliseconds of the page's clock. */
  readonly seen: number;
  /** When it changed last, as far as was seen here; 0 if it was not seen to. */
  changed: number;
  /** When it expires, in milliseconds since 1970. */
  expires: number | undefined;
  /** The listing that brought it last. */
  listing: number;
  /** What it changed by in each of the last buckets, in a ring, up to `bucket`. */
  ring: Float64Array | undefined;
  bucket: number;
  history: History | undefined;
}

/** The values of a counter at the times at which they changed; `null` while it was absent. */
export interface History {
  readonly times: number[];
  readonly values: (number | null)[];
}

/** By what rows are sorted. */
export type Sort = 'key' | 'value' | 'recent';

/** Which rows are looked at, and in which order. */
export interface View {
  readonly prefix: string;
  readonly sort: Sort;
  readonly descending: boolean;
}

/** A sparkline shows so many buckets of so many milliseconds: the last minute. */
const BUCKETS = 30;
const BUCKET_MS = 2_000;
/** With the one that is not full yet. */
const KEPT = BUCKETS + 1;
/** Over so many buckets a rate is the mean. */
const RATE_BUCKETS = 5;
/** So many points of a history are kept; then the older ones are thinned out. */
const POINTS_MAX = 600;
/** The histories of so many counters are kept: those that changed last. */
const HISTORIES_MAX = 2_000;
const POINT_MS = 1_000;

/** All counters that the console knows: found by prefix, sorted, and with what they did of late. */
export class Rows {
  readonly #all = new Map<string, Row>();
  /** Sorted by key; rows that are gone are in it until the next look. */
  #byKey: Row[] = [];
  /** Those that are not in `#byKey` yet. */
  #fresh: Row[] = [];
  #gone = false;
  #order: Row[] = [];
  #view: View | undefined;
  #stale = true;
  readonly #histories = new Set<Row>();
  /** One whose history is kept, also while it is absent. */
  #chosen: Row | undefined;
  /** Counters that became absent during a listing, which may still bring them. */
  readonly #removed = new Map<string, number>();

  /** How many counters exist. */
  get size(): number {
    return this.#all.size;
  }

  get(key: string): Row | undefined {
    return this.#all.get(key) ?? (this.#chosen?.key === key ? this.#chosen : undefined);
  }

  /** Takes what a listing brings, which was asked for at `asked`: what changed since is newer. */
  list(key: string, value: bigint, expires: number | undefined, asked: number, listing: number): void {
    const row = this.#all.get(key);
    if (!row) {
      if ((this.#removed.get(key) ?? -1) >= asked) return;
      this.#add(key, value, expires, asked).listing = listing;
      return;
    }
    row.listing = listing;
    if (row.changed < asked) this.#change(row, value, expires, asked);
  }

  /** Takes a change. `known` says that a counter of which nothing is known here did not exist before. */
  tell(key: string, value: bigint | undefined, expires: number | undefined, at: number, known: boolean): void {
    const row = this.#all.get(key);
    if (row) return this.#change(row, value, expires, at);
    if (value === undefined) return;
    const made = this.#add(key, value, expires, at);
    made.changed = at;
    if (!known) return;
    this.#count(made, Number(value), at);
    this.#note(made, at, null);
  }

  /** Ends a listing: what it did not bring does not exist. */
  listed(listing: number, at: number): void {
    for (const row of this.#all.values()) if (row.listing < listing && row.changed < at) this.#change(row, undefined, undefined, at);
    this.#removed.clear();
  }

  clear(): void {
    this.#all.clear();
    this.#removed.clear();
    this.#histories.clear();
    this.#byKey = [];
    this.#fresh = [];
    this.#order = [];
    this.#chosen = undefined;
    this.#stale = true;
  }

  /** Keeps the history of one counter, whether it changes or not. */
  choose(key: string | undefined): void {
    this.#chosen = key === undefined ? undefined : this.#all.get(key);
  }

  /** The rows of a view. While they are held, their order stays as it is, unless another view is asked for. */
  order(view: View, held: boolean): readonly Row[] {
    const same = this.#view?.prefix === view.prefix && this.#view.sort === view.sort && this.#view.descending === view.descending;
    if (same && (held || !this.#stale)) return this.#order;
    this.#view = view;
    this.#stale = false;
    this.#settle();
    const from = this.#first((key) => key >= view.prefix);
    const to = this.#first((key) => key.slice(0, view.prefix.length) > view.prefix);
    this.#order = sorted(this.#byKey.slice(from, to), view);
    return this.#order;
  }

  /**
   * What a row did of late: what it changes by, a second, and what it changed by in each of the last full buckets, oldest
   * first; `undefined` if it did not change.
   */
  static lately({ ring, bucket }: Row, now: number): { rate: number; spark: number[] | undefined } {
    const last = Math.floor(now / BUCKET_MS);
    if (!ring || last - bucket >= KEPT) return { rate: 0, spark: undefined };
    const kept = Array.from({ length: KEPT }, (_, index) => {
      const at = last - KEPT + 1 + index;
      return at > bucket || at <= bucket - KEPT ? 0 : ring[at % KEPT]!;
    });
    const span = (RATE_BUCKETS - 1) * BUCKET_MS + (now % BUCKET_MS);
    const rate = (kept.slice(-RATE_BUCKETS).reduce((sum, by) => sum + by, 0) * 1_000) / span;
    return { rate, spark: kept.slice(0, BUCKETS) };
  }

  /** Lets go of what is older than a sparkline shows. */
  sweep(now: number): void {
    const oldest = Math.floor(now / BUCKET_MS) - KEPT;
    for (const row of this.#all.values()) if (row.ring && row.bucket < oldest) row.ring = undefined;
  }

  #add(key: string, value: bigint, expires: number | undefined, at: number): Row {
    const again = this.#chosen?.key === key ? this.#chosen : undefined;
    const row = again ?? { key, value, seen: at, changed: 0, expires, listing: 0, ring: undefined, bucket: 0, history: undefined };
    row.value = value;
    row.expires = expires;
    this.#all.set(key, row);
    this.#fresh.push(row);
    this.#removed.delete(key);
    this.#stale = true;
    return row;
  }

  #change(row: Row, value: bigint | undefined, expires: number | undefined, at: number): void {
    row.expires = expires;
    if (row.value === value) return;
    const before = row.value;
    row.value = value;
    row.changed = at;
    this.#stale = true;
    this.#count(row, Number((value ?? 0n) - (before ?? 0n)), at);
    this.#note(row, at, before);
    if (value !== undefined) return;
    this.#all.delete(row.key);
    this.#removed.set(row.key, at);
    this.#gone = true;
  }

  #count(row: Row, by: number, at: number): void {
    const bucket = Math.floor(at / BUCKET_MS);
    row.ring ??= new Float64Array(KEPT);
    if (bucket - row.bucket >= KEPT) row.ring.fill(0);
    else for (let passed = row.bucket + 1; passed <= bucket; passed++) row.ring[passed % KEPT] = 0;
    row.bucket = Math.max(bucket, row.bucket);
    row.ring[bucket % KEPT]! += by;
  }

  #note(row: Row, at: number, before: bigint | null | undefined): void {
    const history = (row.history ??= { times: [Math.min(row.seen, at - 1)], values: [before === null || before === undefined ? null : Number(before)] });
    const { times, values } = history;
    const now = row.value === undefined ? null : Number(row.value);
    const last = times.length - 1;
    if (last > 0 && Math.floor(times[last]! / POINT_MS) === Math.floor(at / POINT_MS)) values[last] = now;
    else {
      times.push(at);
      values.push(now);
    }
    if (times.length > POINTS_MAX) thin(history);
    this.#histories.delete(row);
    this.#histories.add(row);
    if (this.#histories.size <= HISTORIES_MAX) return;
    for (const oldest of this.#histories) {
      if (oldest === this.#chosen) continue;
      oldest.history = undefined;
      this.#histories.delete(oldest);
      break;
    }
  }

  /** Brings `#byKey` up to date. */
  #settle(): void {
    if (this.#gone) this.#byKey = this.#byKey.filter((row) => this.#all.get(row.key) === row);
    this.#gone = false;
    if (this.#fresh.length === 0) return;
    const fresh = [...new Set(this.#fresh)].filter((row) => this.#all.get(row.key) === row).sort(byKey);
    this.#fresh = [];
    const before = this.#byKey;
    const merged: Row[] = [];
    let next = 0;
    for (const row of fresh) {
      while (next < before.length && before[next]!.key < row.key) merged.push(before[next++]!);
      // One that was gone for a moment is in both.
      if (before[next] === row) next++;
      merged.push(row);
    }
    while (next < before.length) merged.push(before[next++]!);
    this.#byKey = merged;
  }

  /** The place of the first row whose key is so; all before are not. */
  #first(isSo: (key: string) => boolean): number {
    let [from, to] = [0, this.#byKey.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (isSo(this.#byKey[middle]!.key)) to = middle;
      else from = middle + 1;
    }
    return from;
  }
}

function byKey(a: Row, b: Row): number {
  return a.key < b.key ? -1 : a.key > b.key ? 1 : 0;
}

/** Sorts rows that are sorted by key; equal ones stay so. */
function sorted(rows: Row[], { sort, descending }: View): Row[] {
  if (sort === 'key') return descending ? rows.reverse() : rows;
  const way = descending ? -1 : 1;
  if (sort === 'value') {
    return rows.sort((a, b) => {
      const [x, y] = [a.value ?? 0n, b.value ?? 0n];
      return x < y ? -way : x > y ? way : 0;
    });
  }
  // Most did not change: those need no sorting.
  const still = rows.filter(({ changed }) => changed === 0);
  const moved = rows.filter(({ changed }) => changed !== 0).sort((a, b) => way * (a.changed - b.changed));
  return descending ? moved.concat(still) : still.concat(moved);
}

/** Leaves out every second one of the older points. */
function thin({ times, values }: History): void {
  const recent = times.length - Math.floor(POINTS_MAX / 3);
  let kept = 0;
  for (let at = 0; at < times.length; at++) {
    if (at > 0 && at < recent && at % 2 === 1) continue;
    times[kept] = times[at]!;
    values[kept++] = values[at]!;
  }
  times.length = values.length = kept;
}
