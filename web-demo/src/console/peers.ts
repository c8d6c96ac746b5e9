import { make } from '../make.js';
import { short } from '../writers.js';
import { bytes, span } from './words.js';
import type { Flow, MemberRow, PeerRow } from './watch.js';

const STATES = { greeting: 'greeting', pulling: 'catching up', ready: 'up to date' };
const KINDS = { libp2p: 'node', websocket: 'page', post: 'worker' };
/** Rows beyond these are only counted: a node may serve a thousand pages. */
const ROWS_MAX = 50;
const COLUMNS = 7;

/** Who the node talks with, and how far behind they are. */
export class Peers {
  readonly #rows: HTMLElement;
  readonly #members: HTMLElement;
  readonly #memberRows: HTMLElement;
  #before = new Map<number, { at: number; down: number; up: number }>();

  constructor(rows: HTMLElement, members: HTMLElement, memberRows: HTMLElement) {
    this.#rows = rows;
    this.#members = members;
    this.#memberRows = memberRows;
  }

  show(peers: readonly PeerRow[], members: readonly MemberRow[] | undefined, at: number): void {
    const order = [...peers].sort((a, b) => Number(a.kind !== 'libp2p') - Number(b.kind !== 'libp2p') || a.link - b.link);
    const rows = order.slice(0, ROWS_MAX).map((peer) => this.#row(peer, at));
    if (peers.length > ROWS_MAX) rows.push(alone(`and ${peers.length - ROWS_MAX} more`, COLUMNS));
    if (peers.length === 0) rows.push(alone('Nobody is connected.', COLUMNS));
    this.#rows.replaceChildren(...rows);
    this.#before = new Map(peers.map((peer) => [peer.link, { at, ...carried(peer) }]));
    this.#members.hidden = !members;
    this.#memberRows.replaceChildren(...(members ?? []).map(member));
  }

  #row(peer: PeerRow, at: number): HTMLElement {
    const about = peer.node?.about;
    const id = peer.kind === 'libp2p' ? short(peer.peer.slice(-8)) : peer.peer;
    const name = make('th', 'peer', make('b', '', id), make('span', 'soft', ` ${KINDS[peer.kind]}`));
    name.scope = 'row';
    name.title = [peer.peer, peer.agent].filter(Boolean).join(', ');
    const state = make('td', 'state', STATES[peer.state]);
    state.dataset['state'] = peer.state;
    const offset = about?.clock_offset_ms;
    return make(
      'tr',
      '',
      name,
      state,
      cell(ago(peer.last_heard_ms)),
      cell(about?.rtt_us === undefined ? '–' : span(about.rtt_us / 1e6)),
      cell(offset === undefined ? '–' : offset === 0 ? 'even' : `${span(Math.abs(offset) / 1_000)} ${offset > 0 ? 'ahead' : 'behind'}`),
      ...this.#traffic(peer, at).map(cell),
    );
  }

  #traffic(peer: PeerRow, at: number): [string, string] {
    const before = this.#before.get(peer.link);
    if (!before || at <= before.at) return ['–', '–'];
    const { down, up } = carried(peer);
    const speed = (now: number, then: number): string => `${bytes((Math.max(now - then, 0) * 1_000) / (at - before.at))}/s`;
    return [speed(down, before.down), speed(up, before.up)];
  }
}

/** Bytes that came from a peer and went there: of a node over all protocols, in all spaces, as pushes come over no link of one. */
function carried({ node, bytes_in, bytes_out }: PeerRow): { down: number; up: number } {
  const flows = Object.values(node?.traffic ?? { link: { bytes_in, bytes_out } });
  const all = (read: (flow: Flow) => number | undefined): number => flows.reduce((sum, flow) => sum + (read(flow) ?? 0), 0);
  return { down: all((flow) => flow.bytes_in), up: all((flow) => flow.bytes_out) };
}

function member({ owner, behind, own, unsure, last_heard_ms }: MemberRow): HTMLElement {
  const name = make('th', 'peer', make('b', '', short(owner)), make('span', 'soft', own ? ' this node' : ''));
  name.scope = 'row';
  name.title = owner;
  const state = make('td', 'state', behind === '0' ? 'all' : behind === '1' ? 'all but 1 change' : `all but ${behind} changes`);
  state.dataset['state'] = behind === '0' && !unsure ? 'ready' : 'pulling';
  return make('tr', '', name, state, cell(own ? 'always' : ago(last_heard_ms)));
}

function ago(ms: number | null): string {
  return ms === null ? 'never' : ms < 100 ? 'just now' : `${span(ms / 1_000)} ago`;
}

function cell(text: string): HTMLElement {
  return make('td', 'num', text);
}

function alone(text: string, columns: number): HTMLElement {
  const only = make('td', 'soft', text);
  only.colSpan = columns;
  return make('tr', '', only);
}
