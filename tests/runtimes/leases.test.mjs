// Leases of budgets of three real nodes, held by the packed package: what is spent without asking, and told later.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { oneNode, tell } from '../e2e/nodes.mjs';
import { until } from '../e2e/until.mjs';
import { entryOf, example, lossy, readmeExample, threeMembers } from './asking.mjs';
import { gate } from './gate.mjs';
import { execute, makeProject, write } from './project.mjs';

const HOUR_MS = 3_600_000;
const FAST = { retryMinMs: 10, retryMaxMs: 100 };
/** Gives up at the second failure. */
const BRIEF = { retries: 1, retryMinMs: 1 };

let nodes;
let addresses;
let project;
let budgets;
let BudgetError;

before(async () => {
  nodes = await threeMembers();
  ({ addresses } = nodes);
  project = makeProject();
  ({ budgets, BudgetError } = await entryOf(project, 'budgets'));
});
after(() => nodes?.stop());

let keys = 0;

/** Pays into a budget at the first node, and waits until all know of it. */
async function minted(amount) {
  const key = `till-${keys++}`;
  await tell(addresses[0], 'budget', 'mint', key, String(amount));
  await until('all to know of it', () => shown(key, BigInt(amount)));
  return key;
}

/** Whether all nodes show this value of a budget, and so much on lease. */
async function shown(key, value, leased = 0n) {
  const seen = await Promise.all(addresses.map((address) => budgets(address).get(key)));
  return seen.every((budget) => budget?.value === value && budget.leased === leased);
}

/** Checks that nobody holds anything of a budget that is not there. */
async function adds(key) {
  const { value, leased, holders, leases = [], rights } = await budgets(addresses[0]).get(key);
  const sum = (numbers) => numbers.reduce((all, it) => all + it, 0n);
  assert.equal(sum(holders.map((it) => it.rights)) + leased, value);
  assert.equal(rights.here + rights.pending + rights.elsewhere, value);
  assert.deepEqual([sum(leases.map(({ left }) => left)), sum(holders.map((it) => it.leased))], [leased, leased]);
}

/** What a call throws, or a promise is rejected with. */
const refusal = async (call) => Promise.resolve().then(call).then(assert.fail, (error) => error);
const stored = (lease) => JSON.parse(JSON.stringify(lease.state));

test('what is spent while the network is gone is told afterwards', async () => {
  const key = await minted(100);
  const network = await gate(addresses[0]);
  try {
    const lease = await budgets({ urls: [network.address], ...BRIEF }).lease(key, 20, { ms: HOUR_MS });
    await until('all to know of the lease', () => shown(key, 100n, 20n));
    network.cut();
    assert.deepEqual([lease.spend(3), lease.spend(4n), lease.left], [17n, 13n, 13n]);
    const lost = await refusal(() => lease.tell());
    assert.deepEqual([lost.code, lost.applied, lease.untold], ['link_lost', 'unknown', 7n]);
    const short = await refusal(() => lease.spend(14));
    assert.deepEqual([short.code, lease.spent], ['lease_short', 7n]);
    assert.match(short.message, /^14 cannot be spent: 13 of 20 are left/);
    lease.spend(2);
    network.heal();
    await lease.tell();
    assert.deepEqual([lease.untold, lease.spent, lease.left], [0n, 9n, 11n]);
    await until('all to show what was spent', () => shown(key, 91n, 11n));
    const { leases, holders } = await budgets(addresses[1]).get(key);
    const { owner } = holders.find(({ leased }) => leased === 11n);
    assert.deepEqual([leases.length, leases[0].id, leases[0].left, typeof owner], [1, lease.id, 11n, 'string']);
    const endsInMs = Number(leases[0].until) - Date.now();
    assert.ok(endsInMs > HOUR_MS && endsInMs <= HOUR_MS * 1.01 + 2_000, `${endsInMs}`);
    await adds(key);
  } finally {
    network.stop();
  }
});

for (const [where, more] of Object.entries({ 'the same node': () => [], 'the next one': () => [addresses[1]] })) {
  test(`what is told counts once when its answer is lost and it is told again at ${where}`, async () => {
    const key = await minted(100);
    const way = await lossy(addresses[0], 0);
    try {
      const lease = await budgets({ urls: [way.address, ...more()], ...FAST }).lease(key, 20, { ms: HOUR_MS });
      lease.spend(7);
      way.lose(1);
      await lease.tell({ waitMs: 20_000 });
      assert.deepEqual([way.lost(), lease.untold], [1, 0n]);
      lease.spend(5);
      await lease.tell();
      await lease.end();
      await until('all to show 88', () => shown(key, 88n));
      await adds(key);
    } finally {
      way.stop();
    }
  });
}

