// How frames travel over libp2p: requests put together and taken apart.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const source = fileURLToPath(new URL('../js/transports/libp2p/frames.ts', import.meta.url));
const { outputFiles } = await build({ entryPoints: [source], bundle: true, format: 'esm', write: false });
const { framesOf, isHello, isPush, REQUEST_BYTES_MAX, spaceOf, takeRequest, topicOf } = await import(
  `data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`
);

const bytes = (...values) => Uint8Array.from(values);

test('a request has each frame after its length', () => {
  const queue = [bytes(1, 2, 3), bytes(), bytes(4)];
  const request = takeRequest(queue);
  assert.deepEqual(request, bytes(3, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 1, 0, 0, 0, 4));
  assert.equal(queue.length, 0);
  assert.deepEqual(framesOf(request), [bytes(1, 2, 3), bytes(), bytes(4)]);
  assert.deepEqual(framesOf(bytes()), []);
});

test('several frames go together while they are small, and a large one goes alone', () => {
  const small = new Uint8Array(30_000);
  const large = new Uint8Array(REQUEST_BYTES_MAX - 4);
  const queue = [small, small, small, large, small];
  const lengths = [];
  while (queue.length > 0) lengths.push(takeRequest(queue).length);
  assert.deepEqual(lengths, [60_008, 30_004, REQUEST_BYTES_MAX, 30_004]);
  // One byte below 64 KiB is the most, lengths and all.
  const full = [new Uint8Array((64 << 10) - 1 - 4 - 4 - 1), bytes(1), bytes(1)];
  assert.equal(takeRequest(full).length, (64 << 10) - 1);
  assert.equal(full.length, 1);
  const over = [new Uint8Array((64 << 10) - 4 - 4 - 1), bytes(1)];
  takeRequest(over);
  assert.equal(over.length, 1);
});

test('what is cut short, or announces more than there is, is no request', () => {
  const request = takeRequest([bytes(1, 2, 3), bytes(4, 5)]);
  const whole = [7, request.length];
  for (let end = 1; end < request.length; end++) {
    assert.equal(framesOf(request.slice(0, end)) === undefined, !whole.includes(end), `${end}`);
  }
  assert.equal(framesOf(bytes(255, 255, 255, 255, 1)), undefined);
  assert.equal(framesOf(bytes(1, 0, 0)), undefined);
  // A view of a larger buffer is read as what it is.
  assert.deepEqual(framesOf(bytes(9, 9, 1, 0, 0, 0, 7, 9).subarray(2, 7)), [bytes(7)]);
});

test('a frame says what it is and of which space', () => {
  const frame = (type, space) => bytes(0x74, 0x6d, 1, type, space.length, ...new TextEncoder().encode(space));
  assert.equal(spaceOf(frame(1, 'shop')), 'shop');
  assert.equal(spaceOf(frame(1, 'x'.repeat(64))), 'x'.repeat(64));
  for (const wrong of [bytes(), frame(1, ''), frame(1, 'x'.repeat(65)), frame(1, 'shop').slice(0, -1), frame(1, 'shop').fill(0, 0, 1)]) {
    assert.equal(spaceOf(wrong), undefined);
  }
  assert.deepEqual([1, 2, 6].map((type) => [isHello(frame(type, 'a')), isPush(frame(type, 'a'))]), [[true, false], [false, false], [false, true]]);
  assert.equal(topicOf('shop'), '/tallymesh/space/1/shop');
});
