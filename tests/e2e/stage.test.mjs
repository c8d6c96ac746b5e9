// The stage, and the page as a whole, on a static host: real replicas in one page and in several tabs.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { brotliCompressSync } from 'node:zlib';
import { launch } from './browser.mjs';
import { serve } from './serve.mjs';
import { site } from './site.mjs';
import { until } from './until.mjs';

/** A request of which nothing comes back is asked again after ten seconds: bad luck with several takes a minute. */
const LOSSY_MS = 180_000;
/** All that the page may load, in bytes after brotli: 200 KB. The members of the stories have a limit of their own. */
const PAGE_BYTES_MAX = 200_000;

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

/** A page of its own profile, that has to have nothing to complain of. */
async function opened(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1180, height: 900 }, ...options });
  return { context, page: await tab(context), close: () => context.close() };
}

async function tab(context) {
  const page = await context.newPage();
  page.complaints = [];
  page.on('pageerror', (error) => page.complaints.push(String(error)));
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && page.complaints.push(message.text()));
  await page.goto(host.address);
  await page.waitForFunction(() => window.stage !== undefined);
  return page;
}

const vertex = (page, name) => page.locator('#stage-view .vertex').filter({ hasText: name });
/** What the circles show, by name. */
const values = (page) =>
  page.locator('#stage-view .vertex').evaluateAll((all) => all.map((at) => [at.querySelector('.label').textContent.trim(), at.dataset.value]));
const distinct = async (page) => [...new Set((await values(page)).map(([, value]) => value))].sort();
const colours = (page) =>
  page.locator('#stage-view .vertex').evaluateAll((all) => all.map((at) => `${at.dataset.value} ${getComputedStyle(at.querySelector('.disc')).fill}`));
const agreed = async (page, value, deadlineMs) => {
  // What is out of sight is not drawn.
  await page.locator('#stage-view').scrollIntoViewIfNeeded();
  await until(`all circles to show ${value}`, async () => (await distinct(page)).join() === value, deadlineMs);
};
const fill = (page, id, value) => page.locator(`#${id}`).fill(String(value));

test('both sides of a cut count on, and come to the exact sum', async () => {
  const { page, close } = await opened({ reducedMotion: 'reduce' });
  await fill(page, 'delay', 50);
  for (const name of ['Ben', 'Cleo', 'Cleo', 'this tab']) await vertex(page, name).click();
  await agreed(page, '4');
  assert.equal(new Set(await colours(page)).size, 1, 'equal numbers share a colour');
  await until('that to be said', async () => (await page.textContent('#stage-status')) === 'All 6 agree on 4.');

  await page.click('#cut-half');
  await vertex(page, 'this tab').click();
  for (let time = 0; time < 3; time++) await vertex(page, 'Dan').press('Enter');
  // Right of the cut are this tab, Ben and Finn.
  const apart = 'Ben 5,Cleo 7,Dan 7,Eve 7,Finn 5,this tab 5';
  await until(apart, async () => (await values(page)).map((pair) => pair.join(' ')).sort().join() === apart);
  assert.equal(new Set(await colours(page)).size, 2);
  const card = page.locator('.card[data-key="likes"] .number');
  await until('the card, which is the same replica, to show it', async () => (await card.getAttribute('data-value')) === '5');

  await page.click('#heal');
  await agreed(page, '8');
  assert.deepEqual(page.complaints, []);
  await close();
});

test('a click on a link cuts it, and a box drawn around a replica cuts that one off', async () => {
  const { page, close } = await opened({ reducedMotion: 'reduce' });
  await fill(page, 'delay', 50);
  const line = page.locator('#stage-view .edge[aria-label="Link of this tab and Ben"]');
  const { a, b } = await line.evaluate((group) => {
    const [at] = group.children;
    const box = at.ownerSVGElement.getBoundingClientRect();
    const read = (name) => Number(at.getAttribute(name));
    return { a: { x: box.x + read('x1'), y: box.y + read('y1') }, b: { x: box.x + read('x2'), y: box.y + read('y2') } };
  });
  // A third of the way: no other line crosses there.
  await page.mouse.click(a.x + (b.x - a.x) / 3, a.y + (b.y - a.y) / 3);
  await until('the link to be cut', async () => (await line.getAttribute('aria-checked')) === 'false');
  await page.mouse.click(a.x + (b.x - a.x) / 3, a.y + (b.y - a.y) / 3);
  await until('the link to be healed', async () => (await line.getAttribute('aria-checked')) === 'true');

  const around = await vertex(page, 'Dan').boundingBox();
  await page.mouse.move(around.x - 8, around.y - 8);
  await page.mouse.down();
  await page.mouse.move(around.x + around.width + 8, around.y + around.height + 8, { steps: 4 });
  await page.mouse.up();
  const lines = page.locator('#stage-view .edge[aria-checked="false"]');
  await until('three links to be cut', async () => (await lines.count()) === 3);
  const cut = await lines.evaluateAll((all) => all.map((at) => at.getAttribute('aria-label')));
  assert.ok(cut.every((label) => label.includes('Dan')), cut.join());
  await vertex(page, 'Dan').click();
  await vertex(page, 'Eve').click();
  await vertex(page, 'Eve').click();
  await until('Dan to be alone', async () => (await distinct(page)).join() === '1,2');
  await page.click('#heal');
  await agreed(page, '3');
  await close();
});

