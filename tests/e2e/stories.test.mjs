// The stories of the page, step by step: every number that is shown against the exact one.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch } from './browser.mjs';
import { serve } from './serve.mjs';
import { site } from './site.mjs';
import { until } from './until.mjs';

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

/**
 * What each way of counting shows after each step, and what is exact. Tallymesh is to show the exact number as soon as
 * everybody could hear of everything; the other two are wrong in the way that their kind is.
 */
const STORIES = {
  partition: {
    people: ['Ada', 'Ben', 'Cleo'],
    steps: [
      { exact: '1', tallymesh: '1 1 1', register: '1 1 1', naive: '1 1 1' },
      { exact: '1', tallymesh: '1 1 1', register: '1 1 1', naive: '1 1 1' },
      { exact: '5', tallymesh: '1 5 1', register: '1 5 1', naive: '1 5 1' },
      { exact: '8', tallymesh: '4 5 4', register: '2 5 2', naive: '4 5 4' },
      { exact: '8', tallymesh: '8 8 8', register: '2 2 2', naive: '4 5 4' },
    ],
  },
  retry: {
    people: ['Shop', 'Bank'],
    steps: [
      { exact: '10', tallymesh: '10 10', register: '10 10', naive: '10 10' },
      { exact: '15', tallymesh: '15 15', register: '15 15', naive: '15 15' },
      { exact: '15', tallymesh: '15 15', register: '15 15', naive: '15 15' },
      { exact: '15', tallymesh: '15 15', register: '15 15', naive: '15 20' },
      { exact: '15', tallymesh: '15 15', register: '15 15', naive: '15 20' },
    ],
  },
  delete: {
    people: ['Ada', 'Ben'],
    steps: [
      { exact: '7', tallymesh: '7 7', register: '7 7', naive: '7 7' },
      { exact: '7', tallymesh: '7 7', register: '7 7', naive: '7 7' },
      { exact: '2', tallymesh: 'absent 9', register: 'absent 9', naive: 'absent 9' },
      { exact: '2', tallymesh: '2 2', register: '9 9', naive: 'absent 9' },
      { exact: '3', tallymesh: '3 3', register: '10 10', naive: '1 10' },
    ],
  },
  killed: {
    people: ['Tab 1', 'Tab 2', 'Tab 3'],
    steps: [
      { exact: '5', tallymesh: '3 2', register: '3 2', naive: '3 2' },
      { exact: '5', tallymesh: '5 5', register: '2 2', naive: '5 5' },
      { exact: '5', tallymesh: 'gone 5', register: 'gone 2', naive: 'gone 5' },
      { exact: '6', tallymesh: 'gone 6 6', register: 'gone 3 3', naive: 'gone 6 1' },
      { exact: '7', tallymesh: 'gone 7 7', register: 'gone 4 4', naive: 'gone 7 2' },
    ],
  },
};

async function opened(options = {}) {
  const page = await browser.newPage({ viewport: { width: 1180, height: 900 }, ...options });
  await page.goto(host.address);
  await page.waitForFunction(() => window.stage !== undefined);
  return page;
}

const row = (page, way) =>
  page.locator(`#story-compare tr[data-way="${way}"] td`).evaluateAll((cells) => cells.map(({ dataset }) => dataset.value).join(' '));
const drawn = (page) =>
  page.locator('#story-view .vertex').evaluateAll((all) => all.map(({ dataset }) => (dataset.state === 'gone' ? 'gone' : dataset.value)).join(' '));
const shown = async (page) => ({
  exact: await page.locator('#story').getAttribute('data-exact'),
  tallymesh: await row(page, 'tallymesh'),
  register: await row(page, 'register'),
  naive: await row(page, 'naive'),
});

for (const [id, { people, steps }] of Object.entries(STORIES)) {
  test(`the story "${id}" shows at each step what it must`, async () => {
    const page = await opened({ reducedMotion: 'reduce' });
    await page.click(`.story-tab[data-story="${id}"]`);
    const captions = new Set();
    for (const [at, expected] of steps.entries()) {
      await page.click('#story-next');
      assert.equal(await page.locator('#story').getAttribute('data-step'), String(at + 1));
      assert.deepEqual(await shown(page), expected, `step ${at + 1}`);
      assert.equal(await drawn(page), expected.tallymesh, `the drawing at step ${at + 1}`);
      captions.add(await page.textContent('#story-caption'));
    }
    assert.equal(captions.size, steps.length, 'each step has a caption of its own');
    assert.ok(await page.locator('#story-next').isDisabled());
    const names = await page.locator('#story-compare tr:first-child th').allTextContents();
    assert.deepEqual(names, people);
    await page.close();
  });
}

test('a story plays by itself to the same end, and can be paused', async () => {
  const page = await opened();
  await page.click('.story-tab[data-story="retry"]');
  await until('the story to play', async () => (await page.locator('#story').getAttribute('data-step')) === '2');
  await page.click('#story-play');
  assert.equal(await page.textContent('#story-play'), 'Play');
  const step = await page.locator('#story').getAttribute('data-step');
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  assert.equal(await page.locator('#story').getAttribute('data-step'), step);
  await page.click('#story-play');
  await until('the story to end', async () => (await page.locator('#story-next').isDisabled()) && (await page.locator('#story').getAttribute('data-settled')) === 'true');
  assert.deepEqual(await shown(page), STORIES.retry.steps.at(-1));
  await page.close();
});

test('a story can be gone on with by hand', async () => {
  const page = await opened({ reducedMotion: 'reduce' });
  await page.click('.story-tab[data-story="delete"]');
  await page.click('#story-next');
  const ada = page.locator('#story-view .vertex[data-vertex="Ada"]');
  const ben = page.locator('#story-view .vertex[data-vertex="Ben"]');
  const link = page.locator('#story-view .edge');
  await link.press('Enter');
  assert.equal(await link.getAttribute('aria-checked'), 'false');
  await ben.click();
  await page.click('#story-delete');
  assert.equal(await row(page, 'tallymesh'), 'absent 8');
  await link.press('Enter');
  assert.deepEqual(await shown(page), { exact: '1', tallymesh: '1 1', register: 'absent absent', naive: 'absent 8' });
  await ada.press('Enter');
  assert.equal(await row(page, 'tallymesh'), '2 2');
  await page.close();
});
