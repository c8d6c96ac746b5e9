import { errorCode, type Engine } from './engine.js';
import { coded } from './errors.js';
import type { Link, Peer } from './peer.js';

// What `Engine.poll` answers.
const SEND = 1;
const CHANGED = 2;
const CLOSE = 3;

const TIMER_MS_MAX = 60_000;

/**
 * Drives the sync machine of one replica: feeds it frames, local changes and the time, and carries out
 * what it says. The machine decides everything; this only has the sockets and the clock.
 */
export class Links {
  readonly #engine: Engine;
  readonly #changed: (handle: number) => void;
  readonly #peers = new Map<number, Peer>();
  #last = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #draining = false;

  constructor(engine: Engine, changed: (handle: number) => void) {
    this.#engine = engine;
    this.#changed = changed;
  }

  /** How many links are up. */
  get size(): number {
    return this.#peers.size;
  }

  /** Opens a link to a peer. */
  attach(peer: Peer): Link {
    const link = ++this.#last;
    this.#peers.set(link, peer);
    this.#engine.connected(now(), link);
    this.drain();
    return {
      receive: (frame) => {
        if (!this.#peers.has(link)) return;
        this.#engine.frame(now(), link, frame);
        this.drain();
      },
      close: () => {
        if (!this.#peers.delete(link)) return;
        this.#engine.disconnected(now(), link);
        this.drain();
      },
    };
  }

  /** Tells the machine of local transactions. */
  localChange(): void {
    this.#engine.changed(now());
    this.drain();
  }

  /** Ends all links and the timer; the engine is not used after this. */
  end(): void {
    clearTimeout(this.#timer);
    this.#peers.clear();
  }

  /**
   * Carries out what the machine wants until it wants nothing. A peer in the same process may answer
   * from within `send`; its frame is then fed in and its consequences wait for the loop that runs.
   */
  drain(): void {
    if (this.#draining) return;
    this.#draining = true;
    try {
      for (let kind = this.#engine.poll(); kind !== 0; kind = this.#engine.poll()) this.#carryOut(kind);
    } finally {
      this.#draining = false;
    }
    this.#arm();
  }

  #carryOut(kind: number): void {
    const subject = this.#engine.subject();
    if (kind === SEND) {
      const frame = this.#engine.take();
      this.#peers.get(subject)?.send(frame);
    } else if (kind === CHANGED) {
      this.#changed(subject);
    } else if (kind === CLOSE) {
      const reason = coded(errorCode(this.#engine), 'the link was closed');
      const peer = this.#peers.get(subject);
      if (!this.#peers.delete(subject)) return;
      this.#engine.disconnected(now(), subject);
      peer?.close(reason);
    }
  }

  #arm(): void {
    clearTimeout(this.#timer);
    if (this.#peers.size === 0) return;
    const wait = Math.min(this.#engine.deadline() - now(), TIMER_MS_MAX);
    this.#timer = setTimeout(() => {
      this.#engine.tick(now());
      this.drain();
    }, Math.max(wait, 0));
  }
}

function now(): number {
  return Math.floor(performance.now());
}
