// What the module takes of memory, which can be seen to the page: it never gives any back.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { install } from './install.mjs';

const memories = [];
const { Instance } = WebAssembly;
WebAssembly.Instance = class extends Instance {
  constructor(...given) {
    super(...given);
    memories.push(this.exports.memory);
  }
};
const { init, Replica } = await install().load();
await init();

const bytes = () => memories[0].buffer.byteLength;

test('a million adds take no memory', async () => {
  const replica = new Replica();
  const counter = replica.counter('likes');
  const round = async () => {
    for (let at = 0; at < 1_000; at++) {
      counter.add();
      replica.add(`page ${at % 100}`, -1);
    }
    await null; // the end of a turn
  };
  await round();
  const before = bytes();
  for (let rounds = 0; rounds < 500; rounds++) await round();
  assert.equal(bytes(), before);
  assert.equal(counter.value, 501_000n);
  replica.free();
});

test('what is freed is used again', () => {
  const whole = new Replica();
  for (let at = 0; at < 2_000; at++) whole.add(`page ${at}`);
  const state = whole.delta();
  const round = () => {
    const replica = new Replica();
    replica.merge(state);
    replica.delta();
    replica.free();
  };
  round();
  const before = bytes();
  for (let rounds = 0; rounds < 50; rounds++) round();
  assert.equal(bytes(), before);
  whole.free();
});
