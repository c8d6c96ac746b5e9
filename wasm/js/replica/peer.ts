import type { TallymeshError } from '../internal/errors.js';

/** The other end of a link, as the replica uses it. */
export interface Peer {
  /** Sends one frame. A frame that gets lost is made good later. */
  send(frame: Uint8Array): void;
  /** Called once when the replica gives the peer up: it misbehaved or speaks another version. */
  close(reason: TallymeshError): void;
}

/** A live link between a replica and a peer. */
export interface Link {
  /** Takes one frame that came from the peer. */
  receive(frame: Uint8Array): void;
  /** Ends the link. Closing twice does no harm. */
  close(): void;
}
