import assert from 'node:assert/strict';
import { test } from 'node:test';
import { install } from './install.mjs';

const { init, open, Replica, TallymeshError } = await install().load();
await init();

const microtask = () => new Promise((resolve) => queueMicrotask(resolve));

test('counts', () => {
  const replica = new Replica();
  assert.equal(replica.get('likes'), undefined);
  replica.add('likes');
  replica.add('likes', 41);
  replica.add('likes', -2n);
  replica.add('zero', 0);
  assert.equal(replica.get('likes'), 40n);
  assert.equal(replica.get('zero'), 0n);
  assert.deepEqual(replica.keys(), ['likes', 'zero']);
  assert.deepEqual(replica.list('l'), [['likes', 40n]]);
  const { clock, counters, shards, vector } = replica.status();
  assert.deepEqual({ clock, counters, shards }, { clock: 4n, counters: 2, shards: 2 });
  assert.deepEqual([...vector], [[replica.writer, 4n]]);
});

test('a counter object counts without its key and can be freed', () => {
  const replica = new Replica();
  const votes = replica.counter('votes');
  assert.equal(votes.value, undefined);
  votes.add();
  votes.add(2n ** 40n);
  assert.equal(votes.value, 2n ** 40n + 1n);
  votes.free();
  votes.free();
  assert.throws(() => votes.add(), { code: 'freed' });
  assert.equal(replica.get('votes'), 2n ** 40n + 1n);
});

test('sums beyond 64 bits are exact', () => {
  const replicas = [new Replica(), new Replica(), new Replica()];
  for (const replica of replicas) replica.add('big', 2n ** 63n - 1n);
  for (const replica of replicas) for (const other of replicas) replica.merge(other.delta());
  for (const replica of replicas) {
    assert.equal(replica.get('big'), 3n * (2n ** 63n - 1n));
    replica.add('big', -(2n ** 63n - 1n));
    replica.add('big', -(2n ** 63n));
  }
  for (const replica of replicas) for (const other of replicas) replica.merge(other.delta());
  assert.equal(replicas[0].get('big'), 3n * -(2n ** 63n));
});

test('more keys than stay at hand are counted all the same', () => {
  const replica = new Replica();
  for (let round = 0; round < 2; round++) for (let key = 0; key < 20_000; key++) replica.add(`k${key}`);
  assert.equal(replica.status().counters, 20_000);
  for (const [, value] of replica.list()) assert.equal(value, 2n);
});

const refused = [
  ['a fraction', 0.5, 'amount_not_integer'],
  ['NaN', NaN, 'amount_not_integer'],
  ['infinity', Infinity, 'amount_not_integer'],
  ['an unsafe integer', 2 ** 53, 'amount_unsafe'],
  ['a text', '1', 'amount_not_integer'],
  ['null', null, 'amount_not_integer'],
  ['an object', {}, 'amount_not_integer'],
  ['2^63', 2n ** 63n, 'amount_range'],
  ['-2^63 - 1', -(2n ** 63n) - 1n, 'amount_range'],
];
for (const [name, by, code] of refused) {
  test(`${name} cannot be added`, () => {
    const replica = new Replica();
    replica.add('k', 3);
    const before = replica.delta();
    for (const key of ['k', 'new']) {
      assert.throws(() => replica.add(key, by), (error) => error instanceof TallymeshError && error.code === code);
    }
    assert.deepEqual(replica.delta(), before);
    assert.equal(replica.get('new'), undefined);
  });
}

const refusedKeys = [
  ['the empty key', '', 'key_length'],
  ['a key of 513 bytes', 'é'.repeat(256) + 'x', 'key_length'],
  ['half of a surrogate pair', 'a\ud800', 'key_unicode'],
  ['a key that begins with U+0000', '\0bvgift', 'key_reserved'],
  ['U+0000 alone', '\0', 'key_reserved'],
  ['a number as key', 7, 'key_type'],
  ['no key', undefined, 'key_type'],
];
for (const [name, key, code] of refusedKeys) {
  test(`${name} is refused`, () => {
    const replica = new Replica();
    assert.throws(() => replica.add(key), { name: 'TallymeshError', code });
    assert.throws(() => replica.counter(key), { code });
    assert.equal(replica.status().counters, 0);
  });
}

test('keys of every plane and of the greatest length work', () => {
  const replica = new Replica();
  for (const key of ['𝔘nicode 🧮', 'é'.repeat(256), '__proto__', 'a\0']) {
    replica.add(key);
    assert.equal(replica.get(key), 1n);
    assert.equal(replica.toJSON().counters[key].value, '1');
  }
});

test('an overflow is refused and changes nothing', () => {
  const replica = new Replica();
  replica.add('k', 2n ** 63n - 1n);
  const before = replica.delta();
  assert.throws(() => replica.add('k'), { code: 'overflow', message: /cannot add 1 to "k"/ });
  assert.deepEqual(replica.delta(), before);
});

test('a space or an owner that cannot be is refused', () => {
  for (const space of ['', 'a b', 'x'.repeat(65), '../up']) assert.throws(() => new Replica({ space }), { code: 'space_name' });
  for (const ownerKey of [new Uint8Array(31), 'key']) assert.throws(() => new Replica({ ownerKey }), { code: 'owner_key' });
});

test('each replica writes under an id of its own, also with one owner', () => {
  const ownerKey = new Uint8Array(32).fill(7);
  assert.notEqual(new Replica({ ownerKey }).writer, new Replica({ ownerKey }).writer);
});

