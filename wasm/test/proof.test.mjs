// Links with tickets of lesser roles than member: what is signed, and what such a replica refuses then.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { install } from './install.mjs';
import { until } from './link.mjs';
import { FakeSocket, nextSocket } from './socket.mjs';

const { init, connect, Replica } = await install().load();
await init();

const CHALLENGE = '0c'.repeat(32);
const NODE = '0d'.repeat(32);

const asked = (role) => JSON.stringify({ challenge: CHALLENGE, node: NODE, role });

/** A replica with a key, and how it is connected. */
async function signer() {
  const { privateKey, publicKey } = await crypto.subtle.generateKey('Ed25519', false, ['sign', 'verify']);
  const ownerKey = new Uint8Array(await crypto.subtle.exportKey('raw', publicKey));
  const replica = new Replica({ ownerKey });
  const sign = (bytes) => crypto.subtle.sign('Ed25519', privateKey, bytes);
  return { replica, sign, publicKey, owner: Buffer.from(ownerKey).toString('hex') };
}

/** Connects it, and has the node say this first. */
function dial(replica, sign, says) {
  FakeSocket.made = [];
  const connection = connect(replica, 'http://node/', { WebSocket: FakeSocket, retryMinMs: 1, retryMaxMs: 4, sign, ticket: 't' });
  const [socket] = FakeSocket.made;
  socket.open();
  assert.deepEqual(socket.sent, [], 'who can sign waits for the node');
  socket.onmessage({ data: says });
  return { connection, socket };
}

/** Resolves when the connection changes its state. */
const changed = (connection) => new Promise((resolve) => connection.subscribe(resolve));

test('a challenge is signed with the owner\'s key, and frames follow', async () => {
  const { replica, sign, publicKey, owner } = await signer();
  replica.add('likes');
  const { connection, socket } = dial(replica, sign, asked('editor'));
  assert.equal(await changed(connection), 'online');
  const [proof, hello] = socket.sent;
  const said = JSON.parse(proof);
  assert.deepEqual(Object.keys(said), ['owner', 'signature']);
  assert.equal(said.owner, owner);
  const signed = Buffer.concat([Buffer.from('tallymesh-link-1'), Buffer.from(CHALLENGE + NODE, 'hex')]);
  assert.equal(await crypto.subtle.verify('Ed25519', publicKey, Buffer.from(said.signature, 'hex'), signed), true);
  assert.ok(hello instanceof Uint8Array);
  replica.reset('likes');
  assert.equal(replica.get('likes'), 0n);
  connection.close();
});

test('what the role does not allow is refused at once', async () => {
  const { replica, sign } = await signer();
  const likes = replica.counter('likes');
  for (const [role, adds] of [['writer', true], ['reader', false], ['writer', true]]) {
    const { connection } = dial(replica, sign, asked(role));
    await changed(connection);
    const before = { ...replica.toJSON() };
    const refused = { code: 'beyond_role' };
    assert.throws(() => replica.reset('likes'), refused, role);
    assert.throws(() => replica.transact([{ op: 'add', key: 'x' }, { op: 'delete', key: 'likes' }]), refused, role);
    if (!adds) {
      assert.throws(() => replica.add('likes'), refused);
      assert.throws(() => likes.add(2n), refused);
      assert.throws(() => replica.transact([{ op: 'add', key: 'x' }]), refused);
    }
    assert.deepEqual(replica.toJSON(), before);
    if (adds) likes.add(1);
    connection.close();
  }
  assert.equal(replica.get('likes'), 2n);
});

test('a node that asks for nothing is greeted as it speaks', async () => {
  const { replica, sign } = await signer();
  const node = new Replica();
  node.add('likes', 3);
  FakeSocket.made = [];
  const connection = connect(replica, 'http://node/', { WebSocket: FakeSocket, sign });
  const [socket] = FakeSocket.made;
  socket.open();
  const link = node.attach({ send: (frame) => socket.onmessage?.({ data: frame }), close: assert.fail });
  assert.equal(connection.state, 'online');
  socket.send = (frame) => link.receive(frame);
  for (const frame of socket.sent) link.receive(frame);
  await until(() => replica.get('likes') === 3n, [replica]);
  connection.close();
  link.close();
});

const failing = {
  'no signature': [undefined, asked('writer'), 'owner_proof', /options\.sign/],
  'a signature that fails': [() => Promise.reject(new Error('no key')), asked('writer'), 'owner_proof', /no key/],
  'one that throws': [() => { throw new Error('no hand'); }, asked('writer'), 'owner_proof', /no hand/],
  'one of another length': [() => Promise.resolve(new Uint8Array(63)), asked('writer'), 'owner_proof', /63 bytes/],
  'a text of something else': [() => assert.fail(), 'hello', 'not_a_challenge', /text/],
  'a challenge that is short': [() => assert.fail(), JSON.stringify({ challenge: '0c', node: NODE }), 'not_a_challenge', /text/],
  'a challenge without a node': [() => assert.fail(), JSON.stringify({ challenge: CHALLENGE }), 'not_a_challenge', /text/],
};
for (const [name, [sign, says, code, message]] of Object.entries(failing)) {
  test(`without a proof there is no link, and it is tried again: ${name}`, async () => {
    const replica = new Replica();
    await replica.upgrade();
    FakeSocket.made = [];
    const connection = connect(replica, 'http://node/', { WebSocket: FakeSocket, retryMinMs: 1, retryMaxMs: 4, sign, ticket: 't' });
    FakeSocket.made[0].open();
    FakeSocket.made[0].onmessage({ data: says });
    assert.equal(await changed(connection), 'waiting');
    assert.equal(connection.error.code, code);
    assert.match(connection.error.message, message);
    assert.equal(replica.status().links, 0);
    (await nextSocket(2)).open();
    connection.close();
    replica.free();
  });
}

test('a proof that comes after the connection was closed is not sent', async () => {
  const replica = new Replica();
  let begun;
  let go;
  const waits = new Promise((resolve) => (go = resolve));
  const asks = new Promise((resolve) => (begun = resolve));
  const { connection, socket } = dial(replica, async () => {
    begun();
    await waits;
    return new Uint8Array(64);
  }, asked('writer'));
  await asks;
  connection.close();
  go();
  await new Promise((resolve) => setImmediate(resolve)); // after all that follows from it
  assert.deepEqual(socket.sent, []);
  assert.equal(replica.status().links, 0);
});
