// The stories of members, step by step: what each member sees, what is refused, and what always holds, by the real
// sync machines of members that the page loads for it.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { brotliCompressSync } from 'node:zlib';
import { launch } from './browser.mjs';
import { serve } from './serve.mjs';
import { site } from './site.mjs';
import { until } from './until.mjs';

/** What the members' module may weigh after brotli. Only who opens one of these stories loads it. */
const MODULE_BYTES_MAX = 238_000;
const MODULE = /\/assets\/members-[^/]*\.wasm$/;

let host;
let browser;

before(async () => {
  host = await serve(site());
  browser = await launch();
});
after(async () => {
  await browser?.close();
  host?.stop();
});

async function opened(story, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1180, height: 900 }, reducedMotion: 'reduce', ...options });
  page.complaints = [];
  page.asked = [];
  page.on('pageerror', (error) => page.complaints.push(String(error)));
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && page.complaints.push(message.text()));
  page.on('request', (request) => page.asked.push(request.url()));
  await page.goto(host.address);
  await page.waitForFunction(() => window.stage !== undefined);
  if (story) await chosen(page, story);
  return page;
}

async function chosen(page, story) {
  await page.click(`.story-tab[data-story="${story}"]`);
  await page.locator('#story[data-ready="true"] #story-views').waitFor();
}

/** The lines of the table by what they are, each with what the members see. */
const views = (page) =>
  page.locator('#story-views tr[data-row]').evaluateAll((rows) => Object.fromEntries(rows.map((row) => [row.dataset.row, [...row.querySelectorAll('td')].map(({ dataset }) => dataset.value).join(' ')])));
/** What always holds, as it is shown, and whether it does. */
const always = (page) => page.locator('.always li').evaluateAll((lines) => Object.fromEntries(lines.map(({ dataset }) => [dataset.always, dataset.value])));
const broken = (page) => page.locator('.always li:not([data-holds="true"])').count();
const drawn = (page) => page.locator('#story-view .vertex').evaluateAll((all) => all.map(({ dataset }) => dataset.value).join(' '));
const lastSaid = (page) => page.locator('.story-log > *').last().textContent();
const numbers = (page) => page.locator('.chips li').evaluateAll((all) => all.map(({ dataset }) => ({ number: dataset.number, at: dataset.at, prize: dataset.prize })));
const deed = (page, who, which) => page.locator(`.deed-column[data-who="${who}"] [data-deed="${which}"]`);

const STORIES = {
  budget: [
    { views: { left: '90 90 90', 'rights-0': '30 30 30', 'rights-1': '30 30 30', 'rights-2': '30 30 30' } },
    { views: { left: '60 60 60', 'rights-0': '20 20 20', 'rights-1': '20 20 20', 'rights-2': '20 20 20' } },
    { views: { left: '60 60 60', 'rights-0': '20 20 20', 'rights-1': '20 20 20', 'rights-2': '20 20 20' } },
    { views: { left: '50 50 40', 'rights-0': '10 10 20', 'rights-1': '20 20 20', 'rights-2': '20 20 0' } },
    { views: { left: '50 50 40', 'rights-0': '10 10 20', 'rights-1': '20 20 20', 'rights-2': '20 20 0' }, said: 'Osaka refuses 10: 0 held here, 40 elsewhere.' },
    { views: { left: '30 30 30' } },
    { views: { left: '20 20 20' }, said: 'Osaka spends 10.' },
    { views: { left: '0 0 0', 'rights-0': '0 0 0', 'rights-1': '0 0 0', 'rights-2': '0 0 0' }, said: 'Quito spends 20.' },
    { views: { left: '0 0 0' }, said: 'Paris refuses 1: 0 held here, 0 elsewhere.' },
  ],
  cashback: [
    { views: { card: '100 100 100', shop: '0 0 0', cashback: '0 0 0' } },
    { views: { card: '80 80 80', shop: '18 18 18', cashback: '2 2 2' } },
    { views: { card: '80 80 80', shop: '18 18 18', cashback: '2 2 2' } },
    { views: { card: '70 70 50', shop: '27 27 45', cashback: '3 3 5' } },
    { views: { card: '70 70 50', shop: '27 27 45', cashback: '3 3 5' }, said: 'Online refuses 20: 0 held here, 50 elsewhere.' },
    { views: { card: '40 40 40', shop: '54 54 54', cashback: '6 6 6' } },
    { views: { card: '40 40 40', shop: '60 60 60', cashback: '0 0 0' }, said: 'Café takes 6 of cashback.' },
  ],
  visitor: [
    { views: { issued: '0 0 0', watched: 'open open open' } },
    { views: { issued: '3 3 3' } },
    { views: { issued: '10 10 10', held: 'none 7–8 13–14' } },
    { views: { issued: '10 10 10' } },
    { views: { issued: '15 15 12', held: 'none none none' } },
    { views: { issued: '15 15 12' }, said: 'West has no number, and can’t get one now. Ask again later.' },
    { views: { issued: '21 21 12', watched: 'open open open' } },
    { views: { watched: 'North North open' } },
    { views: { issued: '30 30 30', watched: 'North North North' } },
  ],
};

