/** What the node tells of itself in the text format of Prometheus, as rates and as they are. */

/** One reading of all figures. */
export interface Reading {
  readonly at: number;
  readonly samples: ReadonlyMap<string, number>;
}

const LINE = /^([a-z_:][\w:]*)(\{.*\})? (\S+)/i;

/** Reads the text of `/metrics`: each sample by its name with its labels. */
export function parse(text: string, at: number): Reading {
  const samples = new Map<string, number>();
  for (const line of text.split('\n')) {
    const found = LINE.exec(line);
    if (found) samples.set(found[1]! + (found[2] ?? ''), Number(found[3]));
  }
  return { at, samples };
}

/** The sum of all samples with this name, whatever their labels; those with other labels can be left out. */
export function sum({ samples }: Reading, name: string, wanted: (labels: string) => boolean = () => true): number {
  let all = 0;
  for (const [sample, value] of samples) {
    const [own, labels = ''] = split(sample);
    if (own === name && wanted(labels)) all += value;
  }
  return all;
}

/** How much a sum grew a second, between two readings. */
export function rate(before: Reading | undefined, now: Reading, name: string, wanted?: (labels: string) => boolean): number {
  if (!before || now.at <= before.at) return 0;
  const grown = sum(now, name, wanted) - sum(before, name, wanted);
  // A node that was started again counts from 0.
  return (Math.max(grown, 0) * 1_000) / (now.at - before.at);
}

/** Below which of its bounds this part of a histogram's observations lay between two readings; `undefined` if there were none. */
export function quantile(before: Reading | undefined, now: Reading, name: string, part: number): number | undefined {
  const bounds = new Map<number, number>();
  const add = (reading: Reading, way: number): void => {
    for (const [sample, value] of reading.samples) {
      const [own, labels = ''] = split(sample);
      if (own !== `${name}_bucket`) continue;
      const bound = /le="([^"]+)"/.exec(labels)?.[1];
      const at = bound === '+Inf' ? Infinity : Number(bound);
      bounds.set(at, (bounds.get(at) ?? 0) + way * value);
    }
  };
  add(now, 1);
  if (before) add(before, -1);
  const sorted = [...bounds].sort(([a], [b]) => a - b);
  const all = sorted.at(-1)?.[1] ?? 0;
  if (all <= 0) return undefined;
  return sorted.find(([, count]) => count >= all * part)?.[0];
}

/** The refusals that were counted, by code, most first. */
export function refusals({ samples }: Reading): { code: string; protocol: string; count: number }[] {
  const found = [];
  for (const [sample, count] of samples) {
    const [own, labels = ''] = split(sample);
    if (own !== 'tallymesh_refusals_total' || count === 0) continue;
    const read = (label: string): string => new RegExp(`${label}="([^"]*)"`).exec(labels)?.[1] ?? '';
    found.push({ code: read('code'), protocol: read('protocol'), count });
  }
  return found.sort((a, b) => b.count - a.count);
}

function split(sample: string): [string, string | undefined] {
  const brace = sample.indexOf('{');
  return brace < 0 ? [sample, undefined] : [sample.slice(0, brace), sample.slice(brace)];
}