test('what gets lost is found missing and made good', async () => {
  const { page, close } = await opened({ reducedMotion: 'reduce' });
  await fill(page, 'delay', 50);
  await fill(page, 'loss', 20);
  for (let time = 0; time < 4; time++) for (const name of ['this tab', 'Cleo', 'Finn']) await vertex(page, name).click();
  await agreed(page, '12', LOSSY_MS);
  await close();
});

test('the inside shows who counted what and who knows, and the last messages can be stepped back', async () => {
  const { page, close } = await opened({ reducedMotion: 'reduce' });
  await fill(page, 'delay', 50);
  await vertex(page, 'Ben').click();
  await agreed(page, '1');
  for (const total of ['2', '3']) {
    await vertex(page, 'Cleo').click();
    await agreed(page, total);
  }
  await until('the shards to be shown', async () => (await page.textContent('#inside-list .sum b')) === '3');
  const shards = await page.locator('#inside-list li:not(.sum)').evaluateAll((rows) => rows.map((at) => [...at.children].slice(1).map(({ textContent }) => textContent).join(' ')));
  assert.deepEqual(shards.sort(), ['Ben clock 1 1', 'Cleo clock 2 2']);
  const cells = () => page.locator('#matrix td[data-behind]').evaluateAll((all) => all.map(({ textContent, dataset }) => `${textContent}${dataset.behind}`));
  await until('everyone to know of everyone', async () => [...new Set(await cells())].sort().join() === '1false,2false');
  assert.equal((await cells()).length, 6 * 2);

  for (let step = 0; step < 20 && !(await distinct(page)).includes('2'); step++) await page.click('#moment-back');
  assert.ok((await distinct(page)).includes('2'), 'the past is shown');
  await until('that to be said', async () => /past/.test(await page.textContent('#stage-status')));
  await page.click('#moment-live');
  await agreed(page, '3');
  assert.match(await page.textContent('#moment-text'), /^Last message/);
  await close();
});

test('tabs of a static page find each other, and go on after one was cut off', async () => {
  const { context, page: one, close } = await opened({ reducedMotion: 'reduce' });
  await fill(one, 'delay', 50);
  const two = await tab(context);
  await fill(two, 'delay', 50);
  for (const page of [one, two]) await page.locator('#stage-view .vertex.other-tab').waitFor();
  await vertex(one, 'this tab').click();
  await vertex(two, 'Ben').click();
  for (const page of [one, two]) await agreed(page, '2');
  await one.click('#cut-tab');
  await vertex(one, 'Cleo').click();
  await vertex(two, 'Dan').click();
  await vertex(two, 'Dan').click();
  const own = (page) => page.evaluate(() => String(window.tallymesh.get('likes')));
  await until('the tabs to differ', async () => (await own(one)) === '3' && (await own(two)) === '4');
  await one.click('#cut-tab');
  for (const page of [one, two]) await agreed(page, '5');
  await two.close();
  await until('the closed tab to go', async () => (await one.locator('.vertex.other-tab').count()) === 0);
  assert.deepEqual(one.complaints, []);
  await close();
});

test('fifty replicas that everyone counts at come to one number', async () => {
  const { page, close } = await opened();
  await fill(page, 'delay', 50);
  await fill(page, 'rate', 20);
  await fill(page, 'replicas', 50);
  assert.equal((await values(page)).length, 50);
  await page.click('#everyone');
  await page.waitForFunction(() => window.tallymesh.get('likes') > 30n);
  await page.click('#everyone');
  await until('all to agree', async () => (await distinct(page)).length === 1);
  const exact = await page.evaluate(() => String(window.stage.here.reduce((sum, { replica }) => sum + replica.status().clock, 0n)));
  assert.deepEqual(await distinct(page), [exact], 'each add is one transaction');
  await fill(page, 'replicas', 4);
  await agreed(page, exact);
  assert.deepEqual(page.complaints, []);
  await close();
});

test('each control of the stage has a name, as Chromium tells it to screen readers', async () => {
  const { page, close } = await opened();
  const session = await page.context().newCDPSession(page);
  const { nodes } = await session.send('Accessibility.getFullAXTree');
  const controls = nodes.filter(({ ignored, role }) => !ignored && ['slider', 'button', 'switch', 'link', 'textbox'].includes(role?.value));
  assert.deepEqual(controls.filter(({ name }) => !name?.value.trim()).map(({ role }) => role.value), []);
  const sliders = controls.filter(({ role }) => role.value === 'slider').map(({ name }) => name.value);
  for (const name of ['Replicas', 'Delay', 'Loss', 'Adds']) assert.ok(sliders.includes(name), `${name}: ${sliders}`);
  await close();
});

