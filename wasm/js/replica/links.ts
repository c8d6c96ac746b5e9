import { coded, type TallymeshError } from '../internal/errors.js';
import { errorCode, NONE, random, type Engine } from './engine.js';
import {
  CHANGED, CLOSE, CONNECTED, COUNTER, DISCONNECTED, FRAME, NEW_WRITER, RENEW, RETURNED, SEND, TICK,
} from './numbers.js';
import type { Link, Peer } from './peer.js';

/** What an error says first that ends a link. */
export const LINK_CLOSED = 'the link was closed';

const TIMER_MS_MAX = 60_000;

/** Whom the machine's news are for. */
export interface LinkEvents {
  /** A merge changed a counter. */
  changed(keyId: number): void;
  /** The replica rejoined under another id, and this became of what it had counted. */
  returned(bytes: Uint8Array): void;
  /** A peer told of members, which takes the second module. */
  closed(): void;
}

/**
 * Does `act`, if one is given, once all that is seen now is kept as it should be. It is also called whenever
 * something may have changed.
 */
export type After = (act?: () => void) => void;

/** More than any delay after which the machine pushes. */
const PUSHED_BY_MS = 1_000;

/**
 * Drives the sync machine of one replica: feeds it frames, local changes and the time, and carries out
 * what it says. The machine decides everything; this only has the sockets and the clock.
 */
export class Links {
  #engine: Engine;
  readonly #events: LinkEvents;
  readonly #after: After;
  /** What is called whenever the replica may have got further, or was freed. */
  readonly looks = new Set<() => void>();
  readonly #peers = new Map<number, Peer>();
  /** Peers whose links are closed here and wait for the second module. */
  readonly #parked = new Map<number, Peer>();
  #last = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #draining = false;

  constructor(engine: Engine, events: LinkEvents, after: After = (act) => act?.()) {
    this.#engine = engine;
    this.#events = events;
    this.#after = after;
  }

  /** Ends all links, for this reason if one is to be told, and goes on with `engine`. */
  end(reason?: TallymeshError, engine = this.#engine): void {
    clearTimeout(this.#timer);
    const peers = [...this.#peers.values(), ...this.#parked.values()];
    for (const link of this.#peers.keys()) this.#input(DISCONNECTED, link);
    this.#peers.clear();
    this.#parked.clear();
    // A peer may attach again at once.
    this.#engine = engine;
    // After what was sent before.
    if (reason) for (const peer of peers) this.#after(() => peer.close(reason));
  }

  /** Ends the links that wait for the second module. */
  giveUp(reason: TallymeshError): void {
    const peers = [...this.#parked.values()];
    this.#parked.clear();
    for (const peer of peers) peer.close(reason);
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
        this.#parked.delete(link);
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

  /** Sends what the machine would wait a moment with, as nothing comes after it. */
  push(): void {
    this.#input(CHANGED);
    this.#engine.input(TICK, now() + PUSHED_BY_MS, 0, NONE);
    this.drain(Infinity);
  }

  /**
   * Carries out what the machine wants, until it wants nothing or the time is over. A peer in the same process may
   * answer from within `send`; its frame is then fed in and its consequences wait for the loop that runs.
   */
  drain(end = turnEnd()): void {
    if (this.#draining) return;
    this.#draining = true;
    let output;
    try {
      while (now() <= end && (output = this.#engine.poll())) this.#carryOut(output);
    } finally {
      this.#draining = false;
    }
    this.#after();
    this.#arm(output);
    this.look();
  }

  /** Calls all {@link Links.looks}. */
  look(): void {
    for (const look of this.looks) look();
  }

  #input(event: number, link = 0, bytes = NONE): void {
    this.#engine.input(event, now(), link, bytes);
  }

  #carryOut(output: number): void {
    const kind = Math.floor(output / 2 ** 32);
    const subject = output % 2 ** 32;
    if (kind === SEND) {
      const frame = this.#engine.take();
      const peer = this.#peers.get(subject);
      this.#after(() => peer?.send(frame));
    } else if (kind === COUNTER) {
      this.#events.changed(subject);
    } else if (kind === NEW_WRITER) {
      this.#input(RENEW, 0, random(16));
    } else if (kind === RETURNED) {
      this.#events.returned(this.#engine.take());
    } else if (kind === CLOSE) {
      const code = errorCode(this.#engine);
      const peer = this.#peers.get(subject);
      if (!peer) return;
      this.#peers.delete(subject);
      this.#input(DISCONNECTED, subject);
      if (code === 'members_unsupported') {
        this.#parked.set(subject, peer);
        this.#events.closed();
      } else peer.close(coded(code, LINK_CLOSED));
    }
  }

  /** Goes on at once if something is left to be carried out. */
  #arm(left: number | undefined): void {
    clearTimeout(this.#timer);
    if (this.#peers.size === 0) return;
    const wait = left ? 0 : Math.min(this.#engine.deadline() - now(), TIMER_MS_MAX);
    this.#timer = setTimeout(() => {
      this.#input(TICK);
      this.drain();
    }, Math.max(wait, 0));
  }
}

/** When a turn has done enough, so that nothing else waits for long: what is left comes in the next ones. */
export const turnEnd = (): number => now() + 10;

/** The time, as the machine is told it. */
export function now(): number {
  return Math.floor(performance.now());
}
