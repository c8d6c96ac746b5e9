// What a page of React is asked to do with the hooks. It is copied into each project, and is the same for all
// versions. All is in StrictMode, which renders twice, and mounts, unmounts and mounts again.
import * as React from 'react';
import { Component, StrictMode, startTransition, useLayoutEffect } from 'react';
import { createRoot, hydrateRoot } from 'react-dom/client';
import { renderToString } from 'react-dom/server';
import { open, Replica } from 'tallymesh/inline';
import { useCounter, useCounters } from 'tallymesh/react';

const DEADLINE_MS = 30_000;

/** Waits until `look` gives something true, and returns it. */
async function until(what, look) {
  const end = performance.now() + DEADLINE_MS;
  for (;;) {
    const seen = look();
    if (seen) return seen;
    if (performance.now() > end) throw new Error(`waited ${DEADLINE_MS} ms in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve));
  }
}

/** Renders into a place of its own. */
function mount(element) {
  const place = document.body.appendChild(document.createElement('div'));
  const root = createRoot(place);
  const show = (next) => root.render(<StrictMode>{next}</StrictMode>);
  show(element);
  return { show, text: () => place.textContent, shows: (text) => until(`"${text}", not "${place.textContent}"`, () => place.textContent === text), end: () => root.unmount() };
}

/** Shows a counter, and notes each result of the hook. */
function Shown({ counters, name, results = [] }) {
  const result = useCounter(counters, name);
  results.push(result);
  return `${name}=${result.value} `;
}

const codeOf = (work) => {
  try {
    work();
  } catch (error) {
    return error.code;
  }
  return 'nothing was thrown';
};

class Boundary extends Component {
  state = {};
  static getDerivedStateFromError(error) {
    return { error };
  }
  render() {
    return this.state.error ? `caught ${this.state.error.code}` : this.props.children;
  }
}

/** Each gives what the test compares. */
export const scenarios = {
  async counts() {
    const counters = await open();
    const results = [];
    const page = mount(<Shown counters={counters} name="likes" results={results} />);
    await page.shows('likes=undefined ');
    const [{ add, set, reset, delete: remove }] = results;
    const seen = [];
    const told = [];
    for (const [act, text] of [[add, 1], [() => add(-2n), -1], [() => set(2n ** 60n), 2n ** 60n], [reset, 0], [() => told.push(remove()), undefined], [() => told.push(remove()), undefined]]) {
      act();
      await page.shows(`likes=${text} `);
      seen.push(page.text());
    }
    const other = new Replica();
    other.add('likes', 7);
    counters.merge(other.delta());
    await page.shows('likes=7 ');
    return { told, refused: codeOf(() => add(0.5)) };
  },

  async identities() {
    const counters = await open();
    const results = [];
    const element = () => <Shown counters={counters} name="likes" results={results} />;
    const page = mount(element());
    await page.shows('likes=undefined ');
    counters.add('likes');
    await page.shows('likes=1 ');
    const before = results.length;
    page.show(element());
    await until('another render', () => results.length > before);
    // The first render of StrictMode's two is thrown away.
    const [, { value: _, ...functions }] = results;
    const all = Object.entries(functions);
    return {
      functions: all.length,
      same: results.slice(1).every((result) => all.every(([name, call]) => result[name] === call)),
      sameResult: results.at(-1) === results[before - 1],
    };
  },

  async others() {
    const counters = await open();
    const [likes, stars] = [[], []];
    const page = mount(<><Shown counters={counters} name="likes" results={likes} /><Shown counters={counters} name="stars" results={stars} /></>);
    await page.shows('likes=undefined stars=undefined ');
    counters.transact((t) => {
      t.add('likes');
      t.add('stars');
    });
    await page.shows('likes=1 stars=1 ');
    const before = [likes.length, stars.length];
    for (let time = 0; time < 5; time++) counters.add('unseen');
    counters.add('stars', 4);
    await page.shows('likes=1 stars=5 ');
    return { likes: likes.length - before[0], stars: stars.length > before[1] };
  },

  async keys() {
    const counters = await open();
    counters.transact((t) => {
      t.add('a', 1);
      t.add('b', 2);
    });
    const frames = [];
    function Noted({ name }) {
      const { value, add } = useCounter(counters, name);
      useLayoutEffect(() => void frames.push(`${name}=${value}`));
      return <button onClick={() => add()}>{`${name}=${value}`}</button>;
    }
    const page = mount(<Noted name="a" />);
    await page.shows('a=1');
    page.show(<Noted name="b" />);
    await page.shows('b=2');
    const before = frames.length;
    counters.add('a');
    counters.add('b');
    await page.shows('b=3');
    const rendered = frames.length - before;
    for (const button of document.querySelectorAll('button')) button.click();
    await page.shows('b=4');
    return { frames: [...new Set(frames)], rendered, a: String(counters.get('a')) };
  },

  async spaces() {
    const [first, second] = [await open(), await open()];
    first.add('likes', 1);
    second.add('likes', 20);
    const results = [];
    const element = (counters) => <Shown counters={counters} name="likes" results={results} />;
    const page = mount(element(first));
    await page.shows('likes=1 ');
    const { add: addFirst } = results.at(-1);
    page.show(element(second));
    await page.shows('likes=20 ');
    const before = results.length;
    addFirst();
    await until('the first to have it', () => first.get('likes') === 2n);
    results.at(-1).add();
    await page.shows('likes=21 ');
    return { rendered: results.slice(before).map(({ value }) => String(value)).every((value) => value === '21'), first: String(first.get('likes')) };
  },

  async loading() {
    const results = [];
    const page = mount(<Shown counters={undefined} name="likes" results={results} />);
    await page.shows('likes=undefined ');
    const { add, set, reset, delete: remove } = results.at(-1);
    const told = [add(5), set(1), reset(), remove()];
    const counters = await open();
    counters.add('likes', 3);
    page.show(<Shown counters={counters} name="likes" results={results} />);
    await page.shows('likes=3 ');
    page.show(<Shown counters={undefined} name="likes" results={results} />);
    await page.shows('likes=undefined ');
    return { told: told.map(String), changes: String(counters.status().clock) };
  },

  async closed() {
    const counters = await open();
    const results = [];
    const element = (more) => <><Shown counters={counters} name="likes" results={results} />{more}</>;
    const page = mount(element());
    await page.shows('likes=undefined ');
    counters.add('likes');
    await page.shows('likes=1 ');
    // What is told in the last moment is rendered after it.
    counters.add('likes', 3);
    await counters.close();
    await page.shows('likes=4 ');
    page.show(element(<Shown counters={counters} name="late" />));
    await page.shows('likes=4 late=undefined ');
    const { value: _, ...functions } = results.at(-1);
    const codes = Object.values(functions).map((call) => codeOf(() => call(1)));
    page.end();
    return codes;
  },

  async refused() {
    const counters = await open();
    const page = mount(<Boundary><Shown counters={counters} name={'\ud800'} /></Boundary>);
    await page.shows('caught key_unicode');
    return 'key_unicode';
  },

  async tearing() {
    const counters = await open();
    counters.add('likes', 0);
    const torn = [];
    let meddled = false;
    function Item({ meddles }) {
      const { value } = useCounter(counters, 'likes');
      // As if something else had counted while React paused in the middle of its work.
      if (meddles && !meddled) {
        meddled = true;
        counters.add('likes');
      }
      return <li>{String(value)}</li>;
    }
    function Many({ items }) {
      useLayoutEffect(() => {
        const values = new Set([...document.querySelectorAll('li')].map(({ textContent }) => textContent));
        if (values.size > 1) torn.push([...values].join());
      });
      return <ul>{Array.from({ length: items }, (_, at) => <Item key={at} meddles={at === 5} />)}</ul>;
    }
    const page = mount(<Many items={0} />);
    await until('the list', () => document.querySelector('ul'));
    startTransition(() => page.show(<Many items={10} />));
    await page.shows('1'.repeat(10));
    return { torn, meddled };
  },

  async opens() {
    const opened = [];
    const given = [];
    const opening = (space) => async () => {
      const counters = await open({ space });
      opened.push(counters);
      return counters;
    };
    function Child({ space, counters }) {
      if (counters) given.push(`${counters.status().space} for ${space}`); // throws if they are closed
      const { value, add } = useCounter(counters, 'likes');
      return counters ? <button onClick={() => add()}>{`${counters.space}=${value}`}</button> : 'loading';
    }
    function Tree({ space }) {
      const { counters, error } = useCounters(opening(space), [space]);
      return error ? 'error' : <Child space={space} counters={counters} />;
    }
    const page = mount(<Tree space="a" />);
    await until('the first sight', () => page.text() !== '');
    const first = page.text();
    await page.shows('a=undefined');
    page.show(<Tree space="a" />);
    document.querySelector('button').click();
    await page.shows('a=1');
    page.show(<Tree space="b" />);
    await page.shows('b=undefined');
    const closed = [codeOf(() => opened[0].get('likes')), codeOf(() => opened[1].get('likes'))];
    page.end();
    await until('the second to be closed', () => codeOf(() => opened[1].get('likes')) === 'freed');
    return { first, opened: opened.map(({ space }) => space), given: [...new Set(given)], closed };
  },

  async leaves() {
    let arrive;
    let asked = 0;
    const coming = new Promise((resolve) => (arrive = resolve));
    function Tree() {
      const { counters } = useCounters(() => {
        asked++;
        return coming;
      });
      return counters ? 'open' : 'loading';
    }
    const page = mount(<Tree />);
    await until('it to be asked for', () => asked > 0);
    page.end();
    const counters = await open();
    arrive(counters);
    await until('it to be closed', () => codeOf(() => counters.get('likes')) === 'freed');
    return asked;
  },

  async fails() {
    function Tree({ space }) {
      const { counters, error } = useCounters(() => open({ space }), [space]);
      return error ? `${error.code} ${counters}` : counters ? 'open' : 'loading';
    }
    const page = mount(<Tree space="" />);
    await page.shows('space_name undefined');
    page.show(<Tree space="a" />);
    await page.shows('open');
    return 'open';
  },

  async hydrates() {
    const counters = await open();
    counters.add('likes', 9);
    const element = <StrictMode><Shown counters={counters} name="likes" /></StrictMode>;
    const html = renderToString(element);
    const place = document.body.appendChild(document.createElement('div'));
    place.innerHTML = html;
    const errors = [];
    hydrateRoot(place, element, { onRecoverableError: (error) => errors.push(String(error)) });
    await until('the value', () => place.textContent === 'likes=9 ');
    return { html: html.replaceAll(/<!--.*?-->/g, ''), errors };
  },

  async hides() {
    const { Activity } = React;
    const opened = [];
    function Tree() {
      const { counters } = useCounters(async () => {
        const made = await open({ space: 'a' });
        opened.push(made);
        return made;
      });
      const { value } = useCounter(counters, 'likes');
      counters?.status(); // throws if they are closed
      return counters ? `a=${value}` : 'loading';
    }
    const page = mount(<Activity mode="visible"><Tree /></Activity>);
    await page.shows('a=undefined');
    const seen = [page.text()];
    opened[0].add('likes');
    await page.shows('a=1');
    page.show(<Activity mode="hidden"><Tree /></Activity>);
    await until('them to be closed', () => codeOf(() => opened[0].get('likes')) === 'freed');
    seen.push('closed');
    page.show(<Activity mode="visible"><Tree /></Activity>);
    await page.shows('a=undefined');
    seen.push(page.text());
    return seen;
  },
};

globalThis.play = (name) => scenarios[name]();
