// The console of a real node, in Chromium: what it shows against what the node holds, and what it does to it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { launch, servePackage } from './browser.mjs';
import { nodes, oneNode, read, tell } from './nodes.mjs';
import { serve } from './serve.mjs';
import { site } from './site.mjs';
import { until } from './until.mjs';

const skip = process.env.TALLYMESH_BIN ? false : 'it takes nodes of its own: set TALLYMESH_BIN';
const MANY = 100_000;
/** Lines of one bulk add that are one transaction. */
const LINES_MAX = 9_999;

let browser;
let node;

before(async () => {
  if (skip) return;
  browser = await launch();
  node = await oneNode();
});
after(async () => {
  await browser?.close();
  await node?.stop();
});

/** The console of a node in a page of its own profile, that has to have nothing to complain of. */
async function opened(address, { prepare, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 1000 }, reducedMotion: 'reduce', ...options });
  const page = await context.newPage();
  page.complaints = [];
  page.asked = new Set();
  page.on('pageerror', (error) => page.complaints.push(String(error)));
  page.on('console', (message) => {
    // A refusal is an answer of the node, which Chromium notes as a failure.
    const refused = message.text().startsWith('Failed to load resource: the server responded with a status of 4');
    if (['error', 'warning'].includes(message.type()) && !refused) page.complaints.push(message.text());
  });
  page.on('request', (request) => page.asked.add(new URL(request.url()).origin));
  await prepare?.(page);
  await page.goto(`${address}/#console`);
  await page.locator('#ledger-status[data-state="live"]').waitFor();
  return { page, close: () => context.close() };
}

/** Adds to counters at a node, a line each. */
async function fill(address, lines) {
  for (let from = 0; from < lines.length; from += LINES_MAX) {
    const body = lines.slice(from, from + LINES_MAX).map((line) => line.join('\t')).join('\n');
    const answer = await fetch(`${address}/v1/spaces/default/add`, { method: 'POST', body });
    assert.equal(answer.status, 200);
  }
}

/** What the rows in sight show, from the first on. */
const rows = (page) =>
  page.locator('#grid-body .grid-row:not([hidden])').evaluateAll((all) =>
    all
      .map((row) => ({ at: Number(row.dataset.index), key: row.dataset.key, value: row.querySelector('.g-value').dataset.value }))
      .sort((a, b) => a.at - b.at)
      .map(({ key, value }) => `${key} ${value}`),
  );
const first = async (page) => (await rows(page))[0];
const choose = async (page, key) => {
  await page.locator(`#grid-body .grid-row:not([hidden])[data-key="${key}"]`).click();
  await until(`${key} to be shown`, async () => (await page.textContent('#detail-key')) === key);
};
const shown = (page) => page.getAttribute('#detail', 'data-value');
const shows = (page, value) => until(`the console to show ${value}`, async () => (await shown(page)) === value);
const holds = (key, value) => until(`the node to hold ${key} = ${value}`, async () => (await read(node.address, key)) === value);
const status = (page) => page.textContent('#ledger-status');
/** Types the beginning of a name, and waits until others are gone: rows are used again, so a hand could miss one. */
const find = async (page, prefix) => {
  await page.fill('#find', prefix);
  await until(`only ${prefix}`, async () => (await rows(page)).every((row) => row.startsWith(prefix)));
};

/** Says yes to what was asked, and waits until it is done: nothing behind an open dialog takes what is typed. */
const agree = async (page) => {
  await page.click('#question-deed');
  await page.locator('#question').waitFor({ state: 'hidden' });
};

