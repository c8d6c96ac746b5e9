// What the replicas of one origin, or at both ends of a port, say to each other.

/** Says that a message is one of ours, and of which version. */
const VERSION = 1;

/** The greatest frame that Tallymesh writes, in bytes. */
export const FRAME_BYTES_MAX = 2 << 20;

/** A message: who says it, whether that one holds the lock of its name, to whom if not to all, and what. */
export type Message = { readonly from: string; readonly locked: boolean; readonly to?: string | undefined } & Said;

/** What is said. Each side numbers its links: `mine` is the sender's number of one, `yours` the receiver's. */
export type Said =
  /** The sender is there; said once when it comes, and then by who cannot show it in another way. */
  | { readonly kind: 'join' | 'alive' }
  /** The sender begins a link, or, with `yours`, takes part in the one that was begun under that number. */
  | { readonly kind: 'open'; readonly mine: number; readonly yours?: number | undefined }
  | { readonly kind: 'frame'; readonly yours: number; readonly frame: Uint8Array }
  /** The sender has ended the link. */
  | { readonly kind: 'close'; readonly yours: number }
  /** The sender goes. */
  | { readonly kind: 'bye' };

/** Makes what is sent of a message. */
export function written(message: Message): object {
  return { tallymesh: VERSION, ...message };
}

/**
 * Reads what came. Anybody may send anything: `undefined` is for somebody else, and of what says that it is ours
 * and is wrong only the name that it goes by is left.
 */
export function read(data: unknown): Message | { readonly from: string; readonly kind: 'malformed' } | undefined {
  if (typeof data !== 'object' || data === null || !('tallymesh' in data) || data.tallymesh !== VERSION) return undefined;
  const { from, to, kind, mine, yours, frame, ...rest } = data as Partial<Record<string, unknown>>;
  if (typeof from !== 'string') return undefined;
  if (to !== undefined && typeof to !== 'string') return { from, kind: 'malformed' };
  const locked = rest['locked'] === true;
  switch (kind) {
    case 'join':
    case 'alive':
      return { from, locked, to, kind };
    case 'open':
      if (!isNumber(mine) || !(yours === undefined || isNumber(yours))) break;
      return { from, locked, to, kind, mine, yours };
    case 'frame':
      if (!isNumber(yours) || !(frame instanceof Uint8Array)) break;
      return { from, locked, to, kind, yours, frame };
    case 'close':
      if (!isNumber(yours)) break;
      return { from, locked, to, kind, yours };
    case 'bye':
      return { from, locked, to, kind };
  }
  return { from, kind: 'malformed' };
}

function isNumber(value: unknown): value is number {
  return Number.isSafeInteger(value);
}
