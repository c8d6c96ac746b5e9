import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { install } from './install.mjs';
import { DEADLINE_MS, pair, until } from './link.mjs';

const { init, Replica, TallymeshError } = await install().load();
await init();

const vectors = (name) => JSON.parse(readFileSync(new URL(`../../tests/vectors/${name}.json`, import.meta.url)));
const tokens = vectors('tokens');
const text = (name) => tokens.find((vector) => vector.name === name).text;
const NOTHING = text('nothing');
/** Looks, and does not wait. */
const NOW = { waitMs: 0 };
const LONG = { waitMs: DEADLINE_MS };
const NOT_YET = { code: 'token_not_reached' };
/** After all microtasks. */
const soon = () => new Promise((resolve) => setImmediate(resolve));

test('tokens are read and written as specified', async () => {
  const replica = new Replica();
  for (const { name, text, refused } of tokens) {
    if (refused) {
      await assert.rejects(replica.reached(text), { code: refused }, name);
      // No text begins a session there, as it does over HTTP.
      if (text !== '') await assert.rejects(replica.token(text), { code: refused }, name);
    } else {
      assert.equal(await replica.token(text), text, name);
      if (text !== NOTHING) await assert.rejects(replica.reached(text, NOW), NOT_YET, name);
    }
  }
  for (const none of ['', null, undefined]) assert.equal(await replica.token(none), NOTHING);
  await replica.reached(NOTHING, NOW);
  await assert.rejects(replica.reached(undefined), { code: 'token' });
  await assert.rejects(replica.reached('\ud800'), (error) => error instanceof TallymeshError && error.code === 'token');

  const { hex } = vectors('messages').find(({ name }) => name === 'two_writers');
  replica.merge(new Uint8Array(Buffer.from(hex, 'hex')));
  assert.equal(await replica.token(), text('two'));
  await replica.reached(text('two'), NOW);
  assert.equal(await replica.token(text('one')), await new Replica().token(await replica.token(text('one'))));
  await assert.rejects(replica.reached(await replica.token(text('one')), NOW), NOT_YET);
});

/** A token's writers, each with a clock below 128. */
function writers(token) {
  const bytes = Buffer.from(token, 'base64url');
  const entries = [];
  for (let at = 2; at < bytes.length; at += 17) entries.push([bytes.toString('hex', at, at + 16), bytes[at + 16]]);
  return entries;
}

test('a token names what was written, and what was seen since', async () => {
  const [here, there] = [new Replica(), new Replica()];
  assert.equal(await here.token(), NOTHING);
  here.add('likes');
  here.add('likes');
  const written = await here.token();
  assert.deepEqual(writers(written), [[here.writer, 2]]);
  there.add('likes');
  const other = await there.token();
  assert.deepEqual(writers(await here.token(other)), [[here.writer, 2], [there.writer, 1]].sort());
  here.merge(there.delta());
  assert.deepEqual(writers(await here.token()), [[here.writer, 2], [there.writer, 1]].sort());
  here.add('likes');
  assert.deepEqual(writers(await here.token(other)), [[here.writer, 3]], 'a change stands for all that it had seen');
});

test('a token is waited for: over a link, after a merge, or in vain', async (context) => {
  const [here, there] = [new Replica(), new Replica()];
  await there.upgrade(); // which closes links
  here.add('likes', 5);
  const first = await here.token();
  await here.reached(first, NOW);
  await assert.rejects(there.reached(first, { waitMs: 20 }), (error) => {
    assert.ok(error instanceof TallymeshError);
    assert.equal(error.code, 'token_not_reached');
    assert.match(error.message, /waited 20 ms/);
    return true;
  });
  let reached = false;
  const waiting = there.reached(first, LONG).then(() => (reached = true));
  const link = pair(here, there);
  context.after(link.cut);
  await until(() => there.get('likes') === 5n, [there]);
  await soon();
  assert.ok(reached, 'at once');
  await waiting;
  assert.deepEqual(link.errors, []);

  link.cut();
  // Of these no counter tells that they came.
  here.add('gone');
  here.delete('gone');
  const second = await here.token();
  const all = Promise.all([there.reached(second), there.reached(second, { waitMs: Infinity }), there.reached(first)]);
  // A timer without an end would fire by now.
  await new Promise((resolve) => setTimeout(resolve, 5));
  there.merge(here.delta());
  await all;
});

test('what is waited for ends when the replica is freed', async () => {
  const replica = new Replica();
  await replica.upgrade();
  let code;
  const waiting = replica.reached(text('one'), LONG).catch((error) => (code = error.code));
  await soon();
  assert.equal(code, undefined, 'it waits');
  replica.free();
  await soon();
  assert.equal(code, 'freed', 'at once');
  await waiting;
  await assert.rejects(replica.token(), { code: 'freed' });
  await assert.rejects(replica.reached(NOTHING), { code: 'freed' });
  const early = new Replica();
  const never = assert.rejects(early.token(), { code: 'freed' });
  early.free();
  await never;
});

test('a wait for a token ends when its signal is aborted', async () => {
  const replica = new Replica();
  const given = new AbortController();
  const why = new Error('the user went on');
  const waiting = assert.rejects(replica.reached(text('one'), { ...LONG, signal: given.signal }), why);
  await replica.upgrade();
  given.abort(why);
  await waiting;
  await assert.rejects(replica.reached(NOTHING, { signal: given.signal }), why);
  const kept = new AbortController();
  await replica.reached(NOTHING, { signal: kept.signal });
  kept.abort();
});

test('a token has room for 64 writers', async () => {
  const [here, there] = [new Replica(), new Replica()];
  for (let writer = 0; writer < 65; writer++) {
    const one = new Replica();
    one.add('likes');
    here.merge(one.delta());
    one.free();
    if (writer === 63) assert.equal(writers(await here.token()).length, 64);
  }
  await assert.rejects(here.token(), { code: 'token_full', message: /64 writers.*after a change here/ });
  here.add('likes');
  const token = await here.token();
  assert.deepEqual(writers(token), [[here.writer, 1]]);
  there.merge(here.delta());
  await there.reached(token, NOW);
  assert.equal(there.get('likes'), 66n);
});

test('a replica that has no module for tokens yet goes on meanwhile, with its links', async () => {
  const [here, there] = [new Replica(), new Replica()];
  const first = pair(here, there);
  here.add('likes');
  const token = here.token();
  here.add('likes');
  assert.deepEqual(writers(await token), [[here.writer, 2]]);
  assert.deepEqual(first.errors.map(({ code }) => code), ['upgraded']);
  assert.match(first.errors[0].message, /connect it again/);
  first.cut();
  const second = pair(here, there);
  await until(() => there.get('likes') === 2n, [there]);
  second.cut();
});