test('it lists, finds and sorts what the node holds, and tells of changes', { skip }, async () => {
  await fill(node.address, [['find.b', 20], ['find.a', 3], ['find.c', -4], ['found', '9007199254740993'], ['other', 7]]);
  const { page, close } = await opened(node.address);
  await find(page, 'fi');
  await until('three rows by key', async () => (await rows(page)).join() === 'find.a 3,find.b 20,find.c -4');
  await find(page, 'fo');
  await until('the number in full', async () => (await rows(page)).join() === 'found 9007199254740993');
  assert.equal(await page.locator('#grid-body .grid-row:not([hidden]) .g-value').textContent(), '9,007,199,254,740,993');
  await find(page, 'find.');
  await page.click('[data-sort="value"]');
  await until('the greatest first', async () => (await rows(page)).join() === 'find.b 20,find.a 3,find.c -4');
  assert.equal(await page.getAttribute('.grid-head .g-value', 'aria-sort'), 'descending');
  await page.click('[data-sort="value"]');
  await until('the least first', async () => (await rows(page)).join() === 'find.c -4,find.a 3,find.b 20');

  await page.click('[data-sort="recent"]');
  await page.hover('#ledger-title');
  for (const key of ['find.c', 'find.a']) {
    await tell(node.address, 'add', key, '1');
    const value = await read(node.address, key);
    await until(`${key} to be first`, async () => (await first(page)) === `${key} ${value}`);
  }
  const spark = await page.locator('#grid-body [data-key="find.a"] .spark .line').getAttribute('d');
  assert.ok(spark.includes('L'), 'what changed has a curve');
  await tell(node.address, 'del', 'find.b');
  await until('a deleted one to go', async () => (await rows(page)).join() === 'find.a 4,find.c -3');
  await find(page, 'nobody');
  await page.locator('#grid-none-text', { hasText: 'No counter begins with “nobody”.' }).waitFor();
  assert.deepEqual(page.complaints, []);
  assert.deepEqual([...page.asked], [new URL(node.address).origin]);
  await close();
});

test('it adds, sets, resets, deletes and makes counters, exactly', { skip }, async () => {
  const { page, close } = await opened(node.address);
  await page.click('#new-counter');
  await page.fill('#question input[name="key"]', 'deeds / ü?#');
  await page.fill('#question input[name="number"]', '40');
  await agree(page);
  await find(page, 'deeds');
  await choose(page, 'deeds / ü?#');
  await shows(page, '40');
  await page.fill('#detail-by', '2');
  await page.click('#detail-add');
  await shows(page, '42');
  await page.fill('#detail-by', '-9007199254740995');
  await page.press('#detail-by', 'Enter');
  await shows(page, '-9007199254740953');
  await holds('deeds / ü?#', '-9007199254740953');

  await page.click('#detail-set');
  assert.equal(await page.inputValue('#question input'), '-9007199254740953');
  await page.fill('#question input', '9223372036854775807');
  await agree(page);
  await shows(page, '9223372036854775807');
  await holds('deeds / ü?#', '9223372036854775807');

  await page.click('#detail-reset');
  await page.locator('#question-title', { hasText: 'Reset deeds / ü?# to 0?' }).waitFor();
  await page.click('#question-cancel');
  assert.equal(await shown(page), '9223372036854775807', 'nothing is done without a yes');
  await page.click('#detail-reset');
  await agree(page);
  await shows(page, '0');
  await holds('deeds / ü?#', '0');

  await page.click('#detail-delete');
  await page.keyboard.press('Escape');
  assert.equal(await read(node.address, 'deeds / ü?#'), '0');
  await page.click('#detail-delete');
  await agree(page);
  await shows(page, 'absent');
  await holds('deeds / ü?#', undefined);
  await until('the row to go', async () => (await status(page)).startsWith('0 counters of '));
  // A deleted one begins again from nothing.
  await page.fill('#detail-by', '5');
  await page.click('#detail-add');
  await shows(page, '5');
  await holds('deeds / ü?#', '5');
  assert.deepEqual(page.complaints, []);
  await close();
});