test('subscribers hear of local adds and of merges, once a turn', async () => {
  const replica = new Replica();
  const other = new Replica();
  const heard = [];
  const stop = replica.subscribe('likes', (value, key) => heard.push(['one', key, value]));
  const stopAll = replica.subscribe({ prefix: '' }, (value, key) => heard.push(['all', key, value]));
  replica.add('likes');
  replica.add('likes');
  replica.add('views');
  assert.deepEqual(heard, []);
  await microtask();
  assert.deepEqual(heard.splice(0), [['one', 'likes', 2n], ['all', 'likes', 2n], ['all', 'views', 1n]]);
  other.add('likes', 5);
  replica.merge(other.delta());
  await microtask();
  assert.deepEqual(heard.splice(0), [['one', 'likes', 7n], ['all', 'likes', 7n]]);
  replica.merge(other.delta());
  stop();
  replica.add('likes');
  await microtask();
  assert.deepEqual(heard.splice(0), [['all', 'likes', 8n]]);
  stopAll();
  stopAll();
  replica.add('likes');
  await microtask();
  assert.deepEqual(heard, []);
});

test('messages merge in any order and any number of times', () => {
  const [a, b, c] = [new Replica(), new Replica(), new Replica()];
  a.add('likes', 2);
  b.add('likes', 3);
  b.add('views');
  const early = a.delta();
  a.add('likes', 10);
  for (const bytes of [b.delta(), a.delta(), early, a.delta(), b.delta()]) c.merge(bytes);
  assert.equal(c.get('likes'), 15n);
  assert.equal(c.get('views'), 1n);
  assert.deepEqual(c.shards('likes').map(({ total }) => total).sort(), [12n, 3n].sort());
});

test('changes gives what is new since it was last asked', () => {
  const replica = new Replica();
  const log = [];
  assert.equal(replica.changes(), undefined);
  for (const key of ['a', 'b', 'a']) {
    replica.add(key);
    log.push(replica.changes());
  }
  assert.equal(replica.changes(), undefined);
  const restored = new Replica();
  for (const bytes of log) restored.merge(bytes);
  assert.deepEqual(restored.list(), [['a', 2n], ['b', 1n]]);
});

test('hostile bytes are refused with a code and leave the replica as it was', () => {
  const source = new Replica();
  for (let key = 0; key < 40; key++) source.add(`key ${key}`, key);
  const good = source.delta();
  const replica = new Replica();
  replica.add('mine', 7);
  const before = replica.delta();
  const refuse = (bytes) => {
    assert.throws(() => replica.merge(bytes), (error) => error instanceof TallymeshError && /^[a-z_]+$/.test(error.code));
  };
  for (let end = 0; end < good.length; end++) refuse(good.subarray(0, end));
  refuse(new Uint8Array([...good, 0]));
  refuse(new Uint8Array(64).fill(0xff));
  assert.throws(() => replica.merge('text'), { code: 'not_bytes' });
  assert.deepEqual(replica.delta(), before);
  replica.merge(good);
  assert.equal(replica.status().counters, 41);
});

test('toJSON is the full shard map', () => {
  const [a, b] = [new Replica({ space: 'shop' }), new Replica({ space: 'shop' })];
  a.add('likes', 2);
  b.add('likes', 2n ** 60n);
  a.merge(b.delta());
  assert.deepEqual(JSON.parse(JSON.stringify(a)), {
    space: 'shop',
    writer: a.writer,
    clock: '1',
    vector: { [a.writer]: '1', [b.writer]: '1' },
    counters: {
      likes: {
        value: String(2n ** 60n + 2n),
        shards: { [a.writer]: { clock: '1', total: '2' }, [b.writer]: { clock: '1', total: String(2n ** 60n) } },
      },
    },
  });
});

test('a freed replica says so', async () => {
  const replica = await open();
  const counter = replica.counter('k');
  replica.add('k');
  replica.free();
  replica.free();
  for (const use of [() => replica.add('k'), () => replica.get('k'), () => replica.delta(), () => replica.status(), () => counter.add()]) {
    assert.throws(use, { code: 'freed' });
  }
  counter.free();
});

test('peers are told the name of a replica, also after it moved to the second module', async () => {
  const name = 'é'.repeat(20);
  const replica = new Replica({ name });
  const hello = () => {
    const frames = [];
    replica.attach({ send: (frame) => frames.push(Buffer.from(frame)), close: () => {} }).close();
    return frames[0];
  };
  assert.ok(hello().includes(` ${name}`));
  await replica.upgrade();
  assert.ok(hello().includes(` ${name}`));
  assert.equal(replica.space, 'default');
  assert.equal(replica.status().space, 'default');
  replica.free();
});

const refusedNames = [
  ['a name of 41 bytes', 'é'.repeat(20) + 'x'],
  ['a name with a line break', 'a\nb'],
  ['a name with an escape', '\u001b[31m'],
  ['a number as name', 7],
  ['null as name', null],
];
for (const [what, name] of refusedNames) {
  test(`${what} is refused`, () => {
    assert.throws(() => new Replica({ name }), { name: 'TallymeshError', code: 'replica_name' });
  });
}

test('a name does not hide that a space is none', () => {
  for (const space of ['a b', 'a\nb', '\n', '']) {
    assert.throws(() => new Replica({ space, name: 'till 3' }), { code: 'space_name' });
    assert.throws(() => new Replica({ space }), { code: 'space_name' });
  }
});
