import type { TallymeshError } from '../internal/errors.js';
import type { MembersEngine } from '../replica/members.js';
import type { Log, Remains, StorageState } from './store.js';

// What `Engine.read` reads: the numbers of wasm/src/engine.rs.
const SNAPSHOT = 9;
const RECORD = 10;
const UNCONFIRMED = 11;

/** A log is written anew once it has grown by this and by what it began with. */
const GROWN_BYTES_MIN = 256 << 10;

const RETRY_MS_MIN = 100;
const RETRY_MS_MAX = 10_000;

/** Makes an error of what a store threw. */
export type Failed = (cause: unknown) => TallymeshError;

interface Waiting {
  readonly done: () => void;
  readonly failed: (error: TallymeshError) => void;
}

/** What is written at once, and what waits for it. */
interface Batch {
  readonly record: Uint8Array | undefined;
  readonly whole: boolean;
  readonly taken: readonly Remains[];
  readonly held: readonly (() => void)[];
}

/**
 * Keeps what an engine holds in a log, and holds back what depends on it: a frame leaves, and a peer is let go, once
 * all is durable that was seen when it was made. One write is under way at a time; what happens meanwhile shares the
 * next one.
 */
export class CommitGate {
  /** Why the last write failed, until one succeeds. */
  error: TallymeshError | undefined;
  /** Whether the engine is gone, or goes with this turn. */
  closed = false;
  readonly #engine: MembersEngine;
  readonly #log: Log;
  readonly #failed: Failed;
  /** Called when writes begin or cease to fail. */
  readonly #told: () => void;
  /** What is to be done once what is seen now is durable. */
  #held: (() => void)[] = [];
  #flushes: Waiting[] = [];
  /** Logs that are to be gone with the next whole record. */
  #taken: readonly Remains[];
  /** Whether the next record is to be a whole one. */
  #anew = true;
  #dirty = true;
  #scheduled = false;
  /** What was read of the engine and is not durable yet, in order. */
  readonly #batches: Batch[] = [];
  #busy: Promise<void> | undefined;
  #grown = 0;
  #begun = 0;
  #wake: () => void = () => {};
  #ended: Promise<void> | undefined;

  constructor(engine: MembersEngine, log: Log, left: readonly Remains[], failed: Failed, told: () => void) {
    this.#engine = engine;
    this.#log = log;
    this.#taken = left;
    this.#failed = failed;
    this.#told = told;
  }

  get state(): StorageState {
    if (this.error) return 'failing';
    return this.#dirty || this.#batches.length > 0 ? 'writing' : 'durable';
  }

  /** Transactions that no member is known to hold. */
  get unacknowledged(): number {
    if (this.closed) return 0;
    this.#engine.read(UNCONFIRMED, 0);
    return Number(new DataView(this.#engine.take().buffer).getBigUint64(0, true));
  }

  /** Does something once all that is seen now is durable; told with nothing to do, it sees that something may be new. */
  readonly after = (act?: () => void): void => {
    if (act) this.#held.push(act);
    this.#dirty = true;
    if (!this.closed) this.#schedule();
    else if (!act) this.#read();
  };

  /** Waits until all that is seen now is durable. */
  flush(): Promise<void> {
    return new Promise((done, failed) => {
      if (this.state === 'durable') return done();
      const waiting = { done, failed };
      this.#flushes.push(waiting);
      this.after(() => {
        this.#flushes = this.#flushes.filter((it) => it !== waiting);
        done();
      });
    });
  }

  /** The engine ends with this turn: what it says until then is read at once. */
  close(): void {
    this.closed = true;
  }

  /** Waits until all is written that was read, and lets the log go. Rejects if that failed. */
  end(): Promise<void> {
    return (this.#ended ??= this.#end());
  }

  async #end(): Promise<void> {
    this.#wake();
    this.#begin();
    while (this.#busy) await this.#busy;
    const { error } = this;
    for (const { failed, done } of this.#flushes.splice(0)) error ? failed(error) : done();
    await this.#log.close().catch(() => {});
    if (error) throw error;
  }

  /**
   * Takes over what another process left behind, while this one runs.
   *
   * @returns false if that has to wait: this one has not heard of the members that the other one knew.
   */
  takeOver(remains: Remains, changed: (keyId: number) => void): boolean {
    if (this.closed || !restore(this.#engine, remains.records, true)) return false;
    for (const keyId of new Uint32Array(this.#engine.take().buffer)) changed(keyId);
    this.#taken = [...this.#taken, remains];
    this.#anew = true;
    this.after();
    return true;
  }

  #schedule(): void {
    if (this.#scheduled || this.#busy) return;
    this.#scheduled = true;
    // Not before this turn has done all it does.
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#begin();
    });
  }

  #begin(): void {
    this.#busy ??= this.#write().then(() => {
      this.#busy = undefined;
      if (this.#dirty && !this.closed) this.#schedule();
    });
  }

  /** Reads what is new in the engine. */
  #read(): void {
    this.#dirty = false;
    const anew = this.#anew || this.#grown > GROWN_BYTES_MIN + this.#begun;
    const record = this.#engine.read(anew ? SNAPSHOT : RECORD, 0) ? this.#engine.take() : undefined;
    const whole = record?.[0] === 1;
    this.#batches.push({ record, whole, taken: whole ? this.#taken : [], held: this.#held });
    this.#held = [];
    if (whole) {
      this.#taken = [];
      this.#anew = false;
      this.#begun = record!.length;
      this.#grown = 0;
    } else this.#grown += record?.length ?? 0;
  }

  async #write(): Promise<void> {
    let wait = RETRY_MS_MIN;
    for (;;) {
      if (this.#batches.length === 0 && this.#dirty && !this.closed) this.#read();
      const [batch] = this.#batches;
      if (!batch) break;
      const last = this.closed;
      try {
        if (batch.record) await this.#log.write(batch.record, batch.whole, batch.taken);
      } catch (cause) {
        this.#fails(this.#failed(cause));
        if (last) break; // one try is enough then
        await this.#pause(wait);
        wait = Math.min(RETRY_MS_MAX, 2 * wait);
        continue;
      }
      wait = RETRY_MS_MIN;
      this.#batches.shift();
      this.#fails(undefined);
      for (const act of batch.held) act();
    }
  }

  #fails(error: TallymeshError | undefined): void {
    const before = this.error;
    this.error = error;
    if (!before !== !error) this.#told();
    if (error) for (const { failed } of this.#flushes.splice(0)) failed(error);
  }

  #pause(ms: number): Promise<void> {
    if (this.closed) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** Takes in what a log has; false if the engine refuses it. */
export function restore(engine: MembersEngine, records: readonly Uint8Array[], live: boolean): boolean {
  return records.every((record) => engine.restore(record, live)) && engine.adopt(live);
}
