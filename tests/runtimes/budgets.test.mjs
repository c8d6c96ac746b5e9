// Budgets of three real nodes that are members, spent from each runtime with the packed package.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { Miniflare } from 'miniflare';
import { oneNode, tell } from '../e2e/nodes.mjs';
import { until } from '../e2e/until.mjs';
import { entryOf, everywhere, example, lossy, readmeExample, threeMembers } from './asking.mjs';
import { gate } from './gate.mjs';
import { makeProject } from './project.mjs';
import { bundle } from './workers.mjs';

let nodes;
let addresses;
let project;
let budgets;

before(async () => {
  nodes = await threeMembers();
  ({ addresses } = nodes);
  project = makeProject();
  ({ budgets } = await entryOf(project, 'budgets'));
});
after(() => nodes?.stop());

let keys = 0;
const fresh = () => `gift-${keys++}.`;
const asked = () => ({ nodes: addresses, key: fresh() });

/** Checks what the program told. */
function judge(outcome) {
  assert.deepEqual(outcome, {
    before: 'undefined',
    values: ['60', '58', '2', '58'],
    refused: [true, 'rights_short', 'no', '58'],
    wrong: [true, 'amount_not_integer'],
    names: ['', ':cashback'],
    lease: ['6', '6', '5', '0', '53', '0'],
    short: [true, 'lease_short', false, true],
    held: '58',
  });
}

everywhere({ entry: 'budgets', program: 'budgeting.js', at: () => ({ project, addresses }), asked, judge });

/** Whether all nodes show this value of a budget. */
async function shown(key, value) {
  const seen = await Promise.all(addresses.map((address) => budgets(address).get(key)));
  return seen.every((budget) => budget?.value === value);
}

test('a spend waits for rights that another node holds, and is refused without', async () => {
  const key = fresh();
  await tell(addresses[0], 'budget', 'mint', key, '100');
  await until('all to know of it', () => shown(key, 100n));
  const there = budgets(addresses[1]);
  const refused = await there.spend(key, 1_000).catch((error) => error);
  assert.deepEqual([refused.code, refused.applied, refused.held, refused.asked], ['rights_short', 'no', { here: 0n, pending: 0n, elsewhere: 100n }, 0n]);
  const short = await there.spend(key, 30).catch((error) => error);
  assert.deepEqual([short.code, short.held.elsewhere, short.asked], ['rights_short', 100n, 30n]);
  assert.equal((await there.spend(key, 30, { waitMs: 20_000 })).value, 70n);
  await until('all to show 70', () => shown(key, 70n));
});

for (const [where, urls] of Object.entries({ 'the same node': (way) => [way], 'the next one': (way) => [way, addresses[1]] })) {
  test(`a write whose answer is lost counts once when it is tried again at ${where}`, async () => {
    const key = fresh();
    await tell(addresses[0], 'budget', 'mint', key, '100');
    await until('all to know of it', () => shown(key, 100n));
    const way = await lossy(addresses[0], 1);
    try {
      const shop = budgets({ urls: urls(way.address), retryMinMs: 10 });
      await shop.spend(key, 25, { waitMs: 20_000 });
      assert.equal(way.lost(), 1);
      await until('all to show 75', () => shown(key, 75n));
      // Another one, which is told that its outcome is not known, and asked for again by hand.
      const dead = await lossy(addresses[0], Infinity);
      const lost = await budgets({ urls: [dead.address], retries: 1, retryMinMs: 1 }).spend(key, 5).catch((error) => error);
      dead.stop();
      assert.deepEqual([lost.code, lost.applied, dead.lost()], ['link_lost', 'unknown', 2]);
      await shop.spend(key, 5, { idempotencyKey: lost.idempotencyKey, waitMs: 20_000 });
      await until('all to show 70', () => shown(key, 70n));
      // Nobody holds anything that is not there.
      const { rights, holders } = await shop.get(key);
      assert.equal(rights.here + rights.pending + rights.elsewhere, 70n);
      assert.equal(holders.reduce((sum, { rights }) => sum + rights, 0n), 70n);
    } finally {
      way.stop();
    }
  });
}

test('a watch goes on over a connection that breaks', async () => {
  const key = fresh();
  await tell(addresses[0], 'budget', 'mint', key, '100');
  const network = await gate(addresses[0]);
  try {
    const seen = [];
    const shop = budgets({ urls: [network.address], retryMinMs: 10, retryMaxMs: 100 });
    for await (const { value } of shop.watch({ prefix: key }, { signal: AbortSignal.timeout(30_000) })) {
      seen.push(value);
      if (value === 100n) {
        network.cut();
        await tell(addresses[0], 'budget', 'spend', key, '1');
        network.heal();
      } else if (value === 99n) await tell(addresses[0], 'budget', 'spend', key, '1');
      else break;
    }
    assert.deepEqual(seen, [100n, 99n, 98n]);
  } finally {
    network.stop();
  }
});

test("the example of the package's README does what it says", async () => {
  assert.equal(await readmeExample(project, 'budgets', addresses[0]), '75n\ngift:7c1b 70n\n70n\n');
});

test('the Worker of docs/budgets.md takes gift cards, each order once, with a ticket', async () => {
  const node = await oneNode();
  const code = example(readFileSync(new URL('../../docs/budgets.md', import.meta.url), 'utf8'), 'js', 'budgets');
  let worker;
  try {
    await tell(node.address, 'members', 'init');
    await tell(node.address, 'budget', 'mint', 'gift:7c1b', '100');
    const [{ ticket }] = await tell(node.address, 'invite', '--role', 'writer');
    await node.again('--http-tickets');
    worker = new Miniflare({
      modules: await bundle(project, code),
      compatibilityDate: '2026-04-01',
      host: '127.0.0.1',
      port: 0,
      cf: false,
      bindings: { NODES: `http://127.0.0.1:1 ${node.address}`, TICKET: ticket },
    });
    const address = await worker.ready;
    const buy = async (amount, order) => {
      const answer = await fetch(address, { method: 'POST', body: JSON.stringify({ card: '7c1b', amount, order }) });
      return [answer.status, await answer.json()];
    };
    // The first node is away. What is pending of the node's start before comes by then.
    assert.deepEqual(await buy(25, 'order-1'), [200, { left: '75' }]);
    assert.deepEqual(await buy(25, 'order-1'), [200, { left: '75' }]);
    // It can't be told whether the node that is away had taken it before it was.
    assert.deepEqual(await buy(80, 'order-2'), [402, { code: 'rights_short', applied: 'unknown' }]);

    const shop = budgets({ urls: [node.address], ticket });
    const refused = async (promise) => promise.then(assert.fail, ({ code, status, applied }) => [code, status, applied]);
    assert.deepEqual(await refused(shop.mint('gift:7c1b', 1)), ['forbidden', 403, 'no']);
    assert.deepEqual(await refused(budgets(node.address).spend('gift:7c1b', 1)), ['ticket_needed', 401, 'no']);
    assert.equal((await shop.get('gift:7c1b')).value, 75n);
  } finally {
    await worker?.dispose();
    await node.stop();
  }
});
