import type { Replica, Shard } from 'tallymesh';
import { element, isConsole } from '../make.js';
import { Detail, type Source } from './detail.js';
import { Faults } from './faults.js';
import { Grid } from './grid.js';
import { withTicket, type Place, type Problem, type State, type WorkerReport, type WorkerRequest } from './messages.js';
import { Peers } from './peers.js';
import { Asker } from './question.js';
import type { Sort, View } from './rows.js';
import { Tiles } from './tiles.js';
import { Watch, type Looked } from './watch.js';
import { span, whole } from './words.js';
import { atNode, atPage, Refused } from './writes.js';

declare const WORKER_FILE: string;

/** Where the ticket is kept that was given: in this tab, as long as it is open. */
const TICKET = 'tallymesh-ticket';

/** The console of a node, or, where there is none, of the page's own replica. */
export class Console {
  readonly #replica: Replica;
  /** Where the node is; `undefined` where there is none. */
  readonly #origin: string | undefined;
  readonly #worker: Worker;
  readonly #grid: Grid;
  readonly #detail: Detail;
  readonly #asker = new Asker();
  readonly #watch: Watch | undefined;
  readonly #root = element('console');
  readonly #status = element('ledger-status');
  readonly #find = element<HTMLInputElement>('find');
  readonly #spaces = element<HTMLSelectElement>('space');
  readonly #tiles = new Tiles(element('tiles'));
  readonly #peers = new Peers(element('peer-rows'), element('members'), element('member-rows'));
  readonly #faults = new Faults(element('fault-verdict'), element('fault-events'), element('refusal-rows'));
  #space: string;
  #view: View = { prefix: '', sort: 'key', descending: false };
  #asked = '';
  #chosen: string | undefined;
  #before: Looked | undefined;
  #known = 0;
  /** How often a space was opened. The worker numbers its answers by it. */
  #opening = 0;

