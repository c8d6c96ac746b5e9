// A WebSocket that tests drive by hand.
import assert from 'node:assert/strict';
import { DEADLINE_MS } from './link.mjs';

/** A WebSocket that is driven by the test. */
export class FakeSocket {
  static made = [];
  readyState = 0;
  sent = [];
  constructor(url, protocols) {
    this.url = url;
    this.protocols = protocols;
    FakeSocket.made.push(this);
  }
  open() {
    this.readyState = 1;
    this.onopen?.();
  }
  send(frame) {
    this.sent.push(frame);
  }
  lose(code = 1006, reason = '') {
    this.readyState = 3;
    this.onclose?.({ code, reason });
  }
  close() {
    this.readyState = 3;
  }
}

/** The socket of this number, from 1, once it is made. */
export const nextSocket = async (count) => {
  const end = performance.now() + DEADLINE_MS;
  while (FakeSocket.made.length < count) {
    assert.ok(performance.now() < end, 'no new attempt was made');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return FakeSocket.made[count - 1];
};