for (const [id, steps] of Object.entries(STORIES)) {
  test(`the story "${id}" shows at each step what it must, and what always holds does`, async () => {
    const page = await opened(id);
    const captions = new Set();
    for (const [at, expected] of steps.entries()) {
      await page.click('#story-next');
      const what = `step ${at + 1}`;
      assert.equal(await page.locator('#story').getAttribute('data-step'), String(at + 1));
      const shown = await views(page);
      for (const [row, values] of Object.entries(expected.views)) assert.equal(shown[row], values, `${row} at ${what}`);
      if (expected.said) assert.equal(await lastSaid(page), expected.said, what);
      assert.equal(await drawn(page), shown.left ?? shown.card ?? shown.issued, `the drawing at ${what}`);
      if (id === 'cashback') assert.equal(shown.sum, '100 100 100', what);
      assert.equal(await broken(page), 0, what);
      captions.add(await page.textContent('#story-caption'));
    }
    assert.equal(captions.size, steps.length, 'each step has a caption of its own');
    assert.ok(await page.locator('#story-next').isDisabled());
    const held = await always(page);
    if (id === 'budget') assert.deepEqual([held.lowest, held.astray], ['0', '0']);
    if (id === 'cashback') assert.deepEqual([held.sums, held.lowest], ['100', '0']);
    if (id === 'visitor') {
      const issued = await numbers(page);
      assert.equal(new Set(issued.map(({ number }) => number)).size, issued.length, 'no number twice');
      assert.deepEqual(issued.filter(({ number }) => number === '25'), [{ number: '25', at: '0', prize: 'true' }]);
      assert.deepEqual([held.twice, held.issued], ['0', String(issued.length)]);
    }
    assert.deepEqual(page.complaints, []);
    await page.close();
  });
}

test('a story of members plays by itself to its end, and in each frame what always holds does', async () => {
  const page = await opened('cashback', { reducedMotion: 'no-preference' });
  await page.evaluate(() => {
    window.sums = new Set();
    window.brokenOnce = false;
    const look = () => {
      for (const cell of document.querySelectorAll('#story-views tr[data-row="sum"] td')) window.sums.add(cell.dataset.value);
      window.brokenOnce ||= document.querySelector('.always li:not([data-holds="true"])') !== null;
      requestAnimationFrame(look);
    };
    look();
  });
  await until('it to have played a step', async () => Number(await page.locator('#story').getAttribute('data-step')) >= 2);
  await page.click('#story-play');
  assert.equal(await page.textContent('#story-play'), 'Play');
  await page.click('#story-play');
  await until('it to end', async () => (await page.locator('#story-next').isDisabled()) && (await page.locator('#story').getAttribute('data-settled')) === 'true');
  assert.equal((await views(page)).shop, '60 60 60');
  // Before anything is paid in there is nothing to add up.
  assert.deepEqual([...(await page.evaluate(() => [...window.sums]))].sort(), ['0', '100']);
  assert.equal(await page.evaluate(() => window.brokenOnce), false);
  await page.close();
});