test('it shows with its code what the node refuses, and changes nothing then', { skip }, async () => {
  await fill(node.address, [['refused', '9223372036854775807']]);
  const { page, close } = await opened(node.address);
  await find(page, 'refused');
  await choose(page, 'refused');
  const refused = async (by, code) => {
    await page.fill('#detail-by', by);
    await page.click('#detail-add');
    await page.locator('#detail-complaint code', { hasText: new RegExp(`^${code}$`) }).waitFor();
    assert.ok((await page.textContent('#detail-complaint')).length > code.length + 20, 'it says why');
  };
  await refused('1.5', 'amount');
  await refused('1', 'overflow');
  await refused('', 'amount');
  await refused('9223372036854775808', 'amount');
  await page.click('#detail-set');
  await page.fill('#question input', 'ten');
  await page.click('#question-deed');
  await page.locator('#question-complaint code', { hasText: 'amount' }).waitFor();
  await page.click('#question-cancel');
  await page.click('#new-counter');
  await page.fill('#question input[name="key"]', '');
  await page.click('#question-deed');
  await page.locator('#question-complaint code', { hasText: 'key_length' }).waitFor();
  await page.click('#question-cancel');
  assert.equal(await read(node.address, 'refused'), '9223372036854775807');
  await page.locator('#refusal-rows tr', { hasText: 'amount' }).waitFor();
  assert.deepEqual(page.complaints, []);
  await close();
});

test('a write whose answer gets lost counts once when it is tried again', { skip }, async () => {
  await fill(node.address, [['unsure', 10]]);
  const { page, close } = await opened(node.address);
  await find(page, 'unsure');
  await choose(page, 'unsure');
  await page.route('**/transactions', async (route) => {
    await route.fetch();
    await route.abort();
  }, { times: 1 });
  await page.fill('#detail-by', '5');
  await page.click('#detail-add');
  await page.locator('#detail-complaint code', { hasText: 'no_answer' }).waitFor();
  await holds('unsure', '15');
  await page.click('#detail-add');
  await until('that to be over', async () => (await page.textContent('#detail-complaint')) === '');
  assert.equal(await read(node.address, 'unsure'), '15');
  await page.click('#detail-add');
  await shows(page, '20');
  assert.equal(await read(node.address, 'unsure'), '20', 'another add is another one');
  await close();
});

test('a hundred thousand counters: each can be reached, and few are in the document', { skip }, async () => {
  const many = await oneNode();
  try {
    // In an order that is none, and with numbers that sort otherwise than their keys.
    await fill(many.address, Array.from({ length: MANY }, (_, at) => [`many:${String((at * 7_919) % MANY).padStart(5, '0')}`, ((at * 7_919) % MANY) * 31 % MANY]));
    const { page, close } = await opened(many.address);
    const key = (at) => `many:${String(at).padStart(5, '0')}`;
    const value = (at) => (at * 31) % MANY;
    await until('all to be counted', async () => (await status(page)) === '100,000 counters');
    assert.equal(await first(page), `${key(0)} 0`);
    assert.ok((await page.locator('.grid-row').count()) < 80);
    await page.focus('#grid');
    await page.keyboard.press('End');
    await until('the last one', async () => (await rows(page)).at(-1) === `${key(99_999)} ${value(99_999)}`);
    await shows(page, String(value(99_999)));
    await page.locator('#grid').evaluate((grid) => (grid.scrollTop = 44 * 50_000));
    await until('the middle', async () => (await rows(page)).includes(`${key(50_003)} ${value(50_003)}`));
    await find(page, 'many:123');
    await until('a hundred of them', async () => (await status(page)) === '100 counters of 100,000');
    await find(page, '');
    await page.click('[data-sort="value"]');
    // 31 has no factor in common with the number of counters: each value is there once.
    const greatest = Array.from({ length: MANY }, (_, at) => at).find((at) => value(at) === MANY - 1);
    await until('the greatest first', async () => (await first(page)) === `${key(greatest)} 99999`);
    await page.click('[data-sort="recent"]');
    await page.hover('#ledger-title');
    await tell(many.address, 'add', key(77_777), '1');
    await until('what changed first', async () => (await first(page)) === `${key(77_777)} ${value(77_777) + 1}`);
    assert.deepEqual(page.complaints, []);
    await close();
  } finally {
    await many.stop();
  }
});

