import { freshName } from '../internal/fresh-name.js';
import type { Transport } from '../replica/open-counters.js';
import type { Replica } from '../replica/replica.js';
import type { RetryOptions } from './connection.js';
import { Room, type Other } from './room.js';

/** How often replicas say that they are there which cannot show it by a lock. */
const BEAT_MS = 20_000;
/** Who was silent for so many beats has gone. Tabs in the background may have their timers held up for a minute. */
const SILENT_BEATS_MAX = 6;

/**
 * Keeps a replica in sync with those of the same space in all other tabs, frames and workers of this origin, with
 * no node and no network, over a `BroadcastChannel` of `name` and the space. Each two of them have a link.
 *
 * The connection is `online` while there are others, and `connecting` while there are none. A tab that died is found
 * out at once where there are Web Locks (pages that came over HTTPS or from this machine), and else after two minutes.
 * A page that its browser keeps for later (the back/forward cache) is away meanwhile.
 *
 * @param name - what the channel is called, for origins with several applications. Default: `"tallymesh"`.
 * @throws {@link TallymeshError} `no_broadcast_channel`, when the connection is made.
 *
 * @example
 * ```ts
 * const counters = await open({ transports: [broadcastChannel()] });
 * ```
 */
export function broadcastChannel(name = 'tallymesh', options: RetryOptions = {}): Transport {
  return (replica) => new BroadcastConnection(replica, name, options);
}

class BroadcastConnection extends Room {
  protected readonly most = 256;
  readonly #name: string;
  #channel: BroadcastChannel | undefined;
  /** For how many beats nothing was heard of those whose locks cannot be watched. */
  readonly #silent = new Map<Other, number>();
  #hidden = false;

  constructor(replica: Replica, name: string, options: RetryOptions) {
    super(replica, `broadcast:${name}:${replica.space}`, options);
    this.#name = `${name}:${replica.space}`;
    if (!globalThis.BroadcastChannel) throw this.problem('no_broadcast_channel', 'there is no BroadcastChannel here');
    globalThis.addEventListener?.('pagehide', this.#hide);
    globalThis.addEventListener?.('pageshow', this.#show);
    if (!options.paused) this.begin();
  }

  override close(): void {
    globalThis.removeEventListener?.('pagehide', this.#hide);
    globalThis.removeEventListener?.('pageshow', this.#show);
    super.close();
  }

  readonly #hide = (): void => {
    if (!this.running) return;
    this.#hidden = true;
    this.end();
    this.become('waiting');
  };

  readonly #show = (): void => {
    if (this.#hidden && this.state === 'waiting') this.begin();
    this.#hidden = false;
  };

  protected override open(): () => void {
    const channel = new BroadcastChannel(this.#name);
    const id = freshName();
    let release = (): void => {};
    const come = (locked: boolean): void => {
      if (this.#channel === channel) this.enter(id, locked);
    };
    channel.onmessage = ({ data }) => this.hear(data);
    this.#channel = channel;
    const beats = setInterval(() => this.#beat(), BEAT_MS);
    const locks = locksHere();
    if (!locks) come(false);
    else {
      const held = locks.request(lockName(id), () => {
        const kept = new Promise<void>((resolve) => (release = resolve));
        if (this.#channel !== channel) release();
        come(true);
        return kept;
      });
      // Some frames have locks and may not use them.
      held.catch(() => come(false));
    }
    return () => {
      clearInterval(beats);
      this.#channel = undefined;
      channel.close();
      release();
    };
  }

  protected override post(message: object): void {
    this.#channel?.postMessage(message);
  }

  protected override watch(other: Other, gone: () => void): () => void {
    if (this.locked && other.locked) {
      const watching = new AbortController();
      // It is given once nobody has it.
      const given = locksHere()?.request(lockName(other.id), { mode: 'shared', signal: watching.signal }, gone);
      given?.catch(() => {});
      return () => watching.abort();
    }
    this.#silent.set(other, 0);
    return () => void this.#silent.delete(other);
  }

  protected override heard(other: Other): void {
    if (this.#silent.has(other)) this.#silent.set(other, 0);
  }

  #beat(): void {
    if (!this.id) return;
    if (!this.locked || this.#silent.size > 0) this.say({ kind: 'alive' });
    for (const [other, beats] of [...this.#silent]) {
      this.#silent.set(other, beats + 1);
      if (beats >= SILENT_BEATS_MAX) this.lost(other);
    }
  }
}

function locksHere(): LockManager | undefined {
  return globalThis.navigator?.locks;
}

const lockName = (id: string): string => `tallymesh:${id}`;
