// What the connections of `tallymesh/transports` and `tallymesh/libp2p` have in common. These entries have no copy of
// the package's code: they know the others' classes by their types alone.
import { errorClassOf, type ErrorClass } from '../internal/error-class.js';
import type { TallymeshError } from '../internal/errors.js';
import { guarded } from '../internal/guarded.js';
import type { Link, Peer } from '../replica/peer.js';
import type { Replica } from '../replica/replica.js';
import type { Connection, ConnectionState, RetryOptions } from './connection.js';

/** A connection that stands until it is closed, whatever becomes of its links. */
export abstract class PersistentConnection implements Connection {
  readonly url: string;
  heardAt: number | undefined;
  protected readonly replica: Replica;
  readonly #errors: ErrorClass;
  readonly #retry: RetryOptions;
  readonly #listeners = new Set<(state: ConnectionState) => void>();
  #state: ConnectionState = 'paused';
  /** The state that listeners know of. */
  #told: ConnectionState = 'paused';
  #error: TallymeshError | undefined;

  constructor(replica: Replica, url: string, retry: RetryOptions) {
    this.replica = replica;
    this.url = url;
    this.#retry = retry;
    const errors = errorClassOf(replica);
    if (!errors) throw new TypeError('this is no replica of tallymesh');
    this.#errors = errors;
  }

  /** Looks for peers, from nothing; not called while that is under way already. */
  protected abstract begin(): void;

  /** Ends all links and attempts, with a goodbye; called also when there is nothing to end. */
  protected abstract end(): void;

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
    if (this.#state === 'paused') this.begin();
  }

  close(): void {
    this.#stop('closed');
    this.#listeners.clear();
  }

  subscribe(listener: (state: ConnectionState) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #stop(state: ConnectionState): void {
    // Nothing that this brings about may begin anew.
    this.#state = state;
    this.end();
    this.#tell();
  }

  #tell(): void {
    const state = this.#state;
    if (state === this.#told) return;
    this.#told = state;
    for (const listener of [...this.#listeners]) guarded(() => listener(state));
  }

  /** Whether peers are looked for, or there. */
  protected get running(): boolean {
    return this.#state !== 'paused' && this.#state !== 'closed';
  }

  protected become(state: ConnectionState): void {
    this.#state = state;
    this.#tell();
  }

  /** Makes an error of the replica's class. */
  protected problem(code: string, message: string, options?: ErrorOptions): TallymeshError {
    return new this.#errors(code, message, options);
  }

  /** Keeps in mind why a link or an attempt ended; a link that is up lets it be forgotten. */
  protected note(error: TallymeshError | undefined): void {
    this.#error = error;
  }

  /** How long to wait after so many failures in a row: half of it is random, so that not all reconnect at once. */
  protected backOff(failures: number): number {
    const { retryMinMs = 250, retryMaxMs = 15_000 } = this.#retry;
    return Math.min(retryMaxMs, retryMinMs * 2 ** failures) * (0.5 + Math.random() / 2);
  }

  /**
   * Opens a link of the replica's. When the replica ends it, it is made `again` at once, for the second module,
   * or was `refused`.
   */
  protected attach(send: (frame: Uint8Array) => void, again: () => void, refused: (reason: TallymeshError) => void): Link | undefined {
    const close: Peer['close'] = (reason) => {
      if (reason.code === 'upgraded') again();
      else if (reason.code === 'left') this.pause();
      else refused(reason);
    };
    try {
      const link = this.replica.attach({ send, close });
      return {
        receive: (frame) => {
          this.heardAt = Date.now();
          link.receive(frame);
        },
        close: () => link.close(),
      };
    } catch (error) {
      // The replica was freed: nothing is left to be connected.
      this.note(error as TallymeshError);
      this.close();
      return undefined;
    }
  }
}
