import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mock, test } from 'node:test';
import { install } from './install.mjs';
import { pair, until } from './link.mjs';

const { project, load } = install();
const { init, Replica, TallymeshError } = await load();
await init();

const MINUTE = 60_000;
const microtask = () => new Promise((resolve) => queueMicrotask(resolve));
const both = (a, b) => {
  a.merge(b.delta());
  b.merge(a.delta());
};

/** Runs `body` with a clock and timers that move only when told to. */
async function withClock(body) {
  mock.timers.enable({ apis: ['Date', 'setTimeout'], now: 1_700_000_000_000 });
  try {
    await body(mock.timers);
  } finally {
    mock.timers.reset();
  }
}

test('set, reset and delete leave what they say', () => {
  const replica = new Replica();
  replica.set('k', 7);
  assert.equal(replica.get('k'), 7n);
  replica.add('k', 3);
  assert.equal(replica.get('k'), 10n);
  replica.set('k', -(2n ** 63n));
  assert.equal(replica.get('k'), -(2n ** 63n));
  replica.reset('k');
  assert.equal(replica.get('k'), 0n);
  assert.deepEqual(replica.keys(), ['k']);
  assert.equal(replica.delete('k'), true);
  assert.equal(replica.get('k'), undefined);
  assert.deepEqual(replica.keys(), []);
  assert.deepEqual(replica.shards('k'), []);
  assert.equal(replica.delete('k'), false);
  assert.equal(replica.delete('never seen'), false);
  replica.add('k', 5);
  assert.equal(replica.get('k'), 5n);
});

test('what does nothing is no transaction', () => {
  const replica = new Replica();
  assert.equal(replica.delete('k'), false);
  assert.equal(replica.expire('k', new Date(Date.now() + MINUTE)), false);
  assert.equal(replica.persist('k'), false);
  assert.deepEqual(replica.transact([]), []);
  assert.equal(replica.status().clock, 0n);
  assert.equal(replica.changes(), undefined);
});

test('a cancel covers what it saw and no more', () => {
  const [a, b] = [new Replica(), new Replica()];
  a.add('k', 10);
  both(a, b);
  a.delete('k');
  b.add('k', 2);
  both(a, b);
  for (const replica of [a, b]) assert.equal(replica.get('k'), 2n);
  a.set('k', 100);
  b.reset('k');
  both(a, b);
  for (const replica of [a, b]) assert.equal(replica.get('k'), 100n);
  assert.deepEqual(a.toJSON().counters, b.toJSON().counters);
});

test('a counter object has the same operations', () => {
  const replica = new Replica();
  const votes = replica.counter('votes');
  votes.set(5);
  assert.equal(votes.value, 5n);
  votes.reset();
  assert.equal(votes.value, 0n);
  const at = new Date(Date.now() + MINUTE);
  assert.equal(votes.expire(at), true);
  assert.deepEqual(votes.expiresAt, at);
  assert.equal(votes.persist(), true);
  assert.equal(votes.expiresAt, undefined);
  assert.equal(votes.delete(), true);
  assert.equal(votes.value, undefined);
  votes.add();
  assert.equal(votes.value, 1n);
  votes.free();
  for (const use of [() => votes.set(1), () => votes.reset(), () => votes.delete(), () => votes.expiresAt]) {
    assert.throws(use, { code: 'freed' });
  }
});

test('a transaction is seen whole and tells of each operation', () => {
  const [a, b] = [new Replica(), new Replica()];
  a.add('stock', 3);
  const told = a.transact([
    { op: 'add', key: 'stock', by: -1 },
    { op: 'add', key: 'sold' },
    { op: 'set', key: 'price', value: 2n ** 62n },
    { op: 'expire', key: 'price', at: new Date(Date.now() + MINUTE) },
    { op: 'persist', key: 'price' },
    { op: 'persist', key: 'nothing' },
    { op: 'reset', key: 'price' },
    { op: 'delete', key: 'price' },
    { op: 'delete', key: 'price' },
  ]);
  assert.deepEqual(told, [true, false, false, true, true, false, true, true, false]);
  assert.equal(a.status().clock, 2n);
  b.merge(a.delta());
  assert.deepEqual(b.list(), [['sold', 1n], ['stock', 2n]]);
});

