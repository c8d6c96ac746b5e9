// A tally that is made where there is no network, by several people, and kept on their devices until there is one.
//
// Try it: `tallymesh up`, `tallymesh members init`, and in docs/recipes `npm install && npm start`; then open
// http://127.0.0.1:5173/field-tally/, stop the node, count, close the page, open it again, and start the node.
//
// What it shows: `indexedDb()` keeps what is counted, over the end of the page and of the browser. What is kept is told
// to the node once that is in reach, and a space with members says when it has it.
//
// What is guaranteed: what the page says is kept counts exactly once in the end, however often the page is closed, killed
// or reloaded meanwhile, and in however many tabs. Two who count at the same time add up.
//
// What it does not: the page itself has to come from somewhere. Serve it by a service worker that caches it, and over
// HTTPS: elsewhere than on your own machine browsers let no other page store counters. A browser that runs out of room
// may drop what pages stored: `navigator.storage.persist()` asks it not to. In an open space nobody says what the
// node has, and so the page can't, either. While other visitors are gone without a word, members wait for them for ten
// minutes before they are sure; what a page had counted, and closed before any node met it, comes only then.
import { open } from 'tallymesh';
import { broadcastChannel } from 'tallymesh/transports';
import { indexedDb } from 'tallymesh/storage';
import { NODE } from '../node.js';

const find = (id) => document.getElementById(id);

const counters = await open({ storage: indexedDb({ name: 'field-tally' }), transports: [NODE, broadcastChannel('field-tally')], retryMaxMs: 5_000 });
const [node] = counters.connections;

for (const row of document.querySelectorAll('.cart li')) {
  const key = `seen:${row.id}`;
  const name = row.textContent.trim();
  const number = Object.assign(document.createElement('span'), { className: 'number' });
  const button = Object.assign(document.createElement('button'), { type: 'button', className: 'more', textContent: '+' });
  button.setAttribute('aria-label', `One ${name} more`);
  button.addEventListener('click', async () => {
    counters.add(key);
    showState();
    await counters.flush().catch(() => {}); // `onStorage` tells of it
    showState();
  });
  row.append(number, button);
  const show = (value = 0n) => {
    row.dataset.value = String(value);
    number.textContent = value.toLocaleString();
  };
  counters.subscribe(key, show);
  show(counters.get(key));
}

function showState() {
  const { storage, members } = counters.status();
  const kept = {
    durable: 'All is kept on this device',
    writing: 'Being kept',
    failing: 'NOT kept: this device has no room, or does not let the page store anything',
    memory: 'NOT kept: this page may store nothing here, and what you count goes with it',
  }[storage.state];
  const open = node.state === 'online' ? 'sent to the node as you count' : 'the node is not in reach';
  const told = storage.unacknowledged > 0 ? 'the node does not have all of it yet' : 'the node has all of it';
  find('state').textContent = `${kept}; ${members ? told : open}.`;
}

counters.onStorage?.(showState);
counters.subscribe({ prefix: 'seen:' }, showState);
node.subscribe(showState);
// What the node has changes without any counter.
setInterval(showState, 1_000);
showState();
