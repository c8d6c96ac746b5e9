// Pages with tickets of lesser roles than member, at a node that asks for tickets: the packed package in Chromium.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, servePackage } from './browser.mjs';
import { oneNode, tell } from './nodes.mjs';
import { until } from './until.mjs';

const skip = process.env.TALLYMESH_BIN ? false : 'it takes a node of its own: set TALLYMESH_BIN';

let browser;
let node;
const tickets = {};

before(async () => {
  if (skip) return;
  browser = await launch();
  node = await oneNode();
  await tell(node.address, 'members', 'init');
  await tell(node.address, 'add', 'likes', '10');
  for (const role of ['reader', 'writer', 'editor', 'member']) {
    const [{ ticket }] = await tell(node.address, 'invite', '--role', role);
    tickets[role] = ticket;
  }
  await node.again('--http-tickets');
});
after(async () => {
  await browser?.close();
  await node?.stop();
});

/** What the node holds. */
async function held(key) {
  const authorization = `Bearer ${tickets.reader}`;
  const answer = await fetch(`${node.address}/v1/spaces/default/counters/${key}`, { headers: { authorization } });
  return answer.ok ? (await answer.json()).value : undefined;
}

/** A page of the node's origin that is to sync with a ticket; `signer` says with which key it signs. */
async function page(ticket, signer = 'own') {
  const context = await browser.newContext();
  await servePackage(context);
  const tab = await context.newPage();
  const errors = [];
  tab.on('pageerror', (error) => errors.push(error));
  await tab.goto(`${node.address}/v1/spaces/default/counters`);
  await tab.evaluate(
    async ({ url, ticket, signer }) => {
      const { connect, open } = await import('/package/browser.js');
      const keys = () => crypto.subtle.generateKey('Ed25519', false, ['sign', 'verify']);
      const own = await keys();
      const { privateKey } = signer === 'other' ? await keys() : own;
      const replica = await open({ ownerKey: new Uint8Array(await crypto.subtle.exportKey('raw', own.publicKey)) });
      const sign = (bytes) => crypto.subtle.sign('Ed25519', privateKey, bytes);
      window.replica = replica;
      window.code = (act) => {
        try {
          act(replica);
        } catch ({ code }) {
          return code;
        }
      };
      const options = { ticket, retryMinMs: 20, retryMaxMs: 200, ...(signer !== 'nobody' && { sign }) };
      window.connection = connect(replica, url, options);
    },
    { url: node.address, ticket, signer },
  );
  return {
    errors,
    add: (by) => tab.evaluate((by) => window.code((it) => it.add('likes', by)), by),
    reset: () => tab.evaluate(() => window.code((it) => it.reset('likes'))),
    likes: () => tab.evaluate(() => String(window.replica.get('likes'))),
    problem: () => tab.evaluate(() => window.connection.error?.message),
    close: () => context.close(),
  };
}

const agree = async (tab, likes) => {
  await until(`the page to show ${likes}`, async () => (await tab.likes()) === likes);
  await until(`the node to hold ${likes}`, async () => (await held('likes')) === likes);
};

test('a page with the ticket of a writer counts, and cancels nothing', { skip }, async () => {
  const tab = await page(tickets.writer);
  await tab.add(5);
  await agree(tab, '15');
  assert.equal(await tab.reset(), 'beyond_role');
  assert.equal(await tab.add(-5), undefined);
  await agree(tab, '10');
  assert.deepEqual(tab.errors, []);
  await tab.close();
});

test('one with the ticket of a reader hears of everything, and writes nothing', { skip }, async () => {
  const tab = await page(tickets.reader);
  await agree(tab, '10');
  assert.equal(await tab.add(5), 'beyond_role');
  assert.equal(await tab.reset(), 'beyond_role');
  await agree(tab, '10');
  await tab.close();
});

for (const role of ['editor', 'member']) {
  test(`one with the ticket of the role ${role} may do all that a page can`, { skip }, async () => {
    const tab = await page(tickets[role]);
    await agree(tab, '10');
    assert.equal(await tab.reset(), undefined);
    await agree(tab, '0');
    assert.equal(await tab.add(10), undefined);
    await agree(tab, '10');
    assert.deepEqual(tab.errors, []);
    await tab.close();
  });
}

test('without a ticket, its key or a signature there is no link', { skip }, async () => {
  for (const [ticket, signer, problem] of [
    [undefined, 'own', /asks for a ticket.*ticket_needed/],
    ['x', 'own', /no ticket.*\(ticket\)/],
    [tickets.writer, 'nobody', /options\.sign.*owner_proof/],
    [tickets.writer, 'other', /owner_proof/],
  ]) {
    const tab = await page(ticket, signer);
    await until(`${problem} of ${signer}`, async () => problem.test((await tab.problem()) ?? ''));
    await tab.add(1);
    assert.equal(await tab.likes(), '1');
    assert.equal(await held('likes'), '10');
    await tab.close();
  }
});
