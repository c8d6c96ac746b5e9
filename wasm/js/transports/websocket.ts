import { TallymeshError } from '../internal/errors.js';
import type { Sign } from '../internal/sign.js';
import type { Link } from '../replica/peer.js';
import type { Replica } from '../replica/replica.js';
import type { Connection, ConnectionState, RetryOptions } from './connection.js';

/** How {@link connect} behaves. */
export interface ConnectOptions extends RetryOptions {
  /** What `tallymesh invite` printed, for a node that asks for tickets. */
  readonly ticket?: string;
  /**
   * Signs what a node asks to be signed, which it does of pages, and if the ticket's role is less than member: 80
   * bytes, of which the last 32 are the node's key. The replica's `ownerKey` is the public half of the key.
   *
   * @example
   * ```ts
   * const { privateKey, publicKey } = await crypto.subtle.generateKey('Ed25519', false, ['sign', 'verify']);
   * const replica = await open({ ownerKey: new Uint8Array(await crypto.subtle.exportKey('raw', publicKey)) });
   * connect(replica, url, { ticket, sign: (bytes) => crypto.subtle.sign('Ed25519', privateKey, bytes) });
   * ```
   */
  readonly sign?: Sign;
  /** The WebSocket to use where there is no global one (Node before 22). */
  readonly WebSocket?: WebSocketClass;
}

/** A class of WebSockets, such as the global one or that of the package `ws`. */
export type WebSocketClass = new (url: string, protocols?: string[]) => WebSocket;

/** With this code a node closes what it refuses. The reason is a code of docs/errors.md, and a sentence. */
const REFUSED = 4000;

/** An attempt that takes longer is given up. */
const OPEN_MS_MAX = 10_000;

/**
 * Keeps a replica in sync with a node until it is closed. When the link breaks, or was never there, it
 * tries again, waiting longer each time; counting goes on meanwhile and nothing is lost.
 *
 * @param url - the node's address (`http`, `https`, `ws` or `wss`), such as `"http://127.0.0.1:8080"`;
 * one with a path of its own is used as it is.
 * @throws {@link TallymeshError} `url`, `no_websocket` or `ticket`.
 */
export function connect(replica: Replica, url: string | URL, options: ConnectOptions = {}): Connection {
  return new WebSocketConnection(replica, url, options);
}

class WebSocketConnection implements Connection {
  readonly url: string;
  heardAt: number | undefined;

  readonly #replica: Replica;
  readonly #options: ConnectOptions;
  readonly #make: new (url: string, protocols?: string[]) => WebSocket;
  readonly #listeners = new Set<(state: ConnectionState) => void>();
  readonly #wake = (): void => {
    if (this.#state === 'waiting') this.#dial();
  };
  #state: ConnectionState = 'paused';
  #error: TallymeshError | undefined;
  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Ends the current attempt or link without a word. */
  #hangUp: () => void = () => {};

