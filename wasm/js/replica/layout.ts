// First of all, so that esbuild puts each where it is used.
const SHARD_BYTES = 40;
const STATUS_BYTES = 48;
const ENTRY_BYTES = 24;

/** What one writer says of one counter. */
export interface Shard {
  /** The writer's id, 32 hex digits. */
  readonly writer: string;
  /** The writer's clock when it last changed this shard. */
  readonly clock: bigint;
  /** What survives of all that the writer did: its adds, and the value that it set if that one counts. */
  readonly total: bigint;
}

/** The members of a space: who answers for it, and when everybody has seen what. */
export interface Members {
  /** How many forced changes of the members there were. */
  readonly era: bigint;
  /** The number of this configuration, from 1. */
  readonly number: bigint;
  /** The members' public keys, 64 hex digits each. */
  readonly owners: readonly string[];
}

/** A writer of the space, as it is known here. */
export interface Writer {
  /** Its id, 32 hex digits. */
  readonly writer: string;
  /** Up to which of its transactions they are held here. */
  readonly clock: bigint;
  /** The public key of its owner, if it is or was a member's. */
  readonly owner?: string;
  /** The member that takes care of it, if it is a guest of one. */
  readonly home?: string;
  /** Who takes over what it counted, or did, once it is gone. */
  readonly heir?: string;
  /** What became of it. */
  readonly fate: 'living' | 'left' | 'dead' | 'absorbed';
}

/** What became of a replica's transactions when it rejoined after it had been declared dead, or had left. */
export interface Returned {
  /** The id under which it writes from now on. */
  readonly writer: string;
  /** The one before. */
  readonly before: string;
  /** How many transactions were made again, since nobody had taken them over. */
  readonly again: number;
  /** The first and the last of those transactions before of which it is not known whether they count. */
  readonly unknown?: readonly [first: bigint, last: bigint];
  /** How many resets, deletes and sets cancel less than they had seen: the rest was taken over by others. */
  readonly weaker: number;
}

/** Writes bytes as hex digits. */
export function hex(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += byte.toString(16).padStart(2, '0');
  return text;
}

/** Reads packed shards: writer, clock, total. */
export function readShards(bytes: Uint8Array): Shard[] {
  const view = new DataView(bytes.buffer);
  const shards: Shard[] = [];
  for (let at = 0; at < bytes.length; at += SHARD_BYTES) {
    shards.push({
      writer: hex(bytes.subarray(at, at + 16)),
      clock: view.getBigUint64(at + 16, true),
      total: (view.getBigInt64(at + 32, true) << 64n) | view.getBigUint64(at + 24, true),
    });
  }
  return shards.sort((a, b) => (a.writer < b.writer ? -1 : 1));
}

/** The numbers of a status, as the engine packs them. */
export interface PackedStatus {
  writer: string;
  clock: bigint;
  counters: number;
  shards: number;
  faults: number;
  vector: Map<string, bigint>;
}

/** Reads a packed status: writer, clock, three counts, then the version vector by writer and clock. */
export function readStatus(bytes: Uint8Array): PackedStatus {
  const view = new DataView(bytes.buffer);
  const number = (at: number): bigint => view.getBigUint64(at, true);
  const vector = new Map<string, bigint>();
  for (let at = STATUS_BYTES; at < bytes.length; at += ENTRY_BYTES) vector.set(hex(bytes.subarray(at, at + 16)), number(at + 16));
  return {
    writer: hex(bytes.subarray(0, 16)),
    clock: number(16),
    counters: Number(number(24)),
    shards: Number(number(32)),
    faults: Number(number(40)),
    vector,
  };
}