test('a screen reader is told of states, and not of each number', async () => {
  const { page, close } = await opened();
  const told = await page.evaluate(async () => {
    const changes = (id) => {
      const seen = [];
      const at = document.getElementById(id);
      new MutationObserver(() => seen.push(at.textContent)).observe(at, { childList: true, characterData: true, subtree: true });
      return seen;
    };
    const [shown, said] = ['stage-status', 'stage-said'].map(changes);
    const begun = performance.now();
    document.getElementById('everyone').click();
    const deadline = begun + 20_000;
    while (shown.length < 6 && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 20));
    return { shown: shown.length, said, pauses: Math.floor((performance.now() - begun) / 5_000) };
  });
  assert.ok(told.shown >= 6, `it changed ${told.shown} times`);
  assert.ok(told.said.length <= 1 + told.pauses, `${told.said.join(' | ')} in ${told.pauses} pauses`);
  await close();
});

test('links between replicas stand out from the ground', async () => {
  for (const colorScheme of ['light', 'dark']) {
    const { page, close } = await opened({ colorScheme });
    const ratio = await page.evaluate(() => {
      const luminance = (colour) => {
        const parts = colour.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255);
        const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const line = luminance(getComputedStyle(document.querySelector('#stage-view .edge:not([data-cut="true"]) .line')).stroke);
      const ground = luminance(getComputedStyle(document.querySelector('#stage-view')).backgroundColor);
      return (Math.max(line, ground) + 0.05) / (Math.min(line, ground) + 0.05);
    });
    assert.ok(ratio >= 3, `${colorScheme}: ${ratio}`);
    await close();
  }
});

for (const colorScheme of ['light', 'dark']) {
  for (const width of [1180, 390]) {
    test(`axe finds nothing serious, ${colorScheme}, ${width} wide`, async () => {
      const { page, close } = await opened({ colorScheme, viewport: { width, height: 844 }, reducedMotion: 'reduce' });
      await vertex(page, 'Ben').click();
      await page.click('#cut-half');
      await vertex(page, 'Cleo').click();
      await page.click('#story-next');
      await page.evaluate(readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8'));
      const { violations } = await page.evaluate(() => window.axe.run());
      const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
      assert.deepEqual(serious.map(({ id, nodes }) => [id, nodes[0].html]), []);
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width, 'nothing is wider than the screen');
      await close();
    });
  }
}

test('nothing moves while the page is built, and while all count', async () => {
  const { page, close } = await opened();
  await page.click('#everyone');
  await page.waitForFunction(() => window.tallymesh.get('likes') > 5n);
  const moved = await page.evaluate(
    () =>
      new Promise((done) => {
        let sum = 0;
        new PerformanceObserver((list) => {
          for (const entry of list.getEntries()) if (!entry.hadRecentInput) sum += entry.value;
        }).observe({ type: 'layout-shift', buffered: true });
        requestAnimationFrame(() => requestAnimationFrame(() => done(sum)));
      }),
  );
  assert.ok(moved < 0.02, `layout shift of ${moved}`);
  await close();
});

test('the page and the documents ask nobody else, and every link leads somewhere', async () => {
  const { context, page, close } = await opened();
  const asked = [];
  context.on('request', (request) => asked.push(request.url()));
  await page.reload();
  await page.waitForFunction(() => window.stage !== undefined);
  const origin = new URL(host.address).origin;
  const policy = await page.locator('meta[http-equiv="content-security-policy"]').getAttribute('content');
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe-inline|'unsafe-eval'/);
  const seen = new Set();
  const open = ['/docs/index.html'];
  while (open.length > 0) {
    const path = open.pop();
    if (seen.has(path)) continue;
    seen.add(path);
    const answer = await fetch(origin + path);
    assert.equal(answer.status, 200, path);
    if (!path.endsWith('.html')) continue;
    for (const [, href] of (await answer.text()).matchAll(/(?:href|src)="([^"#]+)(?:#[^"]*)?"/g)) {
      const to = new URL(href, origin + path);
      if (to.origin === origin) open.push(to.pathname);
    }
  }
  assert.ok(seen.size > 20);
  await page.goto(`${origin}/docs/protocol.html`);
  assert.deepEqual(asked.filter((url) => !url.startsWith(origin) && !url.startsWith('data:')), []);
  assert.deepEqual(page.complaints, []);
  await close();
});

test('the whole page is below its limit', () => {
  const assets = readdirSync(join(site(), 'assets')).filter((name) => !/^members-.*\.wasm$/.test(name));
  const files = ['index.html', ...assets.map((name) => `assets/${name}`)];
  const bytes = files.reduce((sum, name) => sum + brotliCompressSync(readFileSync(join(site(), name))).length, 0);
  assert.ok(bytes < PAGE_BYTES_MAX, `${bytes} bytes, at most ${PAGE_BYTES_MAX}`);
  console.log(`# ${bytes} bytes`);
});
