import { withTicket, type Problem } from './messages.js';
import { parse, type Reading } from './metrics.js';

/** What the node says of a space. */
export interface SpaceStatus {
  readonly space: string;
  readonly writer: string;
  readonly counters: number;
  readonly shards: number;
  readonly writers: number;
  readonly faults: number;
  readonly renewals: number;
  readonly membership?: { readonly members: readonly MemberRow[] };
}

/** A member of the space, as the node sees it. */
export interface MemberRow {
  readonly owner: string;
  readonly behind: string;
  readonly own: boolean;
  readonly unsure: boolean;
  readonly last_heard_ms: number | null;
}

/** What the node says of itself. */
export interface NodeStatus {
  readonly version: string;
  readonly peer_id: string;
  readonly durability: string;
  readonly time: string;
  readonly started: string;
  readonly spaces: readonly SpaceStatus[];
}

/** What one protocol carried. */
export interface Flow {
  readonly bytes_in?: number;
  readonly bytes_out?: number;
}

/** A link of the node in one space. */
export interface PeerRow {
  readonly link: number;
  readonly peer: string;
  readonly kind: 'libp2p' | 'websocket' | 'post';
  readonly space: string;
  readonly state: 'greeting' | 'pulling' | 'ready';
  readonly agent: string | null;
  readonly last_heard_ms: number | null;
  readonly bytes_in: number;
  readonly bytes_out: number;
  readonly node?: { readonly traffic?: Readonly<Record<string, Flow>>; readonly about?: { readonly version?: string; readonly clock_offset_ms?: number; readonly rtt_us?: number } };
}

/** One look at the node. */
export interface Looked {
  readonly status: NodeStatus;
  readonly peers: readonly PeerRow[];
  readonly figures: Reading;
}

const LOOK_MS = 2_000;
const TIMEOUT_MS = 8_000;

/** Looks at the node every two seconds while somebody looks at the page. */
export class Watch {
  readonly #origin: string;
  /** The ticket to show, if one was given. */
  ticket: string | undefined;
  readonly #seen: (looked: Looked | Problem) => void;
  #awake = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(origin: string, seen: (looked: Looked | Problem) => void) {
    this.#origin = origin;
    this.#seen = seen;
  }

  /** Begins to look, or stops. */
  wake(awake: boolean): void {
    if (awake === this.#awake) return;
    this.#awake = awake;
    clearTimeout(this.#timer);
    if (awake) void this.#look();
  }

  async #look(): Promise<void> {
    const begun = performance.now();
    try {
      const [status, peers, text] = await Promise.all([this.#ask('/v1/status'), this.#ask('/v1/peers'), this.#ask('/metrics')]);
      const { peers: rows } = (await peers.json()) as { peers: PeerRow[] };
      this.#seen({ status: (await status.json()) as NodeStatus, peers: rows, figures: parse(await text.text(), begun) });
    } catch (error) {
      this.#seen(error instanceof Unwilling ? error.problem : { code: 'no_answer', detail: 'The node does not answer. Is it still running?' });
    }
    if (this.#awake) this.#timer = setTimeout(() => void this.#look(), LOOK_MS);
  }

  async #ask(path: string): Promise<Response> {
    const answer = await fetch(this.#origin + path, { headers: withTicket(this.ticket), signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (!answer.ok) throw new Unwilling((await answer.json()) as Problem);
    return answer;
  }
}

class Unwilling extends Error {
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem.detail);
    this.problem = problem;
  }
}
