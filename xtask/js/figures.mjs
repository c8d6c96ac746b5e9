// How quick the page is, on loopback: `node figures.mjs SITE`; CHROME names the browser, TALLYMESH_BIN the node whose
// console is measured. Prints one JSON object.
import { launch } from '../../tests/e2e/browser.mjs';
import { oneNode } from '../../tests/e2e/nodes.mjs';
import { serve } from '../../tests/e2e/serve.mjs';

const LOOK_MS = 10_000;
const COUNTERS = 100_000;
/** Lines of one bulk add that are one transaction. */
const LINES_MAX = 9_999;
const [site] = process.argv.slice(2);
const browser = await launch();
try {
  console.log(JSON.stringify({ stage: await stage(), console: await consoleOfMany() }, null, 2));
} finally {
  await browser.close();
}

/** Fifty replicas in the static page, at which everyone counts. */
async function stage() {
  const { address, stop } = await serve(site);
  const page = await browser.newPage({ viewport: { width: 1180, height: 1010 } });
  await page.goto(address);
  await page.waitForFunction(() => window.stage !== undefined);
  const firstPaintMs = await page.evaluate(async () => {
    const painted = () => performance.getEntriesByName('first-contentful-paint')[0]?.startTime;
    while (painted() === undefined) await new Promise(requestAnimationFrame);
    return painted();
  });
  const readyMs = await page.evaluate(() => performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd);
  await page.locator('#replicas').fill('50');
  await page.locator('#rate').fill('20');
  await page.locator('#everyone').click();
  // The making of fifty replicas is not what is asked here.
  await page.waitForFunction(() => window.tallymesh.get('likes') > 20n);
  const busy = await page.evaluate(async (lookMs) => {
    const long = [];
    const observer = new PerformanceObserver((list) => long.push(...list.getEntries().map(({ duration }) => duration)));
    observer.observe({ type: 'longtask' });
    const [began, sent] = [performance.now(), window.stage.mesh.sent];
    let frames = 0;
    let slowest = 0;
    for (let last = began; last - began < lookMs; frames++) {
      const now = await new Promise(requestAnimationFrame);
      if (frames > 0) slowest = Math.max(slowest, now - last);
      last = now;
    }
    const seconds = (performance.now() - began) / 1_000;
    return {
      replicas: window.stage.here.length,
      framesASecond: Math.round(frames / seconds),
      messagesASecond: Math.round((window.stage.mesh.sent - sent) / seconds),
      longTasks: long.length,
      longestTaskMs: Math.round(Math.max(0, ...long)),
      longestFrameMs: Math.round(slowest),
    };
  }, LOOK_MS);
  await page.close();
  stop();
  return { firstContentfulPaintMs: Math.round(firstPaintMs), domContentLoadedMs: Math.round(readyMs), ...busy };
}

/**
 * The console of a node with many counters, and with changes all the while: from the opening of the page until all are
 * read; then it is scrolled through, searched and sorted.
 */
async function consoleOfMany() {
  const node = await oneNode();
  const add = (lines) => fetch(`${node.address}/v1/spaces/default/add`, { method: 'POST', body: lines.join('\n') });
  const key = (at) => `counter:${String((at * 7_919) % COUNTERS).padStart(6, '0')}`;
  for (let from = 0; from < COUNTERS; from += LINES_MAX) {
    await add(Array.from({ length: Math.min(LINES_MAX, COUNTERS - from) }, (_, at) => `${key(from + at)}\t${(from + at) % 1_000}`));
  }
  let changed = 0;
  const counting = setInterval(() => void add(Array.from({ length: 50 }, () => `${key(changed++)}\t1`)).catch(() => {}), 100);
  try {
    const page = await browser.newPage({ viewport: { width: 1180, height: 1010 } });
    await page.addInitScript(() => {
      window.long = [];
      new PerformanceObserver((list) => window.long.push(...list.getEntries().map(({ startTime, duration }) => ({ startTime, duration })))).observe({ type: 'longtask', buffered: true });
    });
    await page.goto(`${node.address}/#console`);
    const [usable, all] = await page.evaluate(async (count) => {
      const met = async (test) => {
        while (!test()) await new Promise(requestAnimationFrame);
        return performance.now();
      };
      const status = document.getElementById('ledger-status');
      return [
        await met(() => document.querySelector('#grid-body .g-value[data-value]:not([data-value=""])')),
        await met(() => status.dataset.state === 'live' && status.textContent.startsWith(count)),
      ];
    }, COUNTERS.toLocaleString('en'));
    await page.waitForTimeout(2_000);
    const begun = await page.evaluate(() => performance.now());
    const frames = await page.evaluate(async () => {
      const grid = document.getElementById('grid');
      let [seen, slowest, last] = [0, 0, performance.now()];
      const start = last;
      while (last - start < 5_000) {
        grid.scrollTop = ((last - start) / 5_000) * (grid.scrollHeight - grid.clientHeight);
        const now = await new Promise(requestAnimationFrame);
        slowest = Math.max(slowest, now - last);
        last = now;
        seen++;
      }
      return { aSecond: Math.round((seen * 1_000) / (last - start)), slowest: Math.round(slowest) };
    });
    for (const sort of ['value', 'recent', 'key']) {
      await page.click(`#grid-head [data-sort="${sort}"]`);
      await page.waitForTimeout(500);
    }
    await page.locator('#find').pressSequentially('counter:01234', { delay: 80 });
    await page.waitForTimeout(1_000);
    const long = await page.evaluate(() => window.long);
    const longest = (entries) => Math.round(Math.max(0, ...entries.map(({ duration }) => duration)));
    await page.close();
    return {
      counters: COUNTERS,
      changesASecond: 500,
      firstRowsMs: Math.round(usable),
      allReadMs: Math.round(all),
      longestTaskWhileReadingMs: longest(long.filter(({ startTime }) => startTime < begun)),
      longestTaskInUseMs: longest(long.filter(({ startTime }) => startTime >= begun)),
      framesASecondScrolling: frames.aSecond,
      longestFrameScrollingMs: frames.slowest,
    };
  } finally {
    clearInterval(counting);
    await node.stop();
  }
}
