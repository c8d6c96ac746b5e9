// How quick the page is, on loopback: `node figures.mjs SITE`; CHROME names the browser. Prints one JSON object.
import { launch } from '../../tests/e2e/browser.mjs';
import { serve } from '../../tests/e2e/serve.mjs';

const LOOK_MS = 10_000;
const [site] = process.argv.slice(2);
const { address, stop } = await serve(site);
const browser = await launch();
try {
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
  console.log(JSON.stringify({ firstContentfulPaintMs: Math.round(firstPaintMs), domContentLoadedMs: Math.round(readyMs), ...busy }, null, 2));
} finally {
  await browser.close();
  stop();
}