const refused = [
  ['an amount', [{ op: 'add', key: 'k', by: 0.5 }], 'amount_not_integer'],
  ['a value that is missing', [{ op: 'set', key: 'k' }], 'amount_not_integer'],
  ['a value beyond 64 bits', [{ op: 'set', key: 'k', value: 2n ** 63n }], 'amount_range'],
  ['a value that is not exact', [{ op: 'set', key: 'k', value: 2 ** 53 }], 'amount_unsafe'],
  ['a key', [{ op: 'reset', key: '' }], 'key_length'],
  ['a key that is no text', [{ op: 'delete', key: 7 }], 'key_type'],
  ['a key of a budget', [{ op: 'set', key: '\0bvgift', value: 1 }], 'key_reserved'],
  ['half a character', [{ op: 'delete', key: '\ud800' }], 'key_unicode'],
  ['an operation that is none', [{ op: 'incr', key: 'k' }], 'operation'],
  ['a time that is no date', [{ op: 'expire', key: 'k', at: Date.now() }], 'not_a_date'],
  ['a date that is none', [{ op: 'expire', key: 'k', at: new Date(NaN) }], 'not_a_date'],
  ['an overflow', [{ op: 'add', key: 'k', by: 2n ** 63n - 1n }], 'overflow'],
  ['too many operations', Array.from({ length: 10_001 }, () => ({ op: 'add', key: 'k' })), 'transaction_too_large'],
];
for (const [name, operations, code] of refused) {
  test(`${name} refuses the whole transaction`, () => {
    const replica = new Replica();
    replica.add('k', 3);
    const before = replica.delta();
    for (const around of [operations, [{ op: 'add', key: 'new' }, { op: 'delete', key: 'k' }, { op: 'add', key: 'k', by: 3 }, ...operations]]) {
      assert.throws(() => replica.transact(around), (error) => error instanceof TallymeshError && error.code === code);
      assert.deepEqual(replica.delta(), before);
    }
    // Nothing of it waits for the next one.
    assert.deepEqual(replica.transact([{ op: 'add', key: 'k' }]), [true]);
    assert.deepEqual(replica.list(), [['k', 4n]]);
  });
}

test('one operation that is refused says which', () => {
  const replica = new Replica();
  assert.throws(() => replica.reset('x'.repeat(513)), { code: 'key_length', message: /cannot reset "x{40}…": a key has/ });
  assert.throws(() => replica.expire('k', 'tomorrow'), { code: 'not_a_date', message: /valid Date/ });
});

test('an expired counter is absent, and begins anew', () =>
  withClock((clock) => {
    const [a, b] = [new Replica(), new Replica()];
    a.add('k', 5);
    const at = new Date(Date.now() + MINUTE);
    assert.equal(a.expire('k', at), true);
    assert.deepEqual(a.expiresAt('k'), at);
    assert.equal(a.toJSON().counters.k.expires_at, String(+at));
    b.merge(a.delta());
    clock.tick(MINUTE - 1);
    for (const replica of [a, b]) assert.equal(replica.get('k'), 5n);
    clock.tick(1);
    for (const replica of [a, b]) {
      assert.equal(replica.get('k'), undefined);
      assert.equal(replica.expiresAt('k'), undefined);
      assert.deepEqual(replica.list(), []);
      assert.equal(replica.status().counters, 0);
    }
    // Reading is no writing: only a write of its own turns the expiry into a delete.
    assert.equal(a.status().clock, 2n);
    assert.equal(b.status().clock, 0n);
    b.add('k', 2);
    a.merge(b.delta());
    for (const replica of [a, b]) assert.equal(replica.get('k'), 2n);
  }));

test('persist takes the expiry away, and the past is past', () =>
  withClock((clock) => {
    const replica = new Replica();
    replica.add('k');
    replica.expire('k', new Date(Date.now() + MINUTE));
    assert.equal(replica.persist('k'), true);
    assert.equal(replica.persist('k'), false);
    clock.tick(2 * MINUTE);
    assert.equal(replica.get('k'), 1n);
    replica.expire('k', new Date(8.64e15));
    assert.deepEqual(replica.expiresAt('k'), new Date(8.64e15));
    replica.expire('k', new Date(-1));
    assert.equal(replica.get('k'), undefined);
  }));