test('it is used by keys alone, and tells who reads by ear where they are', { skip }, async () => {
  await fill(node.address, [['keys.a', 1], ['keys.b', 2], ['keys.c', 3]]);
  const { page, close } = await opened(node.address);
  await page.keyboard.press('/');
  await page.keyboard.type('keys.');
  await until('the three', async () => (await rows(page)).length === 3);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await until('the second to be chosen', async () => (await page.textContent('#detail-key')) === 'keys.b');
  const active = await page.getAttribute('#grid', 'aria-activedescendant');
  assert.equal(await page.locator(`#${active}`).getAttribute('data-key'), 'keys.b');
  assert.equal(await page.locator(`#${active}`).getAttribute('aria-selected'), 'true');
  assert.equal(await page.getAttribute('#grid', 'aria-rowcount'), '4');
  await page.focus('#detail-reset');
  await page.keyboard.press('Enter');
  await page.focus('#question-deed');
  await page.keyboard.press('Enter');
  await shows(page, '0');
  await until('the focus to be back', async () => (await page.evaluate(() => document.activeElement.id)) === 'detail-reset');
  assert.deepEqual(page.complaints, []);
  await close();
});

test('each space of the node can be looked at, and changed', { skip }, async () => {
  const spaces = await oneNode('--space', 'default', '--space', 'other');
  try {
    await fill(spaces.address, [['here', 1]]);
    assert.equal((await fetch(`${spaces.address}/v1/spaces/other/add`, { method: 'POST', body: 'there\t5' })).status, 200);
    const { page, close } = await opened(spaces.address);
    await until('the one here', async () => (await rows(page)).join() === 'here 1');
    await tell(spaces.address, 'members', 'init');
    await page.locator('#fault-events li', { hasText: 'The space has one member now' }).waitFor();
    await page.locator('#member-rows tr', { hasText: 'this node' }).waitFor();
    await page.selectOption('#space', 'other');
    await until('the one there', async () => (await rows(page)).join() === 'there 5');
    await page.click('#detail-add');
    await shows(page, '6');
    const held = async (space) => (await (await fetch(`${spaces.address}/v1/spaces/${space}/counters`)).json()).counters.map(({ key, value }) => `${key} ${value}`).join();
    assert.equal(await held('other'), 'there 6');
    assert.equal(await held('default'), 'here 1');
    assert.deepEqual(page.complaints, []);
    await close();
  } finally {
    await spaces.stop();
  }
});

test('what was under way when another space was opened is not shown there', { skip }, async () => {
  const spaces = await oneNode('--space', 'default', '--space', 'other');
  try {
    await fill(spaces.address, [['here', 1]]);
    assert.equal((await fetch(`${spaces.address}/v1/spaces/other/add`, { method: 'POST', body: 'there\t5' })).status, 200);
    const { page, close } = await opened(spaces.address, {
      // Holds what the worker tells while `held` is a list.
      prepare: (page) => page.addInitScript(() => {
        const told = Object.getOwnPropertyDescriptor(Worker.prototype, 'onmessage');
        Object.defineProperty(Worker.prototype, 'onmessage', {
          set(tell) {
            told.set.call(this, (event) => (globalThis.held ? globalThis.held.push(() => tell(event)) : tell(event)));
          },
        });
      }),
    });
    await until('the one here', async () => (await rows(page)).join() === 'here 1');
    let answer;
    await page.route('**/spaces/default/transactions', async (route) => {
      await new Promise((resolve) => (answer = resolve));
      await route.continue();
    });
    await page.click('#detail-add');
    await until('the add to be under way', () => answer !== undefined);
    await page.evaluate(() => void (globalThis.held = []));
    await page.waitForFunction(() => globalThis.held.length > 0);
    await page.selectOption('#space', 'other');
    await page.evaluate(() => {
      const held = globalThis.held;
      globalThis.held = undefined;
      for (const tell of held) tell();
    });
    const written = page.waitForResponse('**/spaces/default/transactions');
    answer();
    await (await written).finished();
    await shows(page, '5');
    await page.click('#detail-add');
    await shows(page, '6');
    assert.equal((await rows(page)).join(), 'there 6');
    assert.deepEqual(page.complaints, []);
    await close();
  } finally {
    await spaces.stop();
  }
});

