// In the page: what page.mjs asks of it, with what held up its main thread meanwhile.
import { open } from './dist/browser.js';
import { indexedDb } from './dist/storage.js';

const DEADLINE_MS = 60_000;

let counters;
let told = 0;
let sum = 0n;

/** Runs `work` and waits for what it promises; gives how long that took, and how long the main thread was held up. */
async function watched(work) {
  // In a task of its own, and not in one that somebody else made long.
  await new Promise((resolve) => setTimeout(resolve));
  const began = performance.now();
  const long = [];
  const observer = new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) if (startTime > began - 1) long.push(duration);
  });
  observer.observe({ type: 'longtask' });
  // A task that is due at once, again and again: the longest wait for it is what a click would have waited.
  let longestMs = 0;
  let running = true;
  const { port1, port2 } = new MessageChannel();
  let last = began;
  port1.onmessage = () => {
    const now = performance.now();
    longestMs = Math.max(longestMs, now - last);
    last = now;
    if (running) port2.postMessage(0);
  };
  port2.postMessage(0);
  const result = await work();
  const tookMs = performance.now() - began;
  // What is long is told after it.
  await new Promise((resolve) => setTimeout(resolve, 150));
  running = false;
  observer.disconnect();
  return { tookMs, longestMs, longTasks: long.length, longestTaskMs: Math.max(0, ...long), result };
}

/** Looks again and again, without holding anything up. */
async function until(look) {
  const end = performance.now() + DEADLINE_MS;
  while (!look()) {
    if (performance.now() > end) throw new Error(`waited ${DEADLINE_MS} ms in vain`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

globalThis.tab = {
  /** Opens the counters, and waits until there are as many as are to come. */
  open: (transports, many = 0) =>
    watched(async () => {
      counters = await open({ storage: indexedDb(), transports, retryMaxMs: 200 });
      await until(() => counters.status().counters >= many);
      return counters.status().shards;
    }),
  /** Waits until the stored state is durable. */
  flush: () => watched(() => counters.flush()),
  /** Listens to all counters, as a page that shows them. */
  listen: () =>
    watched(() => {
      counters.subscribe({ prefix: '' }, (value) => {
        told++;
        sum = value;
      });
    }),
  /** Waits until a counter has a value. */
  reach: (key, value) => watched(() => until(() => counters.get(key) === BigInt(value))),
  pause: () => counters.connections[0].pause(),
  /** Connects again, and waits until a counter has a value. */
  resume: (key, value) =>
    watched(() => {
      counters.connections[0].resume();
      return until(() => counters.get(key) === BigInt(value));
    }),
  /** Counts so many a second, each another one of `names`, for a while. */
  steady: (names, rate, seconds) =>
    watched(async () => {
      const end = performance.now() + seconds * 1_000;
      for (let at = 0; performance.now() < end; ) {
        for (let more = rate / 50; more > 0; more--) counters.add(names[(at++ * 7_919) % names.length]);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }),
  told: () => [told, String(sum)],
  close: () => watched(() => counters.close()),
};