test('the node that gave it is told first, and others only while that does not answer', async () => {
  const key = await minted(100);
  const network = await gate(addresses[0]);
  try {
    const shop = budgets({ urls: [network.address, addresses[1]], ...FAST });
    const lease = await shop.lease(key, 20, { ms: HOUR_MS });
    network.cut();
    lease.spend(3);
    await lease.tell({ waitMs: 20_000 });
    await until('another to have spent of its rights', () => shown(key, 97n, 20n));
    network.heal();
    lease.spend(4);
    await lease.tell();
    await until('the lease to be spent of', () => shown(key, 93n, 16n));
    await lease.end();
    await until('the rest to be back', () => shown(key, 93n));
    await adds(key);
  } finally {
    network.stop();
  }
});

test('a lease whose answer is lost is given once', async () => {
  const key = await minted(100);
  const way = await lossy(addresses[0], 1);
  try {
    const lease = await budgets({ urls: [way.address, addresses[1]], ...FAST }).lease(key, 20, { ms: HOUR_MS });
    assert.equal(way.lost(), 1);
    await until('all to know of it', () => shown(key, 100n, 20n));
    assert.equal((await budgets(addresses[0]).get(key)).leases.length, 1);
    await lease.end();
    await until('it to be back', () => shown(key, 100n));
    // One of which no answer comes at all is asked for again by hand, under its id.
    way.lose(Infinity);
    const [id, since] = ['0123456789abcdef'.repeat(2), Date.now()];
    const lost = await refusal(() => budgets({ urls: [way.address], ...BRIEF }).lease(key, 20, { ms: HOUR_MS, id, since }));
    assert.deepEqual([lost.code, lost.applied], ['link_lost', 'unknown']);
    assert.ok(lost.message.includes(`ask again with id "${id}" and since ${since}`), lost.message);
    const shop = budgets(addresses[0]);
    const again = await shop.lease(key, 20, { ms: HOUR_MS, id, since: since - HOUR_MS / 2 });
    assert.ok(again.endsInMs <= HOUR_MS / 2);
    await until('all to know of one', () => shown(key, 100n, 20n));
    // Who asks for it once more, as its state is lost, could not know what was spent.
    again.spend(1);
    await again.tell();
    assert.match((await refusal(() => shop.lease(key, 20, { ms: HOUR_MS, id, since }))).message, /19 are left of it.*\(lease_used\)$/);
    await again.end();
    await until('the rest to be back', () => shown(key, 99n));
  } finally {
    way.stop();
  }
});

test('a node that is away gives no lease, and the next does', async () => {
  const key = await minted(100);
  const network = await gate(addresses[0]);
  network.cut();
  try {
    const lease = await budgets({ urls: [network.address, addresses[1]], ...FAST }).lease(key, 20, { ms: HOUR_MS, waitMs: 20_000 });
    assert.ok(lease.state.node.startsWith(addresses[1]));
    await lease.end();
    await until('it to be back', () => shown(key, 100n));
  } finally {
    network.stop();
  }
});

test('it goes on from its state, and what was told without an answer counts once', async () => {
  const key = await minted(100);
  const way = await lossy(addresses[0], 0);
  try {
    const here = budgets({ urls: [way.address], ...BRIEF });
    const lease = await here.lease(key, 50, { ms: HOUR_MS });
    lease.spend(5);
    const early = stored(lease);
    way.lose(Infinity);
    assert.equal((await refusal(() => lease.tell())).applied, 'unknown');
    // The page is loaded anew, with what was stored before it told.
    const second = here.resume(early);
    assert.deepEqual([second.id, second.amount, second.left, second.untold], [lease.id, 50n, 45n, 5n]);
    second.spend(2);
    assert.equal((await refusal(() => second.tell())).applied, 'unknown');
    // And again, with what was stored after that, and once more after a spend; then it is told at another node.
    const third = here.resume(stored(second));
    third.spend(10);
    const fourth = budgets({ urls: [addresses[1]] }).resume(stored(here.resume(stored(third))));
    fourth.spend(1);
    await fourth.tell({ waitMs: 20_000 });
    assert.deepEqual([fourth.untold, fourth.left, fourth.state.parts], [0n, 32n, []]);
    way.lose(0);
    // What is told already is told again by whoever does not know it.
    await third.tell();
    await until('all to show 82', async () => (await Promise.all(addresses.map((it) => budgets(it).get(key)))).every(({ value }) => value === 82n));
    await adds(key);
  } finally {
    way.stop();
  }
});

