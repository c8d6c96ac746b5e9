/** What one writer says of one counter. */
export interface Shard {
  /** The writer's id, 32 hex digits. */
  readonly writer: string;
  /** The writer's clock when it last changed this shard. */
  readonly clock: bigint;
  /** The sum of all that the writer added to the counter. */
  readonly total: bigint;
}

/** Writes bytes as hex digits. */
export function hex(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += byte.toString(16).padStart(2, '0');
  return text;
}

const SHARD_BYTES = 32;
const ENTRY_BYTES = 24;

/** Reads packed shards: writer, clock, total. */
export function readShards(bytes: Uint8Array): Shard[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const shards: Shard[] = [];
  for (let at = 0; at < bytes.length; at += SHARD_BYTES) {
    shards.push({
      writer: hex(bytes.subarray(at, at + 16)),
      clock: view.getBigUint64(at + 16, true),
      total: view.getBigInt64(at + 24, true),
    });
  }
  return shards.sort((a, b) => (a.writer < b.writer ? -1 : 1));
}

/** Reads a packed version vector: writer, clock. */
export function readVector(bytes: Uint8Array): Map<string, bigint> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const vector: [string, bigint][] = [];
  for (let at = 0; at < bytes.length; at += ENTRY_BYTES) {
    vector.push([hex(bytes.subarray(at, at + 16)), view.getBigUint64(at + 16, true)]);
  }
  return new Map(vector.sort((a, b) => (a[0] < b[0] ? -1 : 1)));
}
