/** What the page shows of the node that serves it. */
export interface NodeStatus {
  /** Whether this page may cut the node's links. */
  demo: boolean;
  /** Whether they are cut now. */
  cut: boolean;
  /** The id under which the node writes in this space. */
  writer: string | undefined;
}

/** Someone the node has a link with. */
export interface PeerRow {
  /** A libp2p peer id, or the node's own name for a tab. */
  id: string;
  /** Another node, or a tab. */
  kind: 'node' | 'tab';
}

interface StatusAnswer {
  demo?: boolean;
  cut?: boolean;
  spaces?: { space: string; writer: string }[];
}

interface PeersAnswer {
  peers: { peer: string; kind: string; space: string }[];
}

interface ReadAnswer {
  counters: { key: string; value?: string | null }[];
}

interface AuditAnswer {
  counters: { key: string; shards: { total: string }[] }[];
}

const TIMEOUT_MS = 4_000;

/** The HTTP side of the node, as far as the page needs it. */
export class Node {
  readonly #origin: string;
  readonly #space: string;

  constructor(origin: string, space: string) {
    this.#origin = origin;
    this.#space = space;
  }

  /** Asks how the node is. */
  async status(): Promise<NodeStatus> {
    const { demo = false, cut = false, spaces = [] } = await this.#ask<StatusAnswer>('/v1/status');
    return { demo, cut, writer: spaces.find(({ space }) => space === this.#space)?.writer };
  }

  /** Asks whom the node talks with about this space. */
  async peers(): Promise<PeerRow[]> {
    const { peers } = await this.#ask<PeersAnswer>('/v1/peers');
    return peers
      .filter(({ space }) => space === this.#space)
      .map(({ peer, kind }) => ({ id: peer, kind: kind === 'libp2p' ? 'node' : 'tab' }));
  }

  /** Asks what a counter is at the node; `undefined` when it is absent. */
  async counter(key: string): Promise<bigint | undefined> {
    const path = `/v1/spaces/${encodeURIComponent(this.#space)}/read`;
    const body = JSON.stringify({ keys: [key] });
    const { counters } = await this.#ask<ReadAnswer>(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    const value = counters[0]?.value;
    return value === undefined || value === null ? undefined : BigInt(value);
  }

  /** Asks what a counter is at a node that this one is connected to; `undefined` when it is absent there. */
  async counterAt(peer: string, key: string): Promise<bigint | undefined> {
    const query = new URLSearchParams({ prefix: key, peer });
    const { counters } = await this.#ask<AuditAnswer>(`/v1/spaces/${encodeURIComponent(this.#space)}/audit?${query}`);
    // By key, so one with just this key is the first.
    const [first] = counters;
    return first?.key === key ? first.shards.reduce((sum, { total }) => sum + BigInt(total), 0n) : undefined;
  }

  /** Cuts the node's links, or that to one peer, or heals them. */
  async cut(cut: boolean, peer?: string): Promise<void> {
    await this.#ask('/v1/demo/cut', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ cut, peer }),
    });
  }

  async #ask<T>(path: string, options: RequestInit = {}): Promise<T> {
    const answer = await fetch(this.#origin + path, { ...options, signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
    return (await answer.json()) as T;
  }
}
