import { TallymeshError } from '../internal/errors.js';
import { quoted } from './key.js';
import type { Replica } from './replica.js';

/** A counter under a fixed key, made by {@link Replica.counter}. It need not exist. */
export class Counter {
  /** The counter's key. */
  readonly key: string;
  /** @internal The key's number; another one in the second module, and none once it is let go. */
  keyId: number | undefined;
  readonly #replica: Replica;

  /** @internal */
  constructor(replica: Replica, key: string, keyId: number) {
    this.#replica = replica;
    this.key = key;
    this.keyId = keyId;
  }

  /** Adds to the counter, as {@link Replica.add} does. Default: 1. */
  add(by: number | bigint = 1): void {
    this.#replica.addAt(this.#live(), by, this.key);
  }

  /** Replaces the counter's value, as {@link Replica.set} does. */
  set(value: number | bigint): void {
    this.#open().set(this.key, value);
  }

  /** Takes the counter back to 0, as {@link Replica.reset} does. */
  reset(): void {
    this.#open().reset(this.key);
  }

  /** Deletes the counter, as {@link Replica.delete} does; this object can still be used. */
  delete(): boolean {
    return this.#open().delete(this.key);
  }

  /** Lets the counter expire, as {@link Replica.expire} does. */
  expire(at: Date): boolean {
    return this.#open().expire(this.key, at);
  }

  /** Takes the counter's expiry away, as {@link Replica.persist} does. */
  persist(): boolean {
    return this.#open().persist(this.key);
  }

  /** The counter's exact value, or `undefined` when it does not exist. */
  get value(): bigint | undefined {
    return this.#replica.valueAt(this.#live());
  }

  /** When the counter expires, or `undefined` when it does not. */
  get expiresAt(): Date | undefined {
    return this.#open().expiresAt(this.key);
  }

  /** Lets go of the key. The counter itself stays; only this object cannot be used any more. */
  free(): void {
    this.#replica.release(this);
    this.keyId = undefined;
  }

  #open(): Replica {
    this.#live();
    return this.#replica;
  }

  #live(): number {
    if (this.keyId !== undefined) return this.keyId;
    throw new TallymeshError('freed', `this counter object of ${quoted(this.key)} was freed`);
  }
}
