// A button that likes and unlikes, with React. plain.js is the same with no framework, and says what it shows and
// what it does not; try it at http://127.0.0.1:5173/likes-button/react.html.
//
// The hooks are right in StrictMode, and the button renders again when its own counter changes, not when others do.
import { StrictMode, useCallback, useEffect, useState, useSyncExternalStore } from 'react';
import { createRoot } from 'react-dom/client';
import { open } from 'tallymesh';
import { useCounter, useCounters } from 'tallymesh/react';
import { NODE } from '../node.js';
import { isLiked, rememberLiked, told } from './liked.js';

const KEY = 'likes';

function Page({ node }) {
  const { counters, error } = useCounters(() => open({ transports: [node], retryMaxMs: 5_000 }), [node]);
  return (
    <>
      <h1>A likes button, with React</h1>
      <p>It counts at once, also with no network, and adds up with everybody else when there is one.</p>
      <Like counters={counters} />
      <p className="soft" role="status" id="state">{error ? error.message : <State counters={counters} />}</p>
      <p className="soft">The same button <a href={`./${location.search}`}>with no framework</a>.</p>
    </>
  );
}

function Like({ counters }) {
  const { value, add } = useCounter(counters, KEY);
  const state = useConnectionState(counters);
  const [liked, setLiked] = useState(() => isLiked(KEY));
  useEffect(() => {
    if (state === 'online') rememberLiked(KEY, liked);
  }, [state, liked]);
  const press = () => {
    add(liked ? -1 : 1);
    setLiked(!liked);
  };
  return (
    <button className="like" id="like" type="button" aria-pressed={liked} disabled={!counters} onClick={press}>
      <svg viewBox="0 0 24 24" aria-hidden="true"><path d="M12 20C5 14.5 3 11.6 3 8.5A4.5 4.5 0 0 1 12 7a4.5 4.5 0 0 1 9 1.5C21 11.6 19 14.5 12 20Z" /></svg>
      <span>Like</span> <span className="number" id="count">{value?.toLocaleString()}</span>
    </button>
  );
}

function State({ counters }) {
  const state = useConnectionState(counters);
  return state ? told(state) : 'Loading…';
}

/** Where the connection stands; `undefined` while the counters are opened. */
function useConnectionState(counters) {
  const connection = counters?.connections[0];
  const subscribe = useCallback((changed) => connection?.subscribe(changed) ?? (() => {}), [connection]);
  return useSyncExternalStore(subscribe, () => connection?.state);
}

createRoot(document.getElementById('root')).render(<StrictMode><Page node={NODE} /></StrictMode>);