test('a subscriber hears of an expiry, however far it is', () =>
  withClock(async (clock) => {
    const [a, b] = [new Replica(), new Replica()];
    const heard = [];
    const stop = a.subscribe('k', (value, key) => heard.push([key, value]));
    b.add('k', 3);
    b.expire('k', new Date(Date.now() + 3 * MINUTE));
    b.add('other');
    b.expire('other', new Date(Date.now() + MINUTE));
    a.merge(b.delta());
    await microtask();
    assert.deepEqual(heard.splice(0), [['k', 3n]]);
    // A subscription that comes later, and one to all counters.
    const stopAll = b.subscribe({ prefix: '' }, (value, key) => heard.push([`all ${key}`, value]));
    clock.tick(2 * MINUTE);
    await microtask();
    assert.deepEqual(heard.splice(0), [['all other', undefined]]);
    // Two months are more than one timer can wait.
    b.expire('k', new Date(Date.now() + 86_400 * MINUTE));
    a.merge(b.delta());
    await microtask();
    heard.length = 0;
    for (let day = 0; day < 61; day++) clock.tick(1440 * MINUTE - 1);
    assert.deepEqual(heard.splice(0).sort(), [['all k', undefined], ['k', undefined]]);
    stop();
    stopAll();
    b.add('k');
    b.expire('k', new Date(Date.now() + MINUTE));
    clock.tick(2 * MINUTE);
    await microtask();
    assert.deepEqual(heard, []);
  }));

test('a clock that is set forward is noticed within a minute', () =>
  withClock(async (clock) => {
    const replica = new Replica();
    replica.add('k');
    replica.expire('k', new Date(Date.now() + 600 * MINUTE));
    const heard = [];
    replica.subscribe('k', (value) => heard.push(value));
    clock.setTime(Date.now() + 601 * MINUTE);
    clock.tick(MINUTE);
    assert.deepEqual(heard, [undefined]);
  }));

test('subscribers hear of cancels, and not of what did nothing', async () => {
  const [a, b] = [new Replica(), new Replica()];
  const heard = [];
  for (const replica of [a, b]) replica.subscribe({ prefix: '' }, (value, key) => heard.push([key, value]));
  a.transact([{ op: 'add', key: 'k' }, { op: 'set', key: 'l', value: 4 }, { op: 'delete', key: 'none' }]);
  await microtask();
  assert.deepEqual(heard.splice(0), [['k', 1n], ['l', 4n]]);
  b.merge(a.delta());
  a.delete('k');
  await microtask();
  assert.deepEqual(heard.splice(0), [['k', 1n], ['l', 4n], ['k', undefined]]);
  b.merge(a.delta());
  await microtask();
  assert.deepEqual(heard.splice(0), [['k', undefined]]);
});

test('a subscription with an expiry keeps no process alive', () => {
  writeFileSync(
    join(project, 'idle.js'),
    `import { open } from 'tallymesh';
     const replica = await open();
     replica.add('k');
     replica.expire('k', new Date(Date.now() + 3_600_000));
     replica.subscribe('k', () => {});
     console.log('done');`,
  );
  const output = execFileSync(process.execPath, ['idle.js'], { cwd: project, encoding: 'utf8', timeout: 20_000 });
  assert.equal(output, 'done\n');
});

test('a link carries every operation', async () => {
  const [a, b] = [new Replica(), new Replica()];
  const link = pair(a, b);
  a.add('k', 10);
  await until(() => b.get('k') === 10n, [b]);
  b.set('k', 4);
  await until(() => a.get('k') === 4n, [a]);
  a.reset('k');
  await until(() => b.get('k') === 0n, [b]);
  const at = new Date(Date.now() + MINUTE);
  b.expire('k', at);
  await until(() => a.expiresAt('k')?.getTime() === at.getTime(), [a]);
  a.persist('k');
  await until(() => b.expiresAt('k') === undefined, [b]);
  const seen = [];
  b.subscribe({ prefix: '' }, () => seen.push(b.list()));
  a.transact([{ op: 'delete', key: 'k' }, { op: 'add', key: 'l', by: 2 }, { op: 'set', key: 'm', value: 3 }]);
  await until(() => b.get('k') === undefined, [b]);
  // No listener ever saw a part of the transaction.
  for (const list of seen) assert.deepEqual(list, [['l', 2n], ['m', 3n]]);
  assert.deepEqual(link.errors, []);
  link.cut();
  a.delete('l');
  b.add('l', 1);
  b.set('m', 30);
  const again = pair(a, b);
  await until(() => a.get('l') === 1n && a.get('m') === 30n && b.get('l') === 1n, [a, b]);
  again.cut();
  assert.deepEqual(a.toJSON().counters, b.toJSON().counters);
});
