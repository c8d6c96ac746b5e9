// Makes pictures of the static site: the stage and each story, wide and on a phone, light and dark.
// `node shots.mjs SITE OUT`; CHROME names the browser.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { launch } from '../../tests/e2e/browser.mjs';
import { serve } from '../../tests/e2e/serve.mjs';

const [site, out] = process.argv.slice(2);
const STORIES = ['partition', 'retry', 'delete', 'killed'];
const LOOKS = { wide: { width: 1180, height: 1010 }, phone: { width: 390, height: 844 } };

mkdirSync(out, { recursive: true });
const { address, stop } = await serve(site);
const browser = await launch();
try {
  for (const [look, viewport] of Object.entries(LOOKS)) {
    for (const colorScheme of ['light', 'dark']) await shoot(look, viewport, colorScheme);
  }
} finally {
  await browser.close();
  stop();
}

async function shoot(look, viewport, colorScheme) {
  const context = await browser.newContext({ viewport, colorScheme, deviceScaleFactor: look === 'phone' ? 2 : 1 });
  const page = await context.newPage();
  const save = (name, target = page) => target.screenshot({ path: join(out, `${name}-${look}-${colorScheme}.png`) });
  await page.goto(address);
  await page.waitForFunction(() => window.stage !== undefined);
  // Some counts, a cut through the middle, and counts on both sides of it.
  const count = (list) => page.evaluate((at) => at.forEach((index) => window.stage.count(window.stage.here[index])), list);
  await count([0, 1, 2, 2, 3, 4, 5, 5, 0, 1, 3, 4]);
  await shows(page, '12');
  await page.click('#cut-half');
  await count([0, 0, 2, 3, 3, 3, 4, 4, 1]);
  await shows(page, '15,18');
  await count([1]);
  await page.waitForTimeout(200);
  await page.evaluate(() => scrollTo(0, 0));
  await save('page');
  await page.locator('#stage-title').evaluate((title) => title.closest('section').scrollIntoView());
  await save('stage', page.locator('.stage'));
  await shows(page, '16,18');
  await save('inside', page.locator('.inside'));
  await page.click('#heal');
  await shows(page, '22');
  for (const story of STORIES) {
    await page.click(`[data-story="${story}"].story-tab`);
    await page.click('#story-again');
    while (await page.locator('#story-next').isEnabled()) await page.click('#story-next');
    await save(`story-${story}`, page.locator('#story'));
  }
  await page.locator('#replicas').fill('50');
  await count([3, 14, 25, 36, 47]);
  await page.waitForTimeout(700);
  await save('stage-50', page.locator('.stage'));
  await save('counters', page.locator('main'));
  await context.close();
}

/** Waits until the replicas show these numbers, and no others. */
function shows(page, numbers) {
  return page.waitForFunction((wanted) => {
    const values = new Set(window.stage.here.map(({ value }) => String(value)));
    return [...values].sort().join() === wanted && document.querySelector('#stage-status').textContent !== '';
  }, numbers);
}
