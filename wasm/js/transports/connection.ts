import type { TallymeshError } from '../internal/errors.js';

/**
 * Where a {@link Connection} stands: `connecting`, `online`, `waiting` for its next attempt, `paused` by
 * {@link Connection.pause} or as the replica left, or `closed` for good.
 */
export type ConnectionState = 'connecting' | 'online' | 'waiting' | 'paused' | 'closed';

/** When a {@link Connection} begins, and when it tries again. */
export interface RetryOptions {
  /** Wait before the first new attempt, in milliseconds; it doubles with each failure. Default: 250. */
  readonly retryMinMs?: number;
  /** Longest wait between attempts, in milliseconds. Default: 15000. */
  readonly retryMaxMs?: number;
  /** Start paused. Default: false. */
  readonly paused?: boolean;
}

/** A standing connection between a replica and a peer, such as {@link connect} makes to a node. */
export interface Connection {
  /** Where it leads. */
  readonly url: string;
  /** Where the connection stands. */
  readonly state: ConnectionState;
  /** Why the last link or attempt ended, if it went wrong. */
  readonly error: TallymeshError | undefined;
  /** When a peer was last heard, in milliseconds since 1970; peers say something every few seconds. */
  readonly heardAt?: number | undefined;
  /** Cuts the link and stays apart until {@link Connection.resume}. */
  pause(): void;
  /** Connects again after {@link Connection.pause}, at once. */
  resume(): void;
  /** Ends the connection for good. The replica stays. */
  close(): void;
  /**
   * Calls `listener` at each change of {@link Connection.state}.
   *
   * @returns a function that ends it.
   */
  subscribe(listener: (state: ConnectionState) => void): () => void;
}
