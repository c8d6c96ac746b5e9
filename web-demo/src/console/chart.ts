import uPlot from 'uplot';
import type { Chosen } from './messages.js';
import { brief, timeOfDay, whole } from './words.js';

const HEIGHT_PX = 210;
const PAD = 0.12;
const LEAST_PART = 1e-9;

/** The values of one counter over time. */
export class Chart {
  readonly #root: HTMLElement;
  readonly #read: HTMLElement;
  #plot: uPlot | undefined;
  #shown: Chosen | undefined;

  constructor(root: HTMLElement, read: HTMLElement) {
    this.#root = root;
    this.#read = read;
    new ResizeObserver(() => this.#fit()).observe(root);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#again());
  }

  /** Shows the history of a counter; another counter begins a new chart. */
  show(chosen: Chosen): void {
    const other = this.#shown?.key !== chosen.key;
    this.#shown = chosen;
    if (this.#root.clientWidth === 0) return;
    if (other || !this.#plot) this.#again();
    else this.#plot.setData(this.#data(chosen));
    this.#describe(chosen);
  }

  #data({ times, values }: Chosen): uPlot.AlignedData {
    return [times as number[], values as (number | null)[]];
  }

  #again(): void {
    this.#plot?.destroy();
    this.#plot = undefined;
    if (!this.#shown || this.#root.clientWidth === 0) return;
    const style = getComputedStyle(this.#root);
    const colour = (name: string): string => style.getPropertyValue(name).trim();
    const [accent, soft, line, wash] = [colour('--accent'), colour('--soft'), colour('--line'), colour('--accent-wash')];
    const font = `12px ${style.fontFamily}`;
    const axis = { stroke: soft, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
    this.#plot = new uPlot(
      {
        width: this.#root.clientWidth,
        height: HEIGHT_PX,
        padding: [10, 26, 0, 0],
        legend: { show: false },
        cursor: { y: false, points: { size: 8, fill: accent }, drag: { x: false, y: false } },
        scales: { y: { range: (_, low, high) => around(low, high) } },
        axes: [
          { ...axis, size: 30, grid: { show: false }, space: 90, values: (_, ticks) => ticks.map((at) => timeOfDay(at * 1_000)) },
          { ...axis, size: (_, texts) => 16 + 7 * Math.max(4, ...(texts ?? []).map(({ length }) => length)), space: 40, values: (_, ticks) => numbers(ticks) },
        ],
        series: [{}, { stroke: accent, width: 2, fill: wash, paths: uPlot.paths.stepped!({ align: 1 }), points: { show: false } }],
        hooks: { setCursor: [(plot) => this.#point(plot)] },
      },
      this.#data(this.#shown),
      this.#root,
    );
  }

  /** Says what is under the pointer. */
  #point(plot: uPlot): void {
    const { idx } = plot.cursor;
    const value = typeof idx === 'number' ? plot.data[1]![idx] : undefined;
    this.#read.textContent = value === undefined ? '' : `${timeOfDay(plot.data[0]![idx!]! * 1_000)}: ${value === null ? 'absent' : whole(value)}`;
  }

  #describe({ key, times, values }: Chosen): void {
    const numbers = values.filter((value) => value !== null);
    if (numbers.length === 0) return;
    const least = numbers.reduce((a, b) => Math.min(a, b));
    const most = numbers.reduce((a, b) => Math.max(a, b));
    const label = `History of ${key} since ${timeOfDay(times[0]! * 1_000)}: from ${whole(numbers[0]!)} to ${whole(numbers.at(-1)!)}, at least ${whole(least)}, at most ${whole(most)}`;
    if (this.#root.getAttribute('aria-label') !== label) this.#root.setAttribute('aria-label', label);
  }

  #fit(): void {
    const { clientWidth } = this.#root;
    if (clientWidth === 0) return;
    if (!this.#plot) this.#again();
    else if (this.#plot.width !== clientWidth) this.#plot.setSize({ width: clientWidth, height: HEIGHT_PX });
  }
}

/** Whole numbers at ticks: in full where they would look alike in brief. */
function numbers(ticks: readonly number[]): string[] {
  const short = ticks.map((at) => (at % 1 === 0 ? brief(at) : ''));
  const alike = new Set(short.filter(Boolean)).size < short.filter(Boolean).length;
  return alike ? ticks.map((at) => (at % 1 === 0 ? whole(at) : '')) : short;
}

/** A range with some room above and below: at least one step, and of large numbers enough to tell ticks apart as they are drawn. */
function around(low: number | null, high: number | null): [number, number] {
  if (low === null || high === null) return [0, 1];
  const room = Math.max((high - low) * PAD, high - low < 4 ? 1 : 0, Math.max(Math.abs(low), Math.abs(high)) * LEAST_PART);
  return [low >= 0 ? Math.max(low - room, 0) : low - room, high + room];
}
