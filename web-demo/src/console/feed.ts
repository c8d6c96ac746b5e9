import { withTicket, type Place, type Problem, type State } from './messages.js';
import type { Rows } from './rows.js';
import { Stream, type StreamEvent } from './stream.js';

/** The first page is short, so that there is something to see at once. */
const FIRST_PAGE = 200;
const PAGE = 5_000;
/** More counters than these are not taken in: a longer prefix finds the others. */
const ROWS_MAX = 250_000;
const AGAIN_MS = 2_000;
interface Listed {
  readonly counters: readonly { readonly key: string; readonly value: string; readonly expires_at?: string }[];
  readonly next?: string | null;
}

/** Reads all counters of a space from a node, page by page, and their changes as they come. */
export class Feed {
  readonly #base: string;
  readonly #headers: Record<string, string>;
  readonly #stream: Stream;
  readonly #rows: Rows;
  readonly #changed: () => void;
  readonly #news: (name: string, data: Record<string, unknown>) => void;
  /** Only counters with this prefix are read, if there are too many. */
  #prefix = '';
  /** The last key that was read, if there are more. */
  #end: string | undefined;
  #listing = 0;
  #complete = false;
  state: State = 'reading';

  constructor(
    { origin, space, ticket }: Place,
    rows: Rows,
    changed: () => void,
    news: (name: string, data: Record<string, unknown>) => void,
  ) {
    this.#base = `${origin}/v1/spaces/${encodeURIComponent(space)}`;
    this.#headers = withTicket(ticket);
    this.#rows = rows;
    this.#changed = changed;
    this.#news = news;
    this.#stream = new Stream(`${this.#base}/events`, this.#headers, {
      // The list comes after the stream was opened: what changes while it is read is heard of.
      opened: () => (this.#listing === 0 ? void this.#list() : this.#complete && this.#say('live')),
      heard: (event) => this.#heard(event),
      ended: (problem) => (this.#complete || this.#listing === 0) && this.#say(problem ?? 'waiting'),
    });
    this.#stream.start();
  }

  /** Whether the node has more than was read. */
  get partial(): boolean {
    return this.#end !== undefined;
  }

  /** Reads others, if those with this prefix may not be here. */
  want(prefix: string): void {
    if (prefix.startsWith(this.#prefix) && (!this.partial || prefix === this.#prefix)) return;
    if (this.#prefix === '' && !this.partial) return;
    this.#prefix = prefix;
    this.#rows.clear();
    void this.#list();
  }

  /** Keeps no stream open while nobody looks: browsers have few connections for all tabs of an origin. */
  rest(resting: boolean): void {
    if (resting) this.#stream.stop();
    else this.#stream.start();
  }

  close(): void {
    this.#listing++;
    this.#stream.stop();
  }

  async #list(): Promise<void> {
    const listing = ++this.#listing;
    const prefix = this.#prefix;
    const begun = Date.now();
    this.#complete = false;
    this.#end = undefined;
    this.#say('reading');
    let after: string | undefined;
    let read = 0;
    do {
      const asked = Date.now();
      const page = await this.#page(prefix, after, after === undefined ? FIRST_PAGE : PAGE);
      if (listing !== this.#listing) return;
      if (!page) {
        setTimeout(() => listing === this.#listing && void this.#list(), AGAIN_MS);
        return;
      }
      for (const { key, value, expires_at } of page.counters) {
        this.#rows.list(key, BigInt(value), expires_at === undefined ? undefined : Number(expires_at), asked, listing);
      }
      read += page.counters.length;
      after = page.next ?? undefined;
      this.#changed();
    } while (after !== undefined && read < ROWS_MAX);
    this.#end = after;
    if (!this.partial) this.#rows.listed(listing, begun);
    this.#complete = true;
    this.#say(this.#stream.open ? 'live' : 'waiting');
  }

  async #page(prefix: string, after: string | undefined, limit: number): Promise<Listed | undefined> {
    const query = new URLSearchParams({ prefix, limit: String(limit) });
    if (after !== undefined) query.set('after', after);
    try {
      const answer = await fetch(`${this.#base}/counters?${query}`, { headers: this.#headers });
      if (answer.ok) return (await answer.json()) as Listed;
      this.#say((await answer.json()) as Problem);
    } catch {
      this.#say('waiting');
    }
    return undefined;
  }

  #heard({ name, data }: StreamEvent): void {
    if (name === '') return this.#change(data);
    if (name === 'skipped') return void this.#list();
    this.#news(name, JSON.parse(data) as Record<string, unknown>);
  }

  #change(data: string): void {
    const { key, value, expires_at } = JSON.parse(data) as { key: string; value: string | null; expires_at?: string };
    if (!key.startsWith(this.#prefix) || (this.#end !== undefined && key > this.#end)) return;
    this.#rows.tell(key, value === null ? undefined : BigInt(value), expires_at === undefined ? undefined : Number(expires_at), Date.now(), this.#complete);
    this.#changed();
  }

  #say(state: State): void {
    this.state = state;
    this.#changed();
  }
}
