// Makes pictures, wide and on a phone, light and dark: of the static site the stage and each story, and of three nodes
// that are counted at the console. `node shots.mjs SITE OUT`; CHROME names the browser, TALLYMESH_BIN the node.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { launch } from '../../tests/e2e/browser.mjs';
import { nodes } from '../../tests/e2e/nodes.mjs';
import { serve } from '../../tests/e2e/serve.mjs';

const [site, out] = process.argv.slice(2);
const STORIES = ['partition', 'retry', 'delete', 'killed', 'budget', 'cashback', 'visitor'];
/** How long is counted before the console is pictured: its curves show a minute. */
const CONSOLE_MS = 62_000;
/** After so long each row was written anew. */
const SETTLED_MS = 1_500;
const LOOKS = { wide: { width: 1180, height: 1010 }, phone: { width: 390, height: 844 } };

mkdirSync(out, { recursive: true });
const { address, stop } = await serve(site);
const browser = await launch();
try {
  for (const [look, viewport] of Object.entries(LOOKS)) {
    for (const colorScheme of ['light', 'dark']) await shoot(look, viewport, colorScheme);
  }
  await shootConsole();
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
    await page.locator('#story[data-ready="true"]').waitFor();
    while (await page.locator('#story-next').isEnabled()) await page.click('#story-next');
    // Colours take a moment to change.
    await page.waitForTimeout(400);
    await save(`story-${story}`, page.locator('#story'));
  }
  await page.locator('#replicas').fill('50');
  await count([3, 14, 25, 36, 47]);
  await page.waitForTimeout(700);
  await save('stage-50', page.locator('.stage'));
  await save('counters', page.locator('#demo'));
  await context.close();
}

/** Waits until the replicas show these numbers, and no others. */
function shows(page, numbers) {
  return page.waitForFunction((wanted) => {
    const values = new Set(window.stage.here.map(({ value }) => String(value)));
    return [...values].sort().join() === wanted && document.querySelector('#stage-status').textContent !== '';
  }, numbers);
}

/** The console of one of three nodes at which is counted, after it was looked at for a while. */
async function shootConsole() {
  const cluster = await nodes();
  const add = (address, lines) =>
    fetch(`${address}/v1/spaces/default/add`, { method: 'POST', body: lines.map((line) => line.join('\t')).join('\n') });
  const pages = Array.from({ length: 4_000 }, (_, at) => [`views:article-${String(at).padStart(4, '0')}`, 1 + ((at * 7_919) % 90_000)]);
  const start = [['api:errors', 212], ['api:requests', 18_204_551], ['cart:open', 61], ['downloads', 90_211], ['jobs:done', 431_977], ['jobs:waiting', 340]];
  await add(cluster.addresses[0], [...start, ['likes', 48_120], ['mail:sent', 7_040], ['search:queries', 1_288_034], ['signups', 9_312], ...pages]);
  let round = 0;
  const wave = (height, length) => Math.round(height * (1 + Math.sin(round / length)));
  const counting = setInterval(() => {
    round++;
    const more = [
      [['api:requests', 20 + wave(9, 20)], ['jobs:waiting', wave(6, 9) - 6], ['jobs:done', wave(2, 30)], ['search:queries', (round * 7) % 11]],
      [['likes', (round % 5) + 1], ['api:requests', wave(4, 13)], [`views:article-${String((round * 37) % 40).padStart(4, '0')}`, 3]],
      [...(round % 23 < 4 ? [['api:errors', 1]] : []), ...(round % 9 === 0 ? [['cart:open', round % 27 === 0 ? 4 : -1], ['signups', 1]] : []), ['downloads', wave(1, 40)]],
    ];
    for (const [at, lines] of more.entries()) void add(cluster.addresses[at], lines).catch(() => {});
  }, 200);
  try {
    const page = await browser.newPage({ viewport: LOOKS.wide });
    await page.goto(`${cluster.addresses[0]}/#console`);
    await page.locator('#ledger-status[data-state="live"]').waitFor();
    await page.locator('#grid-body [data-key="api:requests"]').click();
    await page.hover('#ledger-title');
    await page.waitForTimeout(CONSOLE_MS);
    for (const [look, viewport] of Object.entries(LOOKS)) {
      await page.setViewportSize(viewport);
      for (const colorScheme of ['light', 'dark']) {
        await page.emulateMedia({ colorScheme });
        const save = (name, fullPage = false) => page.screenshot({ path: join(out, `${name}-${look}-${colorScheme}.png`), fullPage });
        const back = page.locator('#detail-back');
        if (await back.isVisible()) await back.click();
        await page.mouse.move(0, 0);
        await page.evaluate(() => scrollTo(0, 0));
        await page.waitForTimeout(SETTLED_MS);
        await save('console');
        await save('console-whole', true);
        if (look === 'phone') {
          await page.locator('#grid-body [data-key="api:requests"]').click();
          await page.waitForTimeout(SETTLED_MS);
          await page.locator('#detail').screenshot({ path: join(out, `console-counter-${look}-${colorScheme}.png`) });
        }
        await page.click('#detail-delete');
        await save('console-question');
        await page.click('#question-cancel');
      }
    }
    await page.close();
  } finally {
    clearInterval(counting);
    await cluster.stop();
  }
}
