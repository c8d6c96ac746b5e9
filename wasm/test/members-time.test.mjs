// By whose clock counters expire in a space with members: the page's is fast by hours. The member is made by hand.
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { install } from './install.mjs';
import { closedState } from './member.mjs';

const { init, open, Replica, TallymeshError } = await install().load();
await init();

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** The member's time at the start. */
const BEGINS = 1_700_000_000_000;

/** Bytes of hexadecimal digits. */
const bytes = (...hex) => new Uint8Array(Buffer.from(hex.join(''), 'hex'));
/** A frame of the default space. */
const frame = (type, ...body) => bytes('746d01', type, '07', Buffer.from('default').toString('hex'), ...body);
const varint = (number) => {
  const groups = [];
  for (let left = BigInt(number); left > 0n || groups.length === 0; left >>= 7n) groups.push(Number(left & 127n));
  return groups.map((group, at) => (group | (at + 1 < groups.length ? 128 : 0)).toString(16).padStart(2, '0')).join('');
};
const hello = (writer) =>
  frame('01', '0101', '00', '05'.repeat(8), '00', '00'.repeat(16), '00', '00'.repeat(24), writer.repeat(16), '02');
const time = (unixMs) => frame('10', varint(unixMs));

const HELLO = 1;
const MEMBER = 'c0';
const CAPABILITIES = '8018'; // 1024, to take the time, and 2048, to follow rounds

/** Links a peer that writes under this id, and says no more than its hello. */
function linked(replica, writer = MEMBER) {
  const sent = [];
  const link = replica.attach({ send: (frame) => sent.push(frame), close: (error) => assert.fail(error) });
  link.receive(hello(writer));
  return { sent, tell: (unixMs) => link.receive(time(unixMs)), cut: () => link.close() };
}

/** A page in a space with members, with a counter of 5 that expires in an hour. `body` moves its clocks. */
async function fastPage(body) {
  let monotonic = 1_000;
  mock.timers.enable({ apis: ['Date', 'setTimeout'], now: BEGINS });
  mock.method(performance, 'now', () => monotonic);
  const replica = await open({ members: true });
  try {
    replica.add('k', 5);
    replica.expire('k', new Date(BEGINS + HOUR));
    replica.merge(closedState(10));
    mock.timers.setTime(BEGINS + 3 * HOUR);
    await body(replica, (ms) => {
      monotonic += ms;
      mock.timers.tick(ms);
    });
  } finally {
    replica.free();
    mock.restoreAll();
    mock.timers.reset();
  }
}

const expired = { code: 'expired', message: /no member told it the time/ };

test('a fast page that no member told the time ends no counter', () =>
  fastPage((replica) => {
    const before = replica.status().clock;
    assert.equal(replica.get('k'), undefined, 'reads go by its own clock');
    assert.throws(() => replica.add('k'), expired);
    assert.throws(() => replica.add('k'), TallymeshError);
    assert.throws(() => replica.transact([{ op: 'add', key: 'other' }, { op: 'set', key: 'k', value: 1 }]), expired);
    for (const act of ['reset', 'delete', 'persist']) assert.throws(() => replica[act]('k'), expired, act);
    assert.throws(() => replica.set('k', 1), expired);
    assert.throws(() => replica.expire('k', new Date(BEGINS + 9 * HOUR)), expired);
    assert.equal(replica.get('other'), undefined);
    assert.equal(replica.status().clock, before, 'nothing was made');
    replica.add('likes');
    assert.equal(replica.get('likes'), 11n);
  }));

test('a fast page goes by the time of its member', () =>
  fastPage(async (replica, pass) => {
    const heard = [];
    replica.subscribe('k', (value) => heard.push(value));
    const member = linked(replica);
    assert.equal(Buffer.from(member.sent[0]).toString('hex', 14, 16), CAPABILITIES);
    member.tell(BEGINS);
    assert.equal(replica.get('k'), 5n);
    assert.deepEqual(replica.expiresAt('k'), new Date(BEGINS + HOUR));
    replica.add('k');
    await Promise.resolve();
    assert.deepEqual(heard.splice(0), [6n]);
    pass(5 * MINUTE);
    replica.add('k');
    await Promise.resolve();
    assert.deepEqual(heard.splice(0), [7n], 'no timer goes by the own clock');
    member.tell(BEGINS + 59 * MINUTE);
    assert.equal(replica.get('k'), 7n);
    pass(MINUTE - 1);
    assert.equal(replica.get('k'), 7n);
    // By the member's time it is over, and the page may end it.
    pass(1);
    assert.deepEqual(heard.splice(0), [undefined]);
    assert.equal(replica.get('k'), undefined);
    replica.add('k', 2);
    assert.equal(replica.get('k'), 2n);
    assert.equal(replica.expiresAt('k'), undefined);
  }));

test('what a member told holds for ten minutes', () =>
  fastPage((replica, pass) => {
    const member = linked(replica);
    member.tell(BEGINS);
    member.cut();
    pass(10 * MINUTE - 1);
    replica.add('k');
    assert.equal(replica.get('k'), 6n);
    pass(1);
    assert.throws(() => replica.add('k'), expired);
    // Another page is no member, and a link to the member is none of its word.
    const page = linked(replica, 'aa');
    page.tell(BEGINS);
    const again = linked(replica);
    assert.throws(() => replica.add('k'), expired);
    again.tell(BEGINS + 11 * MINUTE);
    replica.add('k');
    assert.equal(replica.get('k'), 7n);
  }));

test('in a space without members a page goes by its own clock', async () => {
  mock.timers.enable({ apis: ['Date', 'setTimeout'], now: BEGINS });
  try {
    for (const replica of [new Replica(), await open({ members: true })]) {
      replica.add('k', 5);
      replica.expire('k', new Date(Date.now() + HOUR));
      mock.timers.setTime(Date.now() + 2 * HOUR);
      replica.add('k');
      assert.equal(replica.get('k'), 1n);
      const { sent } = linked(replica);
      assert.equal(sent[0][3], HELLO);
      replica.free();
    }
    const small = new Replica();
    assert.equal(linked(small).sent[0][14], 0, 'the first module takes no time');
    small.free();
  } finally {
    mock.timers.reset();
  }
});