test('calls that tell at once tell each part once', async () => {
  const key = await minted(100);
  const asked = [];
  let open = 0;
  const watched = async (url, init) => {
    asked.push([open++, JSON.parse(init.body).ops[0]]);
    return fetch(url, init).finally(() => open--);
  };
  const lease = await budgets({ urls: [addresses[0]], fetch: watched }).lease(key, 20, { ms: HOUR_MS });
  lease.spend(3);
  const tells = [lease.tell(), lease.tell()];
  lease.spend(4);
  tells.push(lease.tell(), lease.tell());
  lease.spend(1);
  const end = lease.end();
  await Promise.all([...tells, end]);
  assert.deepEqual([lease.untold, lease.spent], [0n, 8n]);
  // One request after the other.
  assert.deepEqual(asked.map(([others, { op, amount }]) => [others, op, amount]), [
    [0, 'lease', '20'], [0, 'spend', '8'], [0, 'end_lease', undefined],
  ]);
  await until('all to show 92', () => shown(key, 92n));
  await adds(key);
});

test('its end brings the rest back, and nothing is spent after it', async () => {
  const key = await minted(100);
  const shop = budgets(addresses[0]);
  const lease = await shop.lease(key, 100, { ms: HOUR_MS });
  const short = await refusal(() => shop.spend(key, 1));
  assert.deepEqual([short.code, short.held.here], ['rights_short', 0n]);
  lease.spend(30);
  const end = lease.end();
  const over = await refusal(() => lease.spend(1));
  assert.match(over.message, /^1 cannot be spent: the lease is over, with 70 of 100 left \(lease_over\)$/);
  await end;
  assert.deepEqual([lease.isOver, lease.left, lease.endsInMs, lease.spent, lease.untold], [true, 0n, 0, 30n, 0n]);
  const { value, leased, leases, rights } = await shop.get(key);
  assert.deepEqual([value, leased, leases, rights.here], [70n, 0n, undefined, 70n]);
  // Once more is no error, nor from its state, which is over.
  await lease.end();
  assert.equal(shop.resume(stored(lease)).isOver, true);
});

/** Sets the clocks of this process off from now on, by so many milliseconds, and `set` by others; `back` sets them right. */
function clocks() {
  const [now, steady] = [Date.now, performance.now];
  return {
    set: ({ wall = 0, mono = 0 }) => {
      Date.now = () => now() + wall;
      performance.now = () => steady.call(performance) + mono;
    },
    back: () => {
      Date.now = now;
      delete performance.now;
    },
  };
}

for (const [how, off] of Object.entries({
  'the wall clock, as after a sleep': { wall: HOUR_MS },
  'the monotonic clock': { mono: HOUR_MS },
  'a wall clock that was set to before its begin': { wall: -60_000 },
})) {
  test(`it is over by ${how}`, async () => {
    const key = await minted(20);
    const lease = await budgets(addresses[0]).lease(key, 20, { ms: HOUR_MS });
    const clock = clocks();
    try {
      // A minute is left by one clock, and the other one stands still.
      clock.set({ wall: off.wall > 0 ? off.wall - 60_000 : 0, mono: off.mono ? off.mono - 60_000 : 0 });
      lease.spend(2);
      assert.ok(lease.endsInMs > 0 && lease.endsInMs <= HOUR_MS);
      clock.set(off);
      assert.deepEqual([lease.isOver, lease.left, lease.endsInMs], [true, 0n, 0]);
      assert.equal((await refusal(() => lease.spend(1))).code, 'lease_over');
      assert.equal(lease.spent, 2n);
    } finally {
      clock.back();
    }
    // It stays over when clocks are set right, also from its state; what was spent is told all the same.
    assert.equal((await refusal(() => lease.spend(1))).code, 'lease_over');
    const again = budgets(addresses[0]).resume(stored(lease));
    assert.equal(again.isOver, true);
    await again.tell();
    await until('all to show 18', () => shown(key, 18n, 18n));
  });
}