test('a budget can be gone on with by hand and by keyboard: nothing gets it under zero, and the rest is spent to the unit', async () => {
  const page = await opened('budget');
  await page.click('#story-next');
  const cut = deed(page, 'Osaka', 'cut');
  await cut.press('Enter');
  assert.equal(await cut.textContent(), 'Mend');
  assert.equal(await page.locator('#story-view .edge[aria-checked="false"]').count(), 2);
  for (let time = 0; time < 5; time++) {
    await page.locator('#story-view .vertex[data-vertex="Osaka"]').press('Enter');
    await deed(page, 'Quito', 0).press(' ');
  }
  assert.equal(await broken(page), 0);
  const apart = await views(page);
  assert.equal(apart.left, '40 40 60', 'each side spends what it holds');
  assert.match(await page.locator('.story-log').textContent(), /Osaka refuses 10: 0 held here, 60 elsewhere/);
  for (const other of ['Paris', 'Quito']) await page.locator(`#story-view .edge[data-edge="${other}~Osaka"]`).press('Enter');
  assert.equal((await views(page)).left, '10 10 10');
  assert.equal(await cut.textContent(), 'Cut off');
  for (let time = 0; time < 9; time++) await deed(page, 'Osaka', 1).press('Enter');
  assert.equal((await views(page)).left, '1 1 1');
  await deed(page, 'Paris', 1).press('Enter');
  assert.equal((await views(page)).left, '0 0 0');
  await deed(page, 'Paris', 1).press('Enter');
  assert.equal(await lastSaid(page), 'Paris refuses 1: 0 held here, 0 elsewhere.');
  assert.equal(await broken(page), 0);
  assert.deepEqual(page.complaints, []);
  await page.close();
});

test('visitors on both sides of any cut get each number once', async () => {
  const page = await opened('visitor');
  await page.click('#story-next');
  for (const who of ['North', 'East', 'West', 'North', 'West']) {
    await deed(page, who, 'cut').click();
    for (const door of ['North', 'East', 'West', 'East']) await deed(page, door, 0).click();
    await deed(page, who, 'cut').click();
    for (const door of ['West', 'North', 'East', 'West', 'North']) await deed(page, door, 0).click();
  }
  const issued = await numbers(page);
  assert.ok(issued.length > 25, `${issued.length} are handed out`);
  assert.equal(new Set(issued.map(({ number }) => number)).size, issued.length);
  assert.equal(issued.filter(({ number }) => number === '25').length, 1);
  assert.equal(await broken(page), 0);
  await page.close();
});

test('the members’ module is loaded with the first of their stories, and not with the page', async () => {
  const page = await opened();
  await page.click('.story-tab[data-story="retry"]');
  await page.click('#story-next');
  assert.deepEqual(page.asked.filter((url) => MODULE.test(url)), []);
  await chosen(page, 'budget');
  await chosen(page, 'visitor');
  assert.equal(page.asked.filter((url) => MODULE.test(url)).length, 1);
  await page.close();
  const name = readdirSync(join(site(), 'assets')).find((file) => MODULE.test(`/assets/${file}`));
  const bytes = brotliCompressSync(readFileSync(join(site(), 'assets', name))).length;
  assert.ok(bytes < MODULE_BYTES_MAX, `${bytes} bytes, at most ${MODULE_BYTES_MAX}`);
  console.log(`# ${bytes} bytes`);
});

test('a module that can’t be loaded is told of, and can be asked for again', async () => {
  const page = await opened();
  await page.route(MODULE, (route) => route.abort());
  await page.click('.story-tab[data-story="cashback"]');
  await until('it to be told', async () => /could not be loaded/.test(await page.textContent('#story-caption')));
  assert.ok(await page.locator('#story-next').isDisabled());
  await page.unroute(MODULE);
  await page.click('#story-again');
  await page.locator('#story[data-ready="true"] #story-views').waitFor();
  await page.click('.story-tab[data-story="retry"]');
  await page.click('#story-next');
  assert.equal(await page.locator('#story').getAttribute('data-exact'), '10');
  await page.close();
});

for (const [id, colorScheme] of [['budget', 'light'], ['cashback', 'dark'], ['visitor', 'light']]) {
  for (const width of [1180, 390, 320]) {
    test(`the story "${id}" fits ${width} pixels, and axe finds nothing serious`, async () => {
      const page = await opened(id, { colorScheme, viewport: { width, height: 844 } });
      while (await page.locator('#story-next').isEnabled()) await page.click('#story-next');
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width, 'nothing is wider than the screen');
      // Of a table only the narrowest screens show a part, which can be scrolled.
      const wide = await page.locator('#story *').evaluateAll((all, narrow) => {
        const boxes = all.filter((at) => at instanceof HTMLElement && getComputedStyle(at).display !== 'inline');
        const over = boxes.filter((at) => at.scrollWidth > at.clientWidth + 1 && !(narrow && at.classList.contains('scroll')));
        return over.map(({ outerHTML }) => outerHTML.slice(0, 100));
      }, width < 390);
      assert.deepEqual(wide, [], 'nothing is wider than its place');
      await page.evaluate(readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8'));
      const { violations } = await page.evaluate(() => window.axe.run('#story'));
      const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
      assert.deepEqual(serious.map(({ id: rule, nodes }) => [rule, nodes[0].html]), []);
      await page.close();
    });
  }
}
