// Limits of three real nodes that are members, used from each runtime with the packed package.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { oneNode, tell } from '../e2e/nodes.mjs';
import { until } from '../e2e/until.mjs';
import { entryOf, everywhere, lossy, readmeExample, threeMembers } from './asking.mjs';
import { gate } from './gate.mjs';
import { makeProject } from './project.mjs';

/** So long that it does not end while it is looked at. */
const PERIOD_MS = 366 * 86_400_000;

let nodes;
let addresses;
let project;
let limits;

before(async () => {
  nodes = await threeMembers();
  ({ addresses } = nodes);
  project = makeProject();
  ({ limits } = await entryOf(project, 'limits'));
});
after(() => nodes?.stop());

let names = 0;
const fresh = () => `limit-${names++}`;
let told;
const asked = async (page) => (told = { nodes: addresses, name: page ? await limited(9) : fresh(), page });

/** Checks what the program told. */
function judge(outcome) {
  assert.deepEqual(outcome, {
    before: told.page ? 'object' : 'undefined',
    set: told.page ? 'forbidden' : [told.name, '9', PERIOD_MS],
    allowed: [true, true, told.name, '9', 'bigint', 0],
    most: true,
    refused: [false, told.name, '9', true, 'no'],
    waits: true,
    period: [PERIOD_MS, 0, 0, 0],
    wrong: [true, false, 'amount_not_integer'],
    listed: [['9', 'bigint']],
    gone: told.page ? 'forbidden' : [true, 'no_limit', 'no', 404],
  });
}

everywhere({ entry: 'limits', program: 'limiting.js', at: () => ({ project, addresses }), asked, judge });

/** Sets a limit, and waits until all nodes have heard of it. */
async function limited(limit) {
  const name = fresh();
  await limits(addresses).set(name, { limit, periodMs: PERIOD_MS });
  await until('all to know of it', async () => (await Promise.all(addresses.map((it) => limits(it).get(name)))).every(Boolean));
  return name;
}

/** What is left of a key by what a node knows, wherever it is held. */
async function left(address, key) {
  const { here, pending, elsewhere } = (await limits(address).get(key)).left;
  return here + pending + elsewhere;
}

test('all who ask at three nodes are allowed the limit, and not one more', async () => {
  const key = `${await limited(30)}:ann`;
  const answers = await Promise.all(
    Array.from({ length: 36 }, (_, index) => limits(addresses[index % 3]).allow(key, 1, { waitMs: 5_000 })),
  );
  const allowed = answers.filter((it) => it.allowed).length;
  assert.ok(allowed >= 27 && allowed <= 30, `${allowed} of 30`);
  for (const refused of answers.filter((it) => !it.allowed)) assert.deepEqual([refused.limit, refused.left.here], [30n, 0n]);
  for (const address of addresses) await until('all to know what is left', async () => (await left(address, key)) === BigInt(30 - allowed));
  // Another key has a period of its own.
  assert.equal((await limits(addresses[0]).allow(`${key}:bob`)).allowed, true);
});

for (const [where, urls] of Object.entries({ 'the same node': (way) => [way], 'the next one': (way) => [way, addresses[1]] })) {
  test(`what is allowed by an answer that is lost counts once when it is tried again at ${where}`, async () => {
    const key = `${await limited(30)}:ann`;
    const way = await lossy(addresses[0], 1);
    try {
      const answer = await limits({ urls: urls(way.address), retryMinMs: 10 }).allow(key, 4);
      assert.deepEqual([answer.allowed, way.lost()], [true, 1]);
      for (const address of addresses) await until('all to show 26', async () => (await left(address, key)) === 26n);
    } finally {
      way.stop();
    }
  });
}

test('a node that is away is passed over, and that none answers is an error', async () => {
  const key = await limited(30);
  const network = await gate(addresses[0]);
  try {
    network.cut();
    const limiter = limits({ urls: [network.address, addresses[1]], timeoutMs: 2_000, retries: 1, retryMinMs: 1 });
    assert.equal((await limiter.allow(key)).allowed, true);
    const alone = limits({ urls: [network.address], retries: 1, retryMinMs: 1 });
    const { code, applied } = await alone.allow(key).catch((error) => error);
    assert.deepEqual([code, applied], ['link_lost', 'unknown']);
    network.heal();
    assert.equal((await alone.allow(key)).allowed, true);
  } finally {
    network.stop();
  }
});

test('what is refused before any request the node refuses as well, with the same code, and no more', async () => {
  const all = `${addresses[0]}/v1/spaces/default/limits`;
  const limiter = limits(addresses);
  const code = async (path, body, method) =>
    (await (await fetch(`${all}/${path}`, { method, body: body && JSON.stringify(body) })).json()).code;
  const put = (name, limit, period_ms) => code(name, { limit: String(limit), period_ms }, 'PUT');

  const longest = 'n'.repeat(128);
  const key = `${longest}:${'k'.repeat(445 - 129)}`;
  await limiter.set(longest, { limit: 2n ** 63n - 1n, periodMs: PERIOD_MS });
  assert.equal((await limiter.allow(key)).allowed, true);
  await limiter.set(longest, { limit: 1, periodMs: 1_000 });
  await limiter.remove(longest);
  for (const [there, ours] of [
    [put(`${longest}n`, 1, 1_000), () => limiter.set(`${longest}n`, { limit: 1, periodMs: 1_000 })],
    [code(`${key}k/allow`, {}, 'POST'), () => limiter.allow(`${key}k`)],
    [put('a', 0, 1_000), () => limiter.set('a', { limit: 0, periodMs: 1_000 })],
    [put('a', 1, 999), () => limiter.set('a', { limit: 1, periodMs: 999 })],
    [put('a', 1, PERIOD_MS + 1), () => limiter.set('a', { limit: 1, periodMs: PERIOD_MS + 1 })],
  ]) {
    const [said, known] = [await there, await ours().catch((error) => error.code)];
    assert.ok(said, 'the node refuses it');
    assert.equal(known, said);
  }
});

test("the example of the package's README does what it says", async () => {
  const node = await oneNode();
  try {
    await tell(node.address, 'members', 'init');
    const printed = await readmeExample(project, 'limits', node.address);
    assert.match(printed, /^ann may, and 1 are left of 2\nann may, and 0 are left of 2\nann may not until \S+T00:00:00\.000Z, in \d+ ms\nbob may, and 1 are left of 2\nlogin 2n 86400000\n$/);
  } finally {
    await node.stop();
  }
});
