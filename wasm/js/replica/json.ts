import type { Shard } from './layout.js';
import type { Status } from './replica.js';

/** A replica's full shard map as JSON; numbers of 64 bits and more are decimal strings. */
export interface ReplicaJSON {
  /** The space. */
  space: string;
  /** The writer id of the replica that made this. */
  writer: string;
  /** That writer's clock. */
  clock: string;
  /** Writer id -> up to which of its transactions the replica has seen. */
  vector: Record<string, string>;
  /** Key -> value and shards. */
  counters: Record<string, CounterJSON>;
}

/** One counter of a {@link ReplicaJSON}. */
export interface CounterJSON {
  /** The sum of the shards' totals. */
  value: string;
  /** When it expires, in milliseconds since 1970, if it does. */
  expires_at?: string;
  /** Writer id -> what it says. */
  shards: Record<
    string,
    {
      /** The writer's clock when it last changed this. */
      clock: string;
      /** What survives of all that the writer did. */
      total: string;
    }
  >;
}

/** Makes the JSON shape, the same as every other surface of Tallymesh shows. */
export function toJSON(status: Status, counters: [key: string, value: bigint, expiresAt: Date | undefined, shards: Shard[]][]): ReplicaJSON {
  return {
    space: status.space,
    writer: status.writer,
    clock: String(status.clock),
    vector: record([...status.vector].map(([writer, clock]) => [writer, String(clock)])),
    counters: record(
      counters.map(([key, value, expiresAt, shards]) => [
        key,
        {
          value: String(value),
          ...(expiresAt && { expires_at: String(+expiresAt) }),
          shards: record(
            shards.map(({ writer, clock, total }) => [writer, { clock: String(clock), total: String(total) }]),
          ),
        },
      ]),
    ),
  };
}

/** A plain record; `fromEntries` defines properties, so a key like `__proto__` is only a key. */
function record<T>(entries: [string, T][]): Record<string, T> {
  return Object.fromEntries(entries) as Record<string, T>;
}
