// Sequences of three real nodes that are members, drawn from in each runtime with the packed package.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { oneNode, tell } from '../e2e/nodes.mjs';
import { until } from '../e2e/until.mjs';
import { entryOf, everywhere, lossy, readmeExample, threeMembers } from './asking.mjs';
import { gate } from './gate.mjs';
import { makeProject } from './project.mjs';

let nodes;
let addresses;
let project;
let sequences;

before(async () => {
  nodes = await threeMembers();
  ({ addresses } = nodes);
  project = makeProject();
  ({ sequences } = await entryOf(project, 'sequences'));
});
after(() => nodes?.stop());

let keys = 0;
const fresh = () => `visits-${keys++}.`;
const asked = () => ({ nodes: addresses, key: fresh() });

/** Checks what the program told. */
function judge(outcome) {
  assert.deepEqual(outcome, {
    before: 'undefined',
    begun: [true, '1', '0', 0],
    again: [true, 'sequence_exists', 'no'],
    drawn: [['1', false, 0], ['2', false, 0], ['3', true, 0]],
    seen: ['3', '0', true],
    ended: 0,
    wrong: [true, false, 'number_range'],
    none: ['no_sequence', 'no', 'undefined'],
    names: [['', 'bigint']],
    known: ['3', '0'],
  });
}

everywhere({ entry: 'sequences', program: 'numbering.js', at: () => ({ project, addresses }), asked, judge });

/** Begins a sequence, and waits until all nodes have heard of it. */
async function begun() {
  const key = fresh();
  await sequences(addresses).begin(key);
  await until('all to know of it', async () => (await Promise.all(addresses.map((it) => sequences(it).get(key)))).every(Boolean));
  return key;
}

test('all who ask at three nodes get numbers of their own', async () => {
  const key = await begun();
  const drawn = await Promise.all(Array.from({ length: 30 }, (_, index) => sequences(addresses[index % 3]).next(key, { waitMs: 20_000 })));
  const numbers = new Set(drawn.map(({ number }) => number));
  assert.equal(numbers.size, 30);
  await until('all to know that 30 were handed out', async () => {
    const known = await Promise.all(addresses.map((it) => sequences(it).get(key)));
    return known.every(({ issued }) => issued === 30n);
  });
});

for (const [where, urls] of Object.entries({ 'the same node': (way) => [way], 'the next one': (way) => [way, addresses[1]] })) {
  test(`a number whose answer is lost is gone, and another one is drawn at ${where}`, async () => {
    const key = await begun();
    // The node holds some by then, so that it hands one out at once.
    const [{ number: first }, way] = [await sequences(addresses[0]).next(key, { waitMs: 20_000 }), await lossy(addresses[0], 1)];
    try {
      const shop = sequences({ urls: urls(way.address), retryMinMs: 10 });
      const { number, lost } = await shop.next(key, { waitMs: 20_000 });
      assert.deepEqual([first, lost, way.lost()], [1n, 1, 1]);
      assert.ok(number > 2n, `2 is lost, and not ${number}`);
      await until('all to know of three numbers', async () => (await sequences(addresses[2]).get(key)).issued === 3n);
      // Nobody has asked again here, and it is told that one may be lost.
      const dead = await lossy(addresses[0], Infinity);
      const error = await sequences({ urls: [dead.address], retries: 0 }).next(key, { waitMs: 20_000 }).catch((error) => error);
      dead.stop();
      assert.deepEqual([error.code, error.applied, dead.lost()], ['link_lost', 'unknown', 1]);
    } finally {
      way.stop();
    }
  });
}

test('a sequence that is begun by an answer that is lost is begun once', async () => {
  const key = fresh();
  const way = await lossy(addresses[0], 1);
  try {
    const { next } = await sequences({ urls: [way.address], retryMinMs: 10 }).begin(key);
    assert.deepEqual([next, way.lost()], [1n, 1]);
  } finally {
    way.stop();
  }
});

test('who handed a watched number out is told at another node, over a connection that breaks', async () => {
  const key = await begun();
  const network = await gate(addresses[2]);
  try {
    const far = sequences({ urls: [network.address], retryMinMs: 10, retryMaxMs: 100 });
    await far.watch(key, 2);
    // Who gives numbers has heard of it by then.
    await until('the first to know of the watch', async () => (await sequences(addresses[0]).get(key)).watched.length === 1);
    const states = [];
    for await (const { watched: [watch] } of far.changes({ prefix: key }, { signal: AbortSignal.timeout(30_000) })) {
      states.push(watch.state);
      if (watch.state === 'handed_out') {
        assert.deepEqual([watch.number, watch.own, watch.below], [2n, false, 0n]);
        break;
      }
      if (states.length > 1) continue;
      network.cut();
      const near = sequences(addresses[0]);
      const drawn = [await near.next(key, { waitMs: 20_000 }), await near.next(key, { waitMs: 20_000 })];
      network.heal();
      assert.deepEqual(drawn.map(({ number, watched }) => [number, watched]), [[1n, false], [2n, true]]);
    }
    assert.equal(states[0], 'open');
    // It is told until the watch is ended.
    assert.equal((await far.get(key)).watched[0].state, 'handed_out');
    await far.unwatch(key, 2n);
    await until('all to know that it is ended', async () => (await sequences(addresses[0]).get(key)).watched.length === 0);
  } finally {
    network.stop();
  }
});

test('what is refused before any request the node refuses as well, with the same code, and no more', async () => {
  const all = `${addresses[0]}/v1/spaces/default/sequences`;
  const shop = sequences(addresses);
  const code = async (path, method) => (await (await fetch(`${all}/${path}`, { method })).json()).code;
  const longest = 'n'.repeat(461);
  await shop.begin(longest);
  await shop.watch(longest, 2n ** 63n - 2n);
  await shop.watch(longest, 1);
  for (const [there, ours] of [
    [code(`${longest}n`, 'POST'), () => shop.begin(`${longest}n`)],
    [code(`${longest}/watches/0`, 'PUT'), () => shop.watch(longest, 0)],
    [code(`${longest}/watches/9223372036854775807`, 'PUT'), () => shop.watch(longest, 2n ** 63n - 1n)],
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
    assert.equal(await readmeExample(project, 'sequences', node.address), '1n\n2n true\n2n true\nvisits 2n true\n');
  } finally {
    await node.stop();
  }
});
