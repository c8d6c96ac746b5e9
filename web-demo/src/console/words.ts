/** Numbers and times as people read them. */
import { grouped } from '../number.js';

const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const few = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });

/** A whole number in full. */
export function whole(value: number): string {
  return grouped(BigInt(Math.round(value)));
}

/** A number in about four signs, such as 12.3K. */
export function brief(value: number): string {
  return (Math.abs(value) < 10_000 ? few : short).format(value).replace('-', '\u2212');
}

/** What something changes by, with its sign; nothing if it does not change. */
export function perSecond(rate: number): string {
  if (Math.abs(rate) < 0.05) return '';
  return `${rate > 0 ? '+' : ''}${brief(rate)}/s`;
}

const BYTES = ['B', 'KB', 'MB', 'GB', 'TB'];

/** Bytes, with the unit that suits them. */
export function bytes(count: number): string {
  const power = count < 1 ? 0 : Math.min(Math.floor(Math.log10(count) / 3), BYTES.length - 1);
  return `${few.format(power === 0 ? Math.round(count) : count / 1_000 ** power)} ${BYTES[power]}`;
}

/** A span of time, in the unit that suits it. */
export function span(seconds: number): string {
  if (seconds < 0.001) return `${few.format(seconds * 1e6)} µs`;
  if (seconds < 1) return `${few.format(seconds * 1_000)} ms`;
  if (seconds < 120) return `${few.format(Math.round(seconds))} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}

/** The time of day. */
export function timeOfDay(ms: number): string {
  return clock.format(ms);
}
