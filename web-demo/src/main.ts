import { connect, open, TallymeshError, type Replica } from 'tallymesh';
import wasm from 'tallymesh/tallymesh.wasm';
import membersModule from 'tallymesh/tallymesh-members.wasm';
import { Counters } from './counters.js';
import { NetworkPanel } from './network.js';
import { Node } from './node.js';
import { ShardTable } from './shards.js';

declare global {
  interface Window {
    /** The page's replica, for tests and for the curious. */
    tallymesh: Replica;
  }
}

const COUNTERS = ['likes', 'views', 'votes'];

const space = new URLSearchParams(location.search).get('space') ?? 'default';

try {
  start(await open({ space, module: wasm, membersModule }));
} catch (error) {
  const pill = element('link');
  pill.dataset.state = 'waiting';
  pill.textContent = error instanceof TallymeshError ? error.message : 'This page could not start.';
  throw error;
}

function start(replica: Replica): void {
  window.tallymesh = replica;
  const connection = connect(replica, location.origin, { retryMaxMs: 4_000 });

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

  const panel = new NetworkPanel(replica, connection, new Node(location.origin, space), networkElements(), (writer) => {
    if (table.nodeWriter === writer) return;
    table.nodeWriter = writer;
    table.show(chosen);
  });
  whenChanged(replica, (keys) => {
    for (const key of keys) counters.refresh(key, replica.get(key));
    counters.mark(chosen);
    if (keys.has(chosen)) table.show(chosen);
    panel.showTab();
  });
  listenToForm(replica, (key) => {
    counters.pin(key);
    choose(key);
  });
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
    mesh: document.querySelector<SVGElement>('#mesh')!,
    tabSwitch: element<HTMLButtonElement>('cut-tab'),
    tabHint: element('tab-hint'),
    nodeRow: element('node-row'),
    nodeSwitch: element<HTMLButtonElement>('cut-node'),
    nodeHint: element('node-hint'),
    peers: element('peers'),
  };
}

function element<T extends HTMLElement = HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}