test('its time is counted from before it was asked for, and over a reload', async () => {
  const key = await minted(20);
  const clock = clocks();
  const shop = budgets({
    urls: [addresses[0]],
    fetch: async (...asked) => {
      const answer = await fetch(...asked);
      clock.set({ wall: 60_000, mono: 60_000 });
      return answer;
    },
  });
  try {
    const lease = await shop.lease(key, 20, { ms: HOUR_MS });
    assert.ok(lease.endsInMs <= HOUR_MS - 60_000 && lease.endsInMs > HOUR_MS - 120_000, `${lease.endsInMs}`);
    const state = stored(lease);
    // While nobody was there only the wall clock went on.
    clock.set({ wall: HOUR_MS / 2 });
    assert.ok(shop.resume(state).endsInMs <= HOUR_MS / 2);
    clock.set({ wall: HOUR_MS });
    assert.equal(shop.resume(state).isOver, true);
    // One that was set back meanwhile does not bring back what had passed, and both go on from there.
    clock.set({ wall: 0 });
    const again = shop.resume(state);
    assert.ok(again.endsInMs <= HOUR_MS - 60_000);
    clock.set({ wall: 0, mono: HOUR_MS - 60_000 });
    assert.equal(again.isOver, true);
    clock.set({ wall: -60_000 });
    assert.equal(shop.resume(state).isOver, true);
  } finally {
    clock.back();
  }
});

test('a node that is killed between a spend and its telling, and started again, takes it from the lease', async () => {
  const node = await oneNode();
  const network = await gate(node.address);
  try {
    await tell(node.address, 'members', 'init');
    await tell(node.address, 'budget', 'mint', 'gift', '20');
    const shop = budgets({ urls: [network.address], ...FAST });
    const lease = await shop.lease('gift', 20, { ms: HOUR_MS });
    lease.spend(5);
    await lease.tell();
    lease.spend(6);
    network.cut();
    await node.again();
    network.move(node.address);
    network.heal();
    await lease.tell({ waitMs: 20_000 });
    const { value, leased, leases } = await shop.get('gift');
    assert.deepEqual([value, leased, leases[0].id, leases[0].left], [9n, 9n, lease.id, 9n]);
    await lease.end();
    assert.equal((await shop.spend('gift', 9, { waitMs: 20_000 })).value, 0n);
  } finally {
    network.stop();
    await node.stop();
  }
});

test('who tells late takes rights, and is refused where there are none', async () => {
  const [rich, poor] = [await minted(100), await minted(20)];
  const shop = budgets(addresses[0]);
  const [late, refused] = await Promise.all([rich, poor].map((key) => shop.lease(key, 20, { ms: 1_000 })));
  late.spend(5);
  refused.spend(5);
  await until('the leases to come back', async () => (await shown(rich, 100n)) && (await shown(poor, 20n)));
  assert.deepEqual([late.isOver, late.left, late.untold], [true, 0n, 5n]);
  await late.tell();
  await until('all to show 95', () => shown(rich, 95n));

  await shop.spend(poor, 18);
  const error = await refusal(() => refused.tell());
  assert.ok(error instanceof BudgetError);
  assert.deepEqual([error.code, error.applied, error.held.here, refused.untold], ['rights_short', 'no', 2n, 5n]);
  assert.equal((await refusal(() => refused.end())).code, 'rights_short');
  // It is told again when there are rights.
  await tell(addresses[0], 'budget', 'mint', poor, '10');
  await shop.resume(stored(refused)).end({ waitMs: 20_000 });
  await until('all to show 7', () => shown(poor, 7n));
  await adds(poor);
});

test('leases are given, spent of and ended in transactions', async () => {
  const [one, other] = [await minted(20), await minted(30)];
  const shop = budgets(addresses[0]);
  const ids = ['ab'.repeat(16), 'cd'.repeat(16)];
  const lease = { op: 'lease', amount: 10, ms: HOUR_MS };
  const given = await shop.transact([{ ...lease, key: one, id: ids[0] }, { ...lease, key: other, id: ids[1] }]);
  assert.deepEqual(given.map((it) => [it.lease.id, it.lease.left, it.budget.leased]), ids.map((id) => [id, 10n, 10n]));
  const [spent, ended] = await shop.transact([{ op: 'spend', key: one, amount: 4, lease: ids[0] }, { op: 'end_lease', key: other, id: ids[1] }]);
  assert.deepEqual([spent.budget.value, spent.budget.leased, ended.budget.value, ended.budget.leased], [16n, 6n, 30n, 0n]);
  const gone = await refusal(() => shop.transact([{ op: 'end_lease', key: other, id: ids[1] }]));
  assert.deepEqual([gone.code, gone.applied, gone.status], ['no_lease', 'no', 404]);
  assert.equal((await refusal(() => shop.transact([{ ...lease, key: one, id: ids[1] }], { idempotencyKey: 'a' }))).code, 'lease_once');
});

