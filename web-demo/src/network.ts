import type { Connection, ConnectionState, Replica } from 'tallymesh';
import { isConsole } from './make.js';
import { drawMesh } from './mesh.js';
import { Node, type NodeStatus, type PeerRow } from './node.js';
import { short } from './writers.js';

const POLL_MS = 1_500;

const PILL: Record<ConnectionState, string> = {
  connecting: 'reaching the node',
  online: 'in touch',
  waiting: 'node out of reach',
  paused: 'on its own',
  closed: 'closed',
};

/** The elements that the panel fills. */
export interface NetworkElements {
  pill: HTMLElement;
  mesh: SVGElement;
  tabSwitch: HTMLButtonElement;
  tabHint: HTMLElement;
  nodeRow: HTMLElement;
  nodeSwitch: HTMLButtonElement;
  nodeHint: HTMLElement;
  /** What is said in place of the node's switch where nobody may cut. */
  atWork: HTMLElement;
  peers: HTMLElement;
}

/** The panel with the two switches and the peers. */
export class NetworkPanel {
  readonly #replica: Replica;
  readonly #connection: Connection;
  readonly #node: Node | undefined;
  readonly #at: NetworkElements;
  readonly #seen: (status: NodeStatus, peers: readonly PeerRow[]) => void;
  /** This writer's clock when the tab was last in touch. */
  #clockThen = 0n;
  #nodeCut = false;
  #peers: PeerRow[] = [];

  constructor(
    replica: Replica,
    connection: Connection,
    node: Node | undefined,
    at: NetworkElements,
    seen: (status: NodeStatus, peers: readonly PeerRow[]) => void,
  ) {
    this.#replica = replica;
    this.#connection = connection;
    this.#node = node;
    this.#at = at;
    this.#seen = seen;
    at.tabSwitch.addEventListener('click', () => {
      if (connection.state === 'paused') connection.resume();
      else connection.pause();
    });
    at.nodeSwitch.addEventListener('click', () => void this.#cutNode(!this.#nodeCut));
    connection.subscribe((state) => {
      if (state !== 'online') this.#clockThen = this.#clockThen || replica.status().clock;
      else this.#clockThen = 0n;
      this.showTab();
    });
    this.showTab();
    if (node) void this.#poll();
  }

  /** Shows this tab's own link, and what waits for it. */
  showTab(): void {
    const { state, error } = this.#connection;
    const { pill, tabSwitch, tabHint } = this.#at;
    pill.dataset.state = state;
    pill.textContent = this.#node || (state !== 'connecting' && state !== 'waiting') ? PILL[state] : 'the only tab';
    tabSwitch.setAttribute('aria-checked', String(state !== 'paused'));
    const made = this.#replica.status().clock - this.#clockThen;
    const waiting = made === 1n ? '1 change waits' : `${made} changes wait`;
    if (state === 'online') tabHint.textContent = 'Changes go out as you make them.';
    else if (state === 'paused') tabHint.textContent = made > 0n ? `Cut. ${waiting} here; keep going.` : 'Cut. Keep counting all the same.';
    else if (!this.#node) tabHint.textContent = 'Open this page in another tab: they find each other.';
    else tabHint.textContent = made > 0n ? `Trying to reach the node. ${waiting} here.` : 'Trying to reach the node.';
    tabHint.title = error?.message ?? '';
    this.#draw();
  }

  async #cutNode(cut: boolean): Promise<void> {
    this.#at.nodeSwitch.disabled = true;
    try {
      await this.#node?.cut(cut);
      this.#nodeCut = cut;
    } catch {
      this.#at.nodeHint.textContent = 'The node did not answer. Is it still running?';
    }
    this.#at.nodeSwitch.disabled = false;
    await this.#refresh();
  }

  async #poll(): Promise<void> {
    // Who looks at the console sees nothing of it.
    if (!isConsole()) await this.#refresh();
    setTimeout(() => void this.#poll(), POLL_MS);
  }

  async #refresh(): Promise<void> {
    if (!this.#node) return;
    try {
      const [status, peers] = await Promise.all([this.#node.status(), this.#node.peers()]);
      this.#nodeCut = status.cut;
      this.#peers = peers;
      this.#at.nodeRow.hidden = !status.demo;
      this.#at.atWork.hidden = status.demo;
      this.#seen(status, peers);
      this.#showNode();
    } catch {
      this.#peers = [];
      this.#showPeers('The node does not answer.');
    }
    this.#draw();
  }

  #showNode(): void {
    this.#at.nodeSwitch.setAttribute('aria-checked', String(!this.#nodeCut));
    this.#at.nodeHint.textContent = this.#nodeCut
      ? 'Cut from other nodes and from its tabs.'
      : 'Gossips with nodes, and syncs its tabs.';
    this.#showPeers(this.#nodeCut ? 'Nobody: its links are cut.' : 'Nobody yet.');
  }

  #showPeers(none: string): void {
    const rows = this.#peers.map(({ id, kind }) => {
      const name = span('id', kind === 'node' ? short(id.slice(-8)) : id);
      return item(name, span('via', kind === 'node' ? 'node, libp2p' : 'tab, WebSocket'));
    });
    this.#at.peers.replaceChildren(...(rows.length > 0 ? rows : [item(span('nobody', none))]));
  }

  #draw(): void {
    if (!this.#node) return;
    drawMesh(this.#at.mesh, {
      tab: this.#connection.state === 'online',
      nodeCut: this.#nodeCut,
      nodes: this.#peers.filter(({ kind }) => kind === 'node').map(({ id }) => id),
      tabs: this.#peers.filter(({ kind }) => kind === 'tab').length,
    });
  }
}

function span(name: string, text: string): HTMLSpanElement {
  const made = document.createElement('span');
  made.className = name;
  made.textContent = text;
  return made;
}

function item(...parts: HTMLElement[]): HTMLLIElement {
  const made = document.createElement('li');
  made.append(...parts);
  return made;
}
