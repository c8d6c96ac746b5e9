// A cart that all tabs of a browser show alike, with no node and no network, and other devices when there is one.
//
// Try it: in docs/recipes `npm install && npm start`; then open http://127.0.0.1:5173/cart/ in two tabs. Start a node
// (`tallymesh up`) whenever you like. `?cart=NAME` at the end of the address, in two browsers, is one cart in both.
//
// What it shows: one replica with two ways to others. Tabs speak to each other directly, so they agree while the node
// is away; whichever of them is connected brings it what all have put in. Nothing is locked, and no tab is the first.
//
// What is guaranteed: what a tab has heard of stays as long as one tab is open; what the node has heard of stays
// there, for a week after it was last changed. Of two tabs that take out the last piece at once both do, and the
// counter says -1: it is shown as none, and whoever puts in one afterwards makes up for it.
//
// What it does not: with no node a cart ends with its last tab, for nothing is kept in storage but its name. In a space
// with members (`tallymesh members init`) tabs that met one tell each other nothing while none is in reach. All carts
// are counters of one space, which each page holds whole and may read: right for a club or a stall. Where carts are
// to be private, leave the node out, or ask for the cart at a server of your own.
import { open } from 'tallymesh';
import { broadcastChannel } from 'tallymesh/transports';
import { NODE } from '../node.js';

const KEPT_MS = 7 * 24 * 60 * 60 * 1000;
const CART = `cart:${cartName()}:`;
const find = (id) => document.getElementById(id);

const counters = await open({ transports: [broadcastChannel(), NODE], retryMaxMs: 5_000 });
const [tabs, node] = counters.connections;

/** How many there are of a key: less than none is none. */
const held = (key) => {
  const value = counters.get(key) ?? 0n;
  return value > 0n ? value : 0n;
};

function change(key, by) {
  // What was taken out twice is put in again first.
  const missing = held(key) - (counters.get(key) ?? 0n);
  counters.transact((t) => {
    t.add(key, BigInt(by) + missing);
    t.expire(key, new Date(Date.now() + KEPT_MS));
  });
}

for (const row of document.querySelectorAll('.cart li')) {
  const key = CART + row.id;
  const name = row.textContent.trim();
  const number = Object.assign(document.createElement('span'), { className: 'number' });
  const less = makeButton('less', '−', `One ${name} less`, () => change(key, -1));
  const more = makeButton('more', '+', `One ${name} more`, () => change(key, 1));
  row.append(less, number, more);
  const show = (value = 0n) => {
    row.dataset.value = String(value);
    number.textContent = held(key).toLocaleString();
    less.disabled = held(key) === 0n;
  };
  counters.subscribe(key, show);
  show(counters.get(key));
}

function makeButton(className, text, label, press) {
  const button = Object.assign(document.createElement('button'), { type: 'button', className, textContent: text });
  button.setAttribute('aria-label', label);
  button.addEventListener('click', press);
  return button;
}

const keys = () => counters.keys().filter((key) => key.startsWith(CART));

find('empty').addEventListener('click', () => {
  // What another tab puts in at the same time stays in.
  counters.transact((t) => keys().forEach((key) => t.delete(key)));
});

function showCount() {
  const count = keys().reduce((sum, key) => sum + held(key), 0n);
  find('count').textContent = count.toLocaleString();
  find('empty').disabled = count === 0n;
}

function showState() {
  const here = tabs.state === 'online' ? 'Shared with your other tabs' : 'There is no other tab';
  const there = node.state === 'online' ? 'shared with your other devices' : 'the node is not connected';
  find('state').textContent = `${here}; ${there}.`;
}

counters.subscribe({ prefix: CART }, showCount);
for (const connection of counters.connections) connection.subscribe(showState);
showCount();
showState();

/** What this browser calls its cart: at random, so that nobody else has it by chance. */
function cartName() {
  const given = new URLSearchParams(location.search).get('cart');
  if (given) return given;
  const name = crypto.randomUUID();
  try {
    const before = localStorage.getItem('cart');
    if (before === null) localStorage.setItem('cart', name);
    return before ?? name;
  } catch {
    return name;
  }
}