test('what is refused before any request the node refuses as well, with the same code, and no more', async () => {
  const all = `${addresses[0]}/v1/spaces/default/transactions`;
  const shop = budgets(addresses);
  let asked = 0;
  const quiet = budgets({ urls: addresses, fetch: () => asked++ });
  const id = 'ef'.repeat(16);
  const there = async (operation, headers = {}) =>
    (await (await fetch(all, { method: 'POST', headers, body: JSON.stringify({ ops: [{ op: 'lease', id, ...operation }] }) })).json()).code;

  const longest = 'n'.repeat(429);
  await tell(addresses[0], 'budget', 'mint', longest, '10');
  for (const ms of [1_000, 2_592_000_000]) await (await shop.lease(longest, 1, { ms })).end();
  const lease = { key: longest, amount: 1, ms: HOUR_MS };
  for (const wrong of [
    { key: `${longest}n` }, { ms: 999 }, { ms: 2_592_000_001 }, { amount: 2n ** 63n }, { id: id.toUpperCase() }, { id: id.slice(1) },
  ]) {
    const { key, amount, ...options } = { ...lease, ...wrong };
    const said = await there({ key, amount: String(amount), lease_ms: String(options.ms), ...(options.id && { id: options.id }) });
    assert.ok(said, 'the node refuses it');
    assert.equal((await refusal(() => quiet.lease(key, amount, options))).code, said);
  }
  assert.equal(await there({ key: longest, amount: '1', lease_ms: '1000' }, { 'idempotency-key': 'a' }), 'lease_once');
  for (const ms of [undefined, 1.5, '1000', Infinity]) assert.equal((await refusal(() => quiet.lease('a', 1, { ms }))).code, 'lease_range');
  assert.equal((await refusal(() => quiet.lease('a', 1.5, { ms: 1_000 }))).code, 'amount_not_integer');
  assert.equal((await refusal(() => quiet.lease('a', 1, { ms: 1_000, since: NaN }))).code, 'millis');
  assert.equal((await refusal(() => quiet.transact([{ op: 'spend', key: 'a', amount: 1, lease: 'a' }]))).code, 'lease_id');

  const held = await shop.lease(longest, 5, { ms: HOUR_MS });
  held.spend(3);
  for (const [amount, code] of [[-1, 'amount_range'], [1.5, 'amount_not_integer'], ['1', 'amount_not_integer'], [2 ** 53, 'amount_unsafe']]) {
    assert.equal((await refusal(() => held.spend(amount))).code, code);
  }
  assert.deepEqual([held.spent, held.spend(0), held.left], [3n, 2n, 2n]);
  const state = stored(held);
  for (const wrong of [
    undefined, null, 'a', {}, { ...state, id: 'a' }, { ...state, node: undefined }, { ...state, key: 7 }, { ...state, amount: '2' },
    { ...state, spent: 3 }, { ...state, spent: '-1' }, { ...state, told: '4' }, { ...state, parts: undefined }, { ...state, parts: ['4'] },
    { ...state, parts: ['3', '2'] }, { ...state, ms: null }, { ...state, since: '1' }, { ...state, passedMs: undefined },
  ]) {
    assert.equal((await refusal(() => quiet.resume(wrong))).code, 'lease_state', JSON.stringify(wrong));
  }
  assert.equal(asked, 0);
  await shop.resume(state).end();
});

test("the examples of the package's README and of docs/budgets.md do what they say", async () => {
  const node = await oneNode();
  try {
    await tell(node.address, 'members', 'init');
    for (const key of ['gift:7c1b', 'gift']) await tell(node.address, 'budget', 'mint', key, '100');
    assert.equal(await readmeExample(project, 'budgets', node.address, 'shop.lease('), '17n\n97n 0n\n');

    const code = example(readFileSync(new URL('../../docs/budgets.md', import.meta.url), 'utf8'), 'js', 'budgets', 'shop.lease(');
    // The storage of a page, that two loads of it share.
    const page = "import { existsSync, readFileSync, writeFileSync } from 'node:fs';\nconst localStorage = new Proxy({}, {\n"
      + "get: () => existsSync('stored') ? readFileSync('stored', 'utf8') : undefined, set: (_, __, value) => !writeFileSync('stored', value) });\n";
    write(project, { 'till.mjs': page + code.replace('https://node.example', node.address) });
    for (const printed of ['17n 3n\n', '14n 3n\n']) assert.equal(await execute(project, process.execPath, ['till.mjs']), printed);
    const { value, leased } = await budgets(node.address).get('gift');
    assert.deepEqual([value, leased], [94n, 14n]);
  } finally {
    await node.stop();
  }
});
