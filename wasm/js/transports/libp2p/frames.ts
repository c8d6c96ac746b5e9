// How frames travel over libp2p: docs/protocol.md, section 10.
import { FRAME_BYTES_MAX } from '../messages.js';

/** Frames from peer to peer. */
export const SYNC = '/tallymesh/sync/2';
/** A ticket that is shown. */
export const JOIN = '/tallymesh/join/1';

/** The topic on which fresh changes of a space are pushed. */
export const topicOf = (space: string): string => `/tallymesh/space/1/${space}`;

const LENGTH_BYTES = 4;

/** Most bytes of a request: the greatest frame. */
export const REQUEST_BYTES_MAX = LENGTH_BYTES + FRAME_BYTES_MAX;

/** Most bytes of a request with several frames. */
const BATCH_BYTES_MAX = (64 << 10) - 1;

// Where a frame says what it is, and the types that matter here.
const TYPE_AT = 3;
const HELLO = 1;
const PUSH = 6;
const SPACE_BYTES_MAX = 64;

export const isHello = (frame: Uint8Array): boolean => frame[TYPE_AT] === HELLO;
export const isPush = (frame: Uint8Array): boolean => frame[TYPE_AT] === PUSH;

/** The space of a frame; nothing if it is none. */
export function spaceOf(frame: Uint8Array): string | undefined {
  const [t, m, , , length = 0] = frame;
  const start = TYPE_AT + 2;
  if (t !== 0x74 || m !== 0x6d || length < 1 || length > SPACE_BYTES_MAX || frame.length < start + length) return undefined;
  return String.fromCharCode(...frame.subarray(start, start + length));
}

/** Takes the first frames out of a queue, as many as one request may have. */
export function takeRequest(queue: Uint8Array[]): Uint8Array<ArrayBuffer> {
  let bytes = 0;
  const over = queue.findIndex((frame, at) => (bytes += LENGTH_BYTES + frame.length) > BATCH_BYTES_MAX && at > 0);
  const frames = queue.splice(0, over < 0 ? queue.length : over);
  const request = new Uint8Array(frames.reduce((sum, { length }) => sum + LENGTH_BYTES + length, 0));
  const view = new DataView(request.buffer);
  let at = 0;
  for (const frame of frames) {
    view.setUint32(at, frame.length, true);
    request.set(frame, at + LENGTH_BYTES);
    at += LENGTH_BYTES + frame.length;
  }
  return request;
}

/** Takes a request apart; `undefined` if it is none. */
export function framesOf(request: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[] | undefined {
  const view = new DataView(request.buffer, request.byteOffset, request.length);
  const frames = [];
  for (let at = 0; at < request.length; ) {
    if (request.length - at < LENGTH_BYTES) return undefined;
    const length = view.getUint32(at, true);
    at += LENGTH_BYTES;
    if (length > request.length - at) return undefined;
    frames.push(request.slice(at, at + length));
    at += length;
  }
  return frames;
}
