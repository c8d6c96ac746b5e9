import type { Shard } from 'tallymesh';

/** The colour of a writer, the same in every tab; this tab's own is the page's accent. */
export function writerColour(writer: string, self: string): string {
  if (writer === self) return 'var(--accent)';
  // Golden-angle steps spread neighbouring ids; the band around the accent's own hue is left out.
  const turn = (Number.parseInt(writer.slice(0, 4), 16) * 137.508) % 270;
  return `hsl(${(turn + 205) % 360} 62% var(--segment-light))`;
}

/** The start of an id: enough to tell a handful of writers apart. */
export function short(id: string): string {
  return id.slice(0, 8);
}

/** Each shard's part of all that was ever added or taken away, largest first, in percent. */
export function shares(shards: Shard[]): { shard: Shard; percent: number }[] {
  const size = (shard: Shard): number => Math.abs(Number(shard.total));
  const all = shards.reduce((sum, shard) => sum + size(shard), 0) || 1;
  return shards
    .map((shard) => ({ shard, percent: (size(shard) / all) * 100 }))
    .sort((a, b) => b.percent - a.percent);
}