test('peers, figures and faults are those of the node', { skip }, async () => {
  const cluster = await nodes();
  try {
    const { page, close } = await opened(cluster.addresses[0]);
    await until('both peers, with nothing missing', async () => (await page.locator('#peer-rows tr', { hasText: 'up to date' }).filter({ hasText: 'node' }).count()) === 2);
    const own = await (await fetch(`${cluster.addresses[0]}/v1/status`)).json();
    await until('the node to be named', async () => (await page.textContent('#console-about')).includes(own.peer_id.slice(-8)));
    assert.match(await page.textContent('#fault-verdict'), /^No fault/);
    await fill(cluster.addresses[1], [['figures', 1], ['figures.more', 1]]);
    await until('the counters of the other node to be counted', async () => (await page.locator('#tiles .tile').first().locator('.tile-value').textContent()) === '2');
    assert.match(await page.textContent('#tiles'), /2 nodes/);
    assert.deepEqual(page.complaints, []);
    await close();
  } finally {
    await cluster.stop();
  }
});

test('a writer id in two hands is told of as a fault', { skip }, async () => {
  const [one, other] = await Promise.all([oneNode(), oneNode()]);
  const clones = await browser.newContext();
  const { privateKey } = await crypto.subtle.generateKey('Ed25519', true, ['sign', 'verify']);
  const key = await crypto.subtle.exportKey('jwk', privateKey);
  const owner = [...Buffer.from(key.x, 'base64url')];
  try {
    await servePackage(clones);
    for (const [{ address }, by] of [[one, 5], [other, 7]]) {
      const tab = await clones.newPage();
      await tab.goto(`${address}/v1/spaces/default/counters`);
      await tab.evaluate(async ([node, by, key, owner]) => {
        // As in two copies of one machine that go on from one image: one key, and the same random bytes.
        crypto.getRandomValues = (bytes) => bytes.fill(7);
        const { connect, open } = await import('/package/browser.js');
        const secret = await crypto.subtle.importKey('jwk', key, 'Ed25519', false, ['sign']);
        const replica = await open({ ownerKey: new Uint8Array(owner), sign: (bytes) => crypto.subtle.sign('Ed25519', secret, bytes) });
        replica.add('forked', by);
        connect(replica, node);
      }, [address, by, key, owner]);
      await until('the node to hear of it', async () => (await read(address, 'forked')) === String(by));
    }
    await clones.close();
    const { page, close } = await opened(one.address);
    assert.match(await page.textContent('#fault-verdict'), /^No fault/);
    await other.again('--peer', one.listen[0]);
    await until('the fault to be counted', async () => /^(One fault|\d+ faults): a writer id was used by two/.test(await page.textContent('#fault-verdict')));
    assert.equal(await page.getAttribute('#fault-verdict', 'data-good'), 'false');
    const told = page.locator('#fault-events li[data-bad="true"]');
    await until('the event', async () => (await told.allTextContents()).some((text) => /two processes wrote as [0-9a-f]+, seen at clock 1 of forked\.$/.test(text)));
    await find(page, 'forked');
    await choose(page, 'forked');
    await until('all to show one number', async () => new Set([await shown(page), await read(one.address, 'forked'), await read(other.address, 'forked')]).size === 1);
    assert.deepEqual(page.complaints, []);
    await close();
  } finally {
    await Promise.all([one.stop(), other.stop()]);
  }
});

