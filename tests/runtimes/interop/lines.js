// The driver in a runtime that has a command line: a request a line on standard input, an answer a line on standard
// output. It is copied into the project, and ends with its input.
import process from 'node:process';
import { createInterface } from 'node:readline';
import { connect, open, TallymeshError } from 'tallymesh';
import { makeDriver } from './driver.js';

const WebSocket = process.argv[2] ? (await import(process.argv[2])).WebSocket : globalThis.WebSocket;
const options = { retryMinMs: 20, retryMaxMs: 200, WebSocket };
const ask = makeDriver({ open, TallymeshError }, (replica, node) => connect(replica, node, options));

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await ask(JSON.parse(line)))}\n`);
}
process.exit();
