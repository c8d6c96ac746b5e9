import { connect, open, TallymeshError, type Connection, type Replica } from 'tallymesh';
import wasm from 'tallymesh/tallymesh.wasm';
import membersModule from 'tallymesh/tallymesh-members.wasm';
import { broadcastChannel } from 'tallymesh/transports';
import type { Console } from './console/console.js';
import { Counters } from './counters.js';
import { element, isConsole } from './make.js';
import { NetworkPanel } from './network.js';
import { Node } from './node.js';
import { OutsideWorld } from './outside.js';
import { ShardTable } from './shards.js';
import { Stage, watchedSocket } from './stage/stage.js';
import { Player } from './stories/player.js';

declare global {
  interface Window {
    /** The page's replica, for tests and for the curious. */
    tallymesh: Replica;
    /** The stage, likewise. */
    stage: Stage;
  }
}

const COUNTERS = ['likes', 'views', 'votes'];

const space = new URLSearchParams(location.search).get('space') ?? 'default';

/** A page on a static host has no node behind it: it counts with its replicas and with other tabs. */
const isStatic = document.documentElement.dataset['node'] === 'none';

/** Files lie beside this script, wherever the page is put. */
const beside = (file: unknown): URL => new URL(file as string, import.meta.url);

try {
  start(await open({ space, module: beside(wasm), membersModule: beside(membersModule) }));
} catch (error) {
  const pill = element('link');
  pill.dataset.state = 'waiting';
  pill.textContent = error instanceof TallymeshError ? error.message : 'This page could not start.';
  throw error;
}

function start(replica: Replica): void {
  window.tallymesh = replica;
  let outside: OutsideWorld | undefined;
  const connection = isStatic
    ? broadcastChannel('tallymesh-page')(replica)
    : connect(replica, location.origin, { paused: isConsole(), retryMaxMs: 4_000, WebSocket: watchedSocket((out, bytes) => outside?.passed(out, bytes)) });
  const node = isStatic ? undefined : new Node(location.origin, space);

  let chosen = COUNTERS[0] ?? 'likes';
  const table = new ShardTable(replica, element('why-key'), element('shards'), element('shard-sum'));
  const choose = (key: string): void => {
    chosen = key;
    counters.mark(key);
    table.show(key);
  };
  const counters = new Counters(replica, element('cards'), choose);
  for (const key of COUNTERS) counters.pin(key);
  choose(chosen);

  // A page that comes back from the browser's cache goes on, under another id.
  let hidden = false;
  addEventListener('pagehide', () => {
    hidden = replica.leave();
  });
  addEventListener('pageshow', () => {
    if (hidden) connection.resume();
    hidden = false;
  });

  const stage = (window.stage = new Stage(space, replica.writer));
  new Player();
  outside = new OutsideWorld(stage, replica, connection, node);
  const panel = new NetworkPanel(replica, connection, node, networkElements(), (status, peers) => {
    outside?.seen(status, peers);
    if (!status.writer || table.nodeWriter === status.writer) return;
    table.nodeWriter = status.writer;
    table.show(chosen);
  });
  whenChanged(replica, (keys) => {
    for (const key of keys) counters.refresh(key);
    counters.mark(chosen);
    if (keys.has(chosen)) table.show(chosen);
    panel.showTab();
  });
  switchViews(replica, connection);
  listenToForm(replica, (key) => {
    counters.pin(key);
    choose(key);
  });
}

/**
 * Shows the view that the address names: the demonstration or the console, which is loaded when it is first looked at. The
 * console asks the node; so whoever opens only that is no replica of the node's counters, and takes none of them over.
 */
function switchViews(replica: Replica, connection: Connection): void {
  let opened: Promise<Console> | undefined;
  let apart = !isStatic && isConsole();
  const show = async (): Promise<void> => {
    const wanted = isConsole();
    if (apart && !wanted) {
      apart = false;
      connection.resume();
    }
    element(wanted ? 'to-console' : 'to-demo').setAttribute('aria-current', 'page');
    element(wanted ? 'to-demo' : 'to-console').removeAttribute('aria-current');
    if (wanted) opened ??= import('./console/console.js').then(({ Console }) => new Console(replica, isStatic ? undefined : location.origin));
    (await opened)?.wake(isConsole());
  };
  addEventListener('hashchange', () => {
    scrollTo(0, 0);
    void show();
  });
  void show();
}

/** Gathers changes and shows them once a frame, however many there are. */
function whenChanged(replica: Replica, show: (keys: ReadonlySet<string>) => void): void {
  let keys = new Set<string>();
  replica.subscribe({ prefix: '' }, (_, key) => {
    if (keys.size === 0) {
      requestAnimationFrame(() => {
        const changed = keys;
        keys = new Set();
        show(changed);
      });
    }
    keys.add(key);
  });
}

function listenToForm(replica: Replica, added: (key: string) => void): void {
  const form = element<HTMLFormElement>('own');
  const input = element<HTMLInputElement>('own-key');
  const complaint = element('own-complaint');
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const key = input.value.trim();
    if (!key) return;
    try {
      replica.add(key);
      complaint.textContent = '';
      form.reset();
      added(key);
    } catch (error) {
      if (!(error instanceof TallymeshError)) throw error;
      complaint.textContent = error.message;
    }
  });
}

function networkElements() {
  return {
    pill: element('link'),
    mesh: element<SVGElement>('mesh'),
    tabSwitch: element<HTMLButtonElement>('cut-tab'),
    tabHint: element('tab-hint'),
    nodeRow: element('node-row'),
    nodeSwitch: element<HTMLButtonElement>('cut-node'),
    nodeHint: element('node-hint'),
    atWork: element('at-work'),
    peers: element('peers'),
  };
}