test('where tickets are asked for it asks for one, and does what that allows', { skip }, async () => {
  const closed = await oneNode();
  try {
    await tell(closed.address, 'members', 'init');
    await tell(closed.address, 'add', 'behind', '7');
    const [{ ticket: reader }] = await tell(closed.address, 'invite', '--role', 'reader', '--every-space');
    const [{ ticket: editor }] = await tell(closed.address, 'invite', '--role', 'editor');
    await closed.again('--http-tickets');
    const context = await browser.newContext({ viewport: { width: 1280, height: 1000 } });
    const page = await context.newPage();
    await page.goto(`${closed.address}/#console`);
    await until('a ticket to be asked for', async () => (await status(page)).startsWith('ticket_needed: '));
    const show = async (ticket) => {
      await page.click('#give-ticket');
      await page.fill('#question input', ticket);
      await page.click('#question-deed');
    };
    await show('nonsense');
    await until('that to be none', async () => (await status(page)).startsWith('ticket: '));
    await show(reader);
    await until('the counter', async () => (await first(page)) === 'behind 7');
    await page.locator('#member-rows tr', { hasText: 'this node' }).filter({ hasText: 'all' }).waitFor();
    await page.click('#detail-add');
    await page.locator('#detail-complaint code', { hasText: 'forbidden' }).waitFor();
    // Another tab has a ticket of its own.
    const other = await context.newPage();
    await other.goto(`${closed.address}/#console`);
    await until('it to be asked for there', async () => (await status(other)).startsWith('ticket_needed: '));
    await other.click('#give-ticket');
    await other.fill('#question input', editor);
    await other.click('#question-deed');
    await until('the counter there', async () => (await first(other)) === 'behind 7');
    await other.click('#detail-add');
    await shows(other, '8');
    await shows(page, '8');
    // What is about the node as a whole takes a ticket for all of its spaces, which this one is not.
    await other.locator('#console-notice', { hasText: 'forbidden: ' }).waitFor();
    await context.close();
  } finally {
    await closed.stop();
  }
});

const axe = () => readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

for (const colorScheme of ['light', 'dark']) {
  for (const width of [1280, 320]) {
    test(`axe finds nothing serious in the console: ${colorScheme}, ${width} pixels wide`, { skip }, async () => {
      await fill(node.address, [['axe.a', 1], ['axe.b', 2]]);
      const { page, close } = await opened(node.address, { colorScheme, viewport: { width, height: 800 }, bypassCSP: true });
      const faults = async () => {
        const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
        return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical').map(({ id, nodes }) => [id, nodes[0].html]);
      };
      await page.evaluate(axe());
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width, 'nothing is wider than the screen');
      assert.deepEqual(await faults(), [], 'the list');
      await choose(page, 'axe.a');
      await page.fill('#detail-by', 'x');
      await page.click('#detail-add');
      await page.locator('#detail-complaint code').waitFor();
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
      assert.deepEqual(await faults(), [], 'one counter');
      await page.click('#detail-set');
      assert.deepEqual(await faults(), [], 'a question');
      await close();
    });
  }
}

test('nothing moves while it is filled', { skip }, async () => {
  await fill(node.address, [['steady', 1]]);
  const { page, close } = await opened(node.address);
  await page.locator('#peer-rows tr').first().waitFor();
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

test('without a node it shows the page’s own replica, and says what takes a node', { skip }, async () => {
  const host = await serve(site());
  const context = await browser.newContext({ reducedMotion: 'reduce' });
  const page = await context.newPage();
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && complaints.push(message.text()));
  await page.goto(`${host.address}#console`);
  await page.locator('#ledger-status[data-state="live"]').waitFor();
  await page.evaluate(() => window.tallymesh.add('alone', 3));
  await find(page, 'alone');
  await choose(page, 'alone');
  await shows(page, '3');
  await page.fill('#detail-by', '4');
  await page.click('#detail-add');
  await shows(page, '7');
  assert.equal(await page.evaluate(() => String(window.tallymesh.get('alone'))), '7');
  await page.fill('#detail-by', 'x');
  await page.click('#detail-add');
  await page.locator('#detail-complaint code', { hasText: 'amount_not_integer' }).waitFor();
  await page.click('#detail-delete');
  await page.click('#question-deed');
  await shows(page, 'absent');
  assert.equal(await page.evaluate(() => window.tallymesh.get('alone')), undefined);
  assert.match(await page.locator('.static-only').innerText(), /No node stands behind this page/);
  assert.equal(await page.locator('.node-only').filter({ visible: true }).count(), 0);
  assert.deepEqual(complaints, []);
  await context.close();
  host.stop();
});
