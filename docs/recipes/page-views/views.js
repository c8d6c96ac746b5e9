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
// What is guaranteed: the tab is marked, and says that it was counted, once the node has said that it has the view. A
// page that goes earlier, by a reload or for good, marks nothing, and the next load counts: a view that the node never
// heard of is made good then, and one of which only the answer was lost counts twice. That is a window of some
// milliseconds with the node in reach. A page that stays sends its view again, however often the link breaks.
//
// What it does not: a visitor who is gone before the node has the view is not counted, for nothing is kept in storage
// but the mark, in the tab's sessionStorage. It counts views, not visitors. If you show no number, one request does,
// with less to download, and the browser sends it also when the page is gone:
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

const [node] = counters.connections;
let decided = false;

function decide() {
  if (decided) return;
  if (node.state !== 'online') return say('Not connected: nothing is counted yet.');
  if (document.visibilityState !== 'visible') return say('');
  decided = true;
  if (navigator.webdriver) say('This browser is driven by a program: it is not counted.');
  else if (marked()) say('This tab was counted before.');
  else count();
}

async function count() {
  counters.transact((t) => {
    t.add(PAGE);
    t.add(SITE);
  });
  say('Counted here, and on its way to the node.');
  if (!(await nodeHasIt())) return;
  mark();
  say('This tab was counted just now.');
}

/** Whether the node says within 20 s that it has all that was counted here: it answers no sooner. */
async function nodeHasIt() {
  try {
    const headers = { 'tallymesh-token': await counters.token(), 'tallymesh-wait-ms': '20000' };
    return (await fetch(`${NODE}/v1/spaces/default/counters/${SITE}`, { headers })).ok;
  } catch {
    return false;
  }
}

/** Whether this tab was counted. Who allows no storage is counted at each load. */
function marked() {
  try {
    return sessionStorage.getItem(PAGE) !== null;
  } catch {
    return false;
  }
}

function mark() {
  try {
    sessionStorage.setItem(PAGE, 'counted');
  } catch {
    // It counts all the same.
  }
}

function say(text) {
  document.getElementById('note').textContent = text;
}

document.addEventListener('visibilitychange', decide);
node.subscribe(decide);
decide();

// A page that goes is taken over at once; one that comes back out of the browser's memory goes on.
addEventListener('pagehide', () => counters.leave());
addEventListener('pageshow', () => node.resume());