  constructor(replica: Replica, url: string | URL, options: ConnectOptions) {
    this.#replica = replica;
    this.#options = options;
    this.url = syncAddress(url, replica.space);
    const make = options.WebSocket ?? globalThis.WebSocket;
    if (!make) throw new TallymeshError('no_websocket', 'there is no WebSocket here; pass one as options.WebSocket');
    this.#make = make;
    if (!/^[\w.-]+$/.test(options.ticket ?? '-')) {
      throw new TallymeshError('ticket', `${JSON.stringify(options.ticket)} is no ticket`);
    }
    // The browser knows first when the network is back.
    globalThis.addEventListener?.('online', this.#wake);
    if (!options.paused) this.#dial();
  }

  get state(): ConnectionState {
    return this.#state;
  }

  get error(): TallymeshError | undefined {
    return this.#error;
  }

  pause(): void {
    if (this.#state !== 'closed') this.#stop('paused');
  }

  resume(): void {
    if (this.#state === 'paused') {
      this.#failures = 0;
      this.#dial();
    }
  }

  close(): void {
    globalThis.removeEventListener?.('online', this.#wake);
    this.#stop('closed');
    this.#listeners.clear();
  }

  subscribe(listener: (state: ConnectionState) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #become(state: ConnectionState): void {
    if (this.#state === state) return;
    this.#state = state;
    for (const listener of [...this.#listeners]) listener(state);
  }

  #stop(state: ConnectionState): void {
    clearTimeout(this.#timer);
    this.#hangUp();
    this.#become(state);
  }

  #dial(): void {
    clearTimeout(this.#timer);
    const { ticket, sign } = this.#options;
    const socket = new this.#make(this.url, ticket ? ['tallymesh', `tallymesh.ticket.${ticket}`] : undefined);
    socket.binaryType = 'arraybuffer';
    let link: Link | undefined;
    const hangUp = (): void => {
      this.#hangUp = () => {};
      clearTimeout(this.#timer);
      socket.onopen = socket.onmessage = socket.onclose = null;
      link?.close();
      socket.close();
    };
    const failures = this.#failures;
    const fail = (error: TallymeshError): void => {
      hangUp();
      this.#error = error;
      const { retryMinMs = 250, retryMaxMs = 15_000 } = this.#options;
      const wait = Math.min(retryMaxMs, retryMinMs * 2 ** this.#failures++);
      // Half of the wait is random, so that a node that restarts is not met by everyone at once.
      this.#timer = setTimeout(() => this.#dial(), wait * (0.5 + Math.random() / 2));
      this.#become('waiting');
    };
    this.#hangUp = hangUp;
    const refused = (error: TallymeshError): void => {
      // What was refused will be refused again: that the link came up was no success.
      this.#failures = failures;
      fail(error);
    };
    const up = (): void => {
      clearTimeout(this.#timer);
      link = this.#replica.attach({
        send: (frame) => socket.readyState === 1 && socket.send(frame as Uint8Array<ArrayBuffer>),
        close: (reason) => {
          if (reason.code === 'upgraded') {
            hangUp();
            this.#dial();
          } else if (reason.code === 'left') {
            this.pause();
          } else refused(reason);
        },
      });
      this.#error = undefined;
      this.#become('online');
    };
    // Who can sign waits for the node to speak: it may want a proof before any frame.
    socket.onopen = () => sign || this.#replica.sign || up();
    socket.onmessage = ({ data }) => {
      if (typeof data === 'string') {
        const proved = (proof: string | TallymeshError): void => {
          // Meanwhile it may have been hung up.
          if (this.#hangUp !== hangUp) return;
          if (typeof proof === 'string') {
            socket.send(proof);
            up();
          } else refused(proof);
        };
        this.#replica.prove(data, sign).then(proved, proved);
      } else {
        if (!link) up();
        this.heardAt = Date.now();
        this.#failures = 0;
        link!.receive(new Uint8Array(data as ArrayBuffer));
      }
    };
    // An `error` event says nothing that the `close` after it does not, but sockets of `ws` throw one that nobody
    // takes, also after they were hung up.
    socket.onerror = () => {};
    socket.onclose = ({ code, reason }) => {
      const [, why, text] = (code === REFUSED && /^(\w+): (.+)/s.exec(reason)) || [, , reason || `WebSocket code ${code}`];
      const error = new TallymeshError(why ?? 'link_lost', `the link to ${this.url} was lost: ${text}`);
      (why ? refused : fail)(error);
    };
    this.#timer = setTimeout(
      () => fail(new TallymeshError('timeout', `${this.url} did not answer within ${OPEN_MS_MAX} ms`)),
      OPEN_MS_MAX,
    );
    this.#become('connecting');
  }
}

/** The WebSocket address of a space at a node. */
function syncAddress(given: string | URL, space: string): string {
  let url: URL;
  try {
    url = new URL(given);
  } catch (cause) {
    throw new TallymeshError('url', `${JSON.stringify(given)} is no address such as http://127.0.0.1:8080`, { cause });
  }
  if (!/^(http|ws)s?:$/.test(url.protocol)) {
    throw new TallymeshError('url', `${url.protocol} is no way to reach a node; use http, https, ws or wss`);
  }
  url.protocol = url.protocol.replace('http', 'ws');
  if (url.pathname === '/') url.pathname = `/v1/spaces/${space}/sync`;
  url.hash = '';
  return url.href;
}
