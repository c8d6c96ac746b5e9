// A button that likes and unlikes, with no framework. react.jsx is the same with React; both count together.
//
// Try it: `tallymesh up`, and in docs/recipes `npm install && npm start`; then open
// http://127.0.0.1:5173/likes-button/ in two browsers. Stop the node, press the button in both, start it again.
//
// What it shows: nothing waits for an answer, and there is no state "pending" to roll back: the page's own replica
// is what is shown, and an add cannot be refused later. Two who press at once, connected or not, are both counted.
//
// What it does not: who closes the page while it is not connected takes the like along; the browser remembers it
// only once it was connected. A page that is closed within some milliseconds after that, before the like was sent,
// takes it along as well, and the browser remembers it all the same. One like for each browser is a courtesy, not a
// rule: whoever may count may count any number, so nothing should depend on it. Before the first connection the
// number is what this page alone knows.
import { open } from 'tallymesh';
import { NODE } from '../node.js';
import { isLiked, rememberLiked, told } from './liked.js';

const KEY = 'likes';
const find = (id) => document.getElementById(id);
const button = find('like');
let liked = isLiked(KEY);

find('other').search = location.search;

const counters = await open({ transports: [NODE], retryMaxMs: 5_000 });
const [connection] = counters.connections;

function showCount(value) {
  find('count').textContent = value === undefined ? '' : value.toLocaleString();
}

function showState(state) {
  find('state').textContent = told(state);
  if (state === 'online') rememberLiked(KEY, liked);
}

button.addEventListener('click', () => {
  liked = !liked;
  counters.add(KEY, liked ? 1 : -1);
  button.setAttribute('aria-pressed', String(liked));
  showState(connection.state);
});
counters.subscribe(KEY, showCount);
connection.subscribe(showState);

showCount(counters.get(KEY));
showState(connection.state);
button.setAttribute('aria-pressed', String(liked));
button.disabled = false;