  constructor(replica: Replica, origin: string | undefined) {
    this.#replica = replica;
    this.#origin = origin;
    this.#space = replica.space;
    this.#worker = new Worker(new URL(WORKER_FILE, import.meta.url), { type: 'module', name: 'counters' });
    this.#worker.onmessage = ({ data }: MessageEvent<WorkerReport>) => this.#told(data);
    this.#grid = new Grid(element('grid'), element('grid-body'), {
      choose: (key, opened) => this.#choose(key, opened),
      moved: () => this.#look(),
    });
    this.#detail = new Detail(this.#asker, (key, value) => this.#ask({ do: 'tell', counters: [[key, value]] }));
    this.#faults.clear();
    this.#controls();
    this.#open(this.#space);
    if (origin !== undefined) {
      this.#watch = new Watch(origin, (looked) => this.#looked(looked));
      this.#watch.ticket = this.#place?.ticket;
    } else this.#tellOwn();
    document.addEventListener('visibilitychange', () => this.wake(isConsole()));
  }

  /** Goes on, or rests while nobody looks. */
  wake(awake: boolean): void {
    const looked = awake && !document.hidden;
    this.#watch?.wake(looked);
    this.#ask({ do: 'rest', resting: !looked });
    if (looked) this.#look();
  }

  #ask(asked: WorkerRequest): void {
    this.#worker.postMessage(asked);
  }

  #open(space: string): void {
    this.#space = space;
    this.#chosen = undefined;
    this.#before = undefined;
    this.#opening += 1;
    this.#ask({ do: 'open', place: this.#place, opening: this.#opening });
    this.#detail.use(this.#source());
    this.#grid.show(0, [], 0);
    this.#restart();
  }

  get #place(): Place | undefined {
    if (this.#origin === undefined) return undefined;
    return { origin: this.#origin, space: this.#space, ticket: sessionStorage.getItem(TICKET) ?? undefined };
  }

  #source(): Source {
    const place = this.#place;
    if (!place) return { write: atPage(this.#replica), shards: async (key) => this.#replica.shards(key), self: () => this.#replica.writer };
    return { write: atNode(place), shards: (key) => shardsOf(place, key), self: () => this.#own()?.writer };
  }

  /** Asks for a ticket, and begins again with it. */
  #askTicket(): void {
    this.#asker.ask({
      title: 'Show a ticket',
      text: 'This node lets in who has one. A member makes it with “tallymesh invite --role editor”. It is kept in this tab until that is closed.',
      deed: 'Show it',
      destroys: false,
      fields: [{ name: 'ticket', label: 'Ticket', value: '' }],
      act: async ({ ticket = '' }) => {
        if (!/^[\w.-]+$/.test(ticket)) throw new Refused({ code: 'ticket', detail: 'This is no ticket: one is a long line of letters, digits, dots, dashes and underscores.' });
        sessionStorage.setItem(TICKET, ticket);
        if (this.#watch) this.#watch.ticket = ticket;
        this.#open(this.#space);
        this.wake(true);
      },
    });
  }

  /** Tells the worker what the page's own replica has. */
  #tellOwn(): void {
    this.#ask({ do: 'tell', counters: this.#replica.list() });
    let changed = new Map<string, bigint | undefined>();
    this.#replica.subscribe({ prefix: '' }, (value, key) => {
      if (changed.size === 0) {
        requestAnimationFrame(() => {
          this.#ask({ do: 'tell', counters: [...changed] });
          changed = new Map();
        });
      }
      changed.set(key, value);
    });
  }

  #told(told: WorkerReport): void {
    // An answer that was under way when another space was opened is about the space before.
    if (told.opening !== this.#opening) return;
    if (told.kind === 'news') return this.#faults.tell(told.name, told.data, told.at);
    const { from, rows, count, known, state, partial, chosen } = told;
    this.#known = known;
    this.#grid.show(from, rows, count);
    if (this.#chosen === undefined && rows[0] && from === 0) this.#choose(rows[0].key, false);
    if (chosen === undefined || chosen.key === this.#chosen) this.#detail.show(chosen);
    element('grid-none').hidden = count > 0 || state === 'reading';
    element('grid-none-text').textContent = this.#view.prefix === '' ? 'There is no counter yet.' : `No counter begins with “${this.#view.prefix}”.`;
    element('grid-none-create').hidden = this.#view.prefix === '';
    element('grid-none-create').textContent = `Create “${this.#view.prefix}”`;
    this.#say(count, state, partial);
  }

  #say(count: number, state: State, partial: boolean): void {
    const counters = count === 1 ? '1 counter' : `${whole(count)} counters`;
    let text: string;
    if (typeof state === 'object') text = `${state.code}: ${state.detail}`;
    else if (state === 'waiting') text = 'The node is out of reach. Trying again.';
    else if (state === 'reading') text = `Reading: ${counters} so far.`;
    else if (partial) text = `The first ${whole(this.#known)} of more. Type the beginning of a name to find others.`;
    else text = this.#view.prefix === '' ? counters : `${counters} of ${whole(this.#known)}`;
    if (state === 'live' && this.#grid.held && this.#view.sort !== 'key') text += '. Order held while your hand is on it';
    if (this.#status.textContent !== text) this.#status.textContent = text;
    this.#status.dataset['state'] = typeof state === 'object' ? 'refused' : state;
    element('give-ticket').hidden = typeof state !== 'object' || !state.code.startsWith('ticket');
  }

  #look(): void {
    const { from, to } = this.#grid.range;
    this.#ask({ do: 'look', look: { ...this.#view, from, to, held: this.#grid.held } });
  }

  #choose(key: string, opened: boolean): void {
    if (key !== this.#chosen) {
      this.#chosen = key;
      this.#ask({ do: 'choose', key });
    }
    this.#grid.mark(key);
    if (!opened) return;
    // On a narrow screen the counter takes the place of the list.
    this.#root.dataset['open'] = 'true';
    if (getComputedStyle(element('ledger-list')).display === 'none') element('detail-title').focus();
  }

  #restart(): void {
    this.#grid.restart();
    this.#look();
  }

  #sortBy(sort: Sort): void {
    const descending = this.#view.sort === sort ? !this.#view.descending : sort !== 'key';
    this.#view = { ...this.#view, sort, descending };
    for (const button of document.querySelectorAll<HTMLElement>('#grid-head button')) {
      const own = button.dataset['sort'] === sort;
      const head = button.closest('[role="columnheader"]');
      if (own) head?.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
      else head?.removeAttribute('aria-sort');
    }
    this.#restart();
  }

  #controls(): void {
    this.#find.addEventListener('input', () => {
      this.#view = { ...this.#view, prefix: this.#find.value };
      this.#restart();
    });
    this.#find.addEventListener('keydown', (event) => {
      if (event.key !== 'ArrowDown') return;
      event.preventDefault();
      this.#grid.focus();
    });
    element('find-form').addEventListener('submit', (event) => event.preventDefault());
    for (const button of document.querySelectorAll<HTMLElement>('#grid-head button')) {
      button.addEventListener('click', () => this.#sortBy(button.dataset['sort'] as Sort));
    }
    const create = (): void => this.#detail.create(this.#view.prefix, (key) => this.#choose(key, true));
    element('new-counter').addEventListener('click', create);
    element('grid-none-create').addEventListener('click', create);
    element('detail-back').addEventListener('click', () => {
      delete this.#root.dataset['open'];
      this.#grid.focus();
    });
    element('give-ticket').addEventListener('click', () => this.#askTicket());
    this.#spaces.addEventListener('change', () => this.#open(this.#spaces.value));
    document.addEventListener('keydown', (event) => {
      if (event.key !== '/' || !isConsole() || event.ctrlKey || event.metaKey || (event.target as Element).closest('input, select, dialog')) return;
      event.preventDefault();
      this.#find.focus();
    });
  }

  #own() {
    return this.#before?.status.spaces.find(({ space }) => space === this.#space);
  }

  #looked(looked: Looked | Problem): void {
    const notice = element('console-notice');
    notice.hidden = !('code' in looked);
    if ('code' in looked) {
      notice.textContent = `${looked.code}: ${looked.detail}`;
      return;
    }
    const before = this.#before;
    this.#before = looked;
    const { status, peers, figures } = looked;
    const own = this.#own();
    const here = peers.filter(({ space }) => space === this.#space);
    const nodes = here.filter(({ kind }) => kind === 'libp2p').length;
    this.#tiles.show({ before: before?.figures, now: figures, space: own, nodes, pages: here.length - nodes });
    this.#peers.show(here, own?.membership?.members, figures.at);
    const upFor = span(Math.max(Number(status.time) - Number(status.started), 0) / 1_000);
    this.#faults.show(own, figures, upFor);
    const about = `Node ${status.peer_id.slice(-8)}, version ${status.version}, up for ${upFor}, durability ${status.durability}.`;
    if (element('console-about').textContent !== about) element('console-about').textContent = about;
    this.#offer(status.spaces.map(({ space }) => space));
  }

  /** Offers the spaces of the node. */
  #offer(spaces: readonly string[]): void {
    const names = spaces.join();
    if (names === this.#asked) return;
    this.#asked = names;
    this.#spaces.replaceChildren(...spaces.map((space) => new Option(space, space, space === this.#space, space === this.#space)));
    element('space-choice').hidden = spaces.length < 2;
  }
}

async function shardsOf({ origin, space, ticket }: Place, key: string): Promise<Shard[]> {
  // Addresses with these are taken for other addresses by browsers.
  if (key === '.' || key === '..') return [];
  const answer = await fetch(`${origin}/v1/spaces/${encodeURIComponent(space)}/counters/${encodeURIComponent(key)}/shards`, { headers: withTicket(ticket) });
  if (!answer.ok) return [];
  const { shards } = (await answer.json()) as { shards: { writer: string; clock: string; total: string }[] };
  return shards.map(({ writer, clock, total }) => ({ writer, clock: BigInt(clock), total: BigInt(total) }));
}
