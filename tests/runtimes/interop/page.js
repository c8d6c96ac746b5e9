// The driver in a page, which is asked by calls. It is copied into the project.
import { connect, open, TallymeshError } from 'tallymesh';
import { makeDriver } from './driver.js';

const options = { retryMinMs: 20, retryMaxMs: 200 };
const answer = makeDriver({ open, TallymeshError }, (replica, node) => connect(replica, node, options));
const uncaught = [];
globalThis.addEventListener('error', ({ message }) => uncaught.push(message));
globalThis.addEventListener('unhandledrejection', ({ reason }) => uncaught.push(String(reason)));
// That a node cannot be reached is written to the console, and is none of these.
globalThis.ask = async (request) => (uncaught.length > 0 ? { error: uncaught.join('\n') } : answer(request));
