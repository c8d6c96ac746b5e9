// A page that counts its views and shows them as they come in, with a node and no other service.
//
// Try it: `tallymesh up`, `tallymesh members init`, and in docs/recipes `npm install && npm start`; then open
// http://127.0.0.1:5173/page-views/ in some tabs. `tallymesh watch views` shows the same.
//
// What counts: a page that somebody sees, once a tab. A reload does not, nor does going back to it, nor a page that
// is loaded ahead or in the background and never looked at. The page and the site are counted in one transaction.
//
// Bots: most run no scripts, and so are not counted; those that say that a program drives them are left out below.
// Nobody can tell the rest from people, and whoever may count may count anything: don't pay by this number. A node
// that strangers reach asks for tickets: give the page one of the role writer, which only adds (wasm/README.md,
// "Peers"), and limit requests with `--http-rate`.
//
// What it does not: a visitor who is gone before the node was reached is not counted, and until it was reached the
// numbers are what the page alone knows. It counts views, not visitors, and stores nothing but one mark in the tab's
// sessionStorage. If you show no number, one request does, with less to download:
// fetch(`${NODE}/v1/spaces/default/counters/views/add`, { method: 'POST', keepalive: true }).
import { open } from 'tallymesh';
import { NODE } from '../node.js';

const SITE = 'views';
const PAGE = `views:${location.pathname}`;

// Each page that counts is a writer. A space with members takes over what it counted once it is gone, so a million
// views leave no million writers; such a space takes the second module, which comes at once like this.
const counters = await open({ transports: [NODE], members: true });

const show = (id, value) => (document.getElementById(id).textContent = value === undefined ? '…' : value.toLocaleString());
counters.subscribe(PAGE, (value) => show('here', value));
counters.subscribe(SITE, (value) => show('all', value));

if (navigator.webdriver) say('This browser is driven by a program: it is not counted.');
else if (document.visibilityState === 'visible') count();
else document.addEventListener('visibilitychange', count, { once: true });

function count() {
  if (!firstTime()) return say('This tab was counted before.');
  counters.transact((t) => {
    t.add(PAGE);
    t.add(SITE);
  });
  say('This tab was counted just now.');
}

/** Whether this tab counts the page for the first time. Who allows no storage is counted at each load. */
function firstTime() {
  try {
    const before = sessionStorage.getItem(PAGE);
    sessionStorage.setItem(PAGE, 'counted');
    return before === null;
  } catch {
    return true;
  }
}

function say(text) {
  document.getElementById('note').textContent = text;
}

// A page that goes is taken over at once; one that comes back out of the browser's memory goes on.
addEventListener('pagehide', () => counters.leave());
addEventListener('pageshow', () => counters.connections[0].resume());
