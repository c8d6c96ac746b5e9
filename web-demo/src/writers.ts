import type { Shard } from 'tallymesh';

/** The writers that were shown, each with its place. */
const seen = new Map<string, number>();

/** The colour of a writer on this page; this tab's own is the page's accent. */
export function writerColour(writer: string, self: string): string {
  if (writer === self) return 'var(--accent)';
  const place = seen.get(writer) ?? seen.size;
  seen.set(writer, place);
  // Golden-ratio steps keep the first dozen apart; the band around the accent's own hue is left out.
  const turn = ((place * 0.618034) % 1) * 270;
  return `hsl(${Math.round(turn + 215) % 360} 62% var(--segment-light))`;
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
