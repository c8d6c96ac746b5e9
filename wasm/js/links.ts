import { CHANGED, CONNECTED, DISCONNECTED, errorCode, FRAME, NONE, TICK, type Engine } from './engine.js';
import { coded } from './errors.js';
import type { Link, Peer } from './peer.js';

// What `Engine.poll` answers.
const SEND = 1;
const COUNTER = 2;
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
    this.#input(CONNECTED, link);
    this.drain();
    return {
      receive: (frame) => {
        if (!this.#peers.has(link)) return;
        this.#input(FRAME, link, frame);
        this.drain();
      },
      close: () => {
        if (!this.#peers.delete(link)) return;
        this.#input(DISCONNECTED, link);
        this.drain();
      },
    };
  }

  /** Tells the machine of local transactions. */
  localChange(): void {
    this.#input(CHANGED);
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
      for (let output = this.#engine.poll(); output !== 0; output = this.#engine.poll()) this.#carryOut(output);
    } finally {
      this.#draining = false;
    }
    this.#arm();
  }

  #input(event: number, link = 0, bytes = NONE): void {
    this.#engine.input(event, now(), link, bytes);
  }

  #carryOut(output: number): void {
    const kind = Math.floor(output / 2 ** 32);
    const subject = output % 2 ** 32;
    if (kind === SEND) {
      const frame = this.#engine.take();
      this.#peers.get(subject)?.send(frame);
    } else if (kind === COUNTER) {
      this.#changed(subject);
    } else if (kind === CLOSE) {
      const reason = coded(errorCode(this.#engine), 'the link was closed');
      const peer = this.#peers.get(subject);
      if (!this.#peers.delete(subject)) return;
      this.#input(DISCONNECTED, subject);
      peer?.close(reason);
    }
  }

  #arm(): void {
    clearTimeout(this.#timer);
    if (this.#peers.size === 0) return;
    const wait = Math.min(this.#engine.deadline() - now(), TIMER_MS_MAX);
    this.#timer = setTimeout(() => {
      this.#input(TICK);
      this.drain();
    }, Math.max(wait, 0));
  }
}

function now(): number {
  return Math.floor(performance.now());
}
