import { freshName } from '../internal/fresh-name.js';
import type { Transport } from '../replica/open-counters.js';
import type { Replica } from '../replica/replica.js';
import type { RetryOptions } from './connection.js';
import { Room, type Other } from './room.js';

/**
 * What {@link messagePort} takes: a `MessagePort`, a `Worker`, the global scope of one (`self`), and those of
 * `node:worker_threads`.
 */
export interface Port {
  /** Sends a message to the other end. */
  postMessage(message: unknown): void;
  /** Listens, as browsers have it. */
  addEventListener?(type: string, listener: (event: any) => void): void;
  /** Listens no more. */
  removeEventListener?(type: string, listener: (event: any) => void): void;
  /** As `node:worker_threads` has it for workers. */
  on?(type: string, listener: (data: any) => void): unknown;
  /** Listens no more, as `node:worker_threads` has it. */
  off?(type: string, listener: (data: any) => void): unknown;
  /** Lets messages come in, where they wait for that. */
  start?(): void;
}

/** What a port, or a worker of Node's, says of its end. */
const ENDS = ['close', 'exit'];

/**
 * Keeps a replica in sync with the one at the other end of a message port: in a worker, an iframe or another tab.
 * Either side may come first. Other messages may use the port, too.
 *
 * The connection is `online` while the other side takes part, and `connecting` while it does not. The port stays
 * open when the connection is closed; the connection is closed when the port says that it was, as in Node.
 *
 * @example
 * ```ts
 * const worker = new Worker('worker.js', { type: 'module' });
 * const counters = await open({ transports: [messagePort(worker)] });
 * // In worker.js:
 * const counters = await open({ transports: [messagePort(self)] });
 * ```
 */
export function messagePort(port: Port, options: RetryOptions = {}): Transport {
  return (replica) => new PortConnection(replica, port, options);
}

class PortConnection extends Room {
  protected readonly most = 1;
  readonly #port: Port;
  readonly #unlisten: () => void;

  constructor(replica: Replica, port: Port, options: RetryOptions) {
    super(replica, 'port:', options);
    this.#port = port;
    const stops = ENDS.map((end) => listen(port, end, () => this.#ended()));
    this.#unlisten = () => stops.forEach((stop) => stop());
    if (!options.paused) this.begin();
  }

  override close(): void {
    this.#unlisten();
    super.close();
  }

  #ended(): void {
    this.note(this.problem('link_lost', 'the link was lost: its port was closed'));
    this.close();
  }

  protected override open(): () => void {
    const stop = listen(this.#port, 'message', (data) => this.hear(data));
    this.#port.start?.();
    this.enter(freshName(), false);
    return stop;
  }

  protected override post(message: object): void {
    this.#port.postMessage(message);
  }

  protected override watch(_other: Other, _gone: () => void): () => void {
    // A newer one takes the place of one that has gone, and so nothing piles up.
    return () => {};
  }
}

/** Listens at a port of either kind; gives what ends it. */
function listen(port: Port, type: string, hear: (data: unknown) => void): () => void {
  if (port.addEventListener) {
    const heard = (event: { data?: unknown }): void => hear(event.data);
    port.addEventListener(type, heard);
    return () => port.removeEventListener?.(type, heard);
  }
  port.on?.(type, hear);
  return () => void port.off?.(type, hear);
}
