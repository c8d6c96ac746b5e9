import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { install } from './install.mjs';

const { project, files, load } = install();

test('the tarball holds both modules, the entries and their types, and nothing else', () => {
  assert.deepEqual(files.filter((path) => path.endsWith('.wasm')), ['dist/tallymesh-members.wasm', 'dist/tallymesh.wasm']);
  const { exports } = JSON.parse(readFileSync(join(project, 'node_modules/tallymesh/package.json'), 'utf8'));
  const named = (entry) => (typeof entry === 'string' ? [entry.slice(2)] : Object.values(entry).flatMap(named));
  for (const path of ['inline-members.js', 'inline-module.js', 'members.js', 'members.mjs'].map((name) => `dist/${name}`).concat(named(exports))) assert.ok(files.includes(path), path);
  for (const path of files) assert.match(path, /^(package\.json|README\.md|dist\/|js\/)/);
});

test('the types of the tarball are those that entries lead to, and no others', () => {
  const folder = join(project, 'node_modules/tallymesh');
  const { exports } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const found = new Set(Object.values(exports).flatMap(({ types = {} }) => Object.values(types).map((path) => path.slice(2))));
  for (const path of found) {
    const declarations = readFileSync(join(folder, path), 'utf8');
    for (const [, name] of declarations.matchAll(/(?:from|import\() ?['"]([.#][^'"]+)\.js['"]/g)) found.add(join(dirname(path), `${name}.d.ts`));
  }
  assert.ok(found.size > 40, `only ${[...found]} were found`);
  assert.deepEqual(files.filter((path) => /^dist.*\.d\.ts$/.test(path)).sort(), [...found].sort());
  for (const inner of ['engine', 'commit-gate', 'persistent']) assert.ok(![...found].some((path) => path.endsWith(`/${inner}.d.ts`)), inner);
});

test('the transports have no copy of the package', () => {
  for (const format of ['js', 'mjs', 'cjs']) {
    const code = readFileSync(join(project, `node_modules/tallymesh/dist/transports.${format}`), 'utf8');
    assert.doesNotMatch(code, /\bTallymeshError|engine_|extends Error|WebAssembly|import\b.*from|require\(/);
  }
  for (const format of ['js', 'mjs', 'cjs']) {
    const code = readFileSync(join(project, `node_modules/tallymesh/dist/libp2p.${format}`), 'utf8');
    assert.doesNotMatch(code, /\bTallymeshError|engine_|WebAssembly|import\b.*from|require\(/);
  }
  const first = readFileSync(join(project, 'node_modules/tallymesh/dist/browser.js'), 'utf8');
  assert.doesNotMatch(first, /gossipsub|BroadcastChannel|postMessage|tallymesh-session|idempotency/);
});

test('budgets, limits and sequences are alone, with no module', () => {
  for (const file of ['budgets', 'limits', 'sequences'].flatMap((entry) => [`${entry}.js`, `${entry}.mjs`, `${entry}.cjs`])) {
    const code = readFileSync(join(project, 'node_modules/tallymesh/dist', file), 'utf8');
    assert.doesNotMatch(code, /engine_|WebAssembly|import\b.*from|require\(/, file);
  }
});

test('errors of all entries are known by a symbol, and have the name of their class', async () => {
  const symbol = Symbol.for('tallymesh.error');
  const { Replica, TallymeshError } = await load();
  const { messagePort } = await load('tallymesh/transports');
  const { budgets, BudgetError, RequestError, TallymeshError: Other } = await load('tallymesh/budgets');
  assert.notEqual(Other, TallymeshError);
  const thrown = (call) => {
    try {
      call();
    } catch (error) {
      return error;
    }
  };
  const [here, there] = [thrown(() => new Replica({ ownerKey: 1 })), thrown(() => budgets({ urls: [] }))];
  assert.deepEqual([here[symbol] === TallymeshError, there[symbol] === Other], [true, true]);
  for (const error of [here, there]) {
    assert.match(error.stack, /^TallymeshError: /);
    assert.deepEqual([error.name, error.constructor.name, Object.keys(error)], ['TallymeshError', 'TallymeshError', ['code']]);
  }
  assert.throws(() => messagePort(new MessageChannel().port1)({}), { name: 'TypeError', message: /no replica/ });
  // The files of pages, in which all other names are short.
  const dist = join(project, 'node_modules/tallymesh/dist');
  const page = await import(pathToFileURL(join(dist, 'slim.js')).href);
  const pages = await import(pathToFileURL(join(dist, 'budgets.js')).href);
  const names = [RequestError, BudgetError, page.TallymeshError, pages.TallymeshError, pages.RequestError, pages.BudgetError].map((Class) => [Class.name, Class.prototype.name]);
  assert.deepEqual(names, ['RequestError', 'BudgetError', 'TallymeshError', 'TallymeshError', 'RequestError', 'BudgetError'].map((name) => [name, name]));
});

/** For each entry, a program that goes wrong within it, and the source in which it does. */
const WRONG = [
  ['tallymesh', 'open().then((replica) => replica.add("a", 1.5));', 'internal/amount'],
  ['tallymesh/inline', 'open().then((replica) => replica.add("a", 1.5));', 'internal/amount'],
  ['tallymesh/slim', 'new Replica();', 'replica/engine'],
  ['tallymesh/transports', 'broadcastChannel()({});', 'transports/persistent'],
  ['tallymesh/libp2p', 'libp2pTransport({ peerId: "node" })({});', 'transports/libp2p'],
  ['tallymesh/storage', 'stored({})({}, class {});', 'storages/stored-counters'],
  ['tallymesh/file', 'file("")({}, class {});', 'storages/stored-counters'],
  ['tallymesh/budgets', 'budgets({ urls: [] });', 'clients/requests'],
  ['tallymesh/limits', 'limits({ urls: [] });', 'clients/requests'],
  ['tallymesh/sequences', 'sequences({ urls: [] });', 'clients/requests'],
];

test('an error in Node shows readable lines, and with source maps those of the sources', async () => {
  const fails = (file, ...flags) => {
    const { status, stderr } = spawnSync(process.execPath, [...flags, file], { cwd: project, encoding: 'utf8' });
    assert.equal(status, 1, stderr);
    const longest = Math.max(...stderr.split('\n').map(({ length }) => length));
    assert.ok(longest < 300, `${file}: a line of ${longest} characters`);
    return stderr;
  };
  for (const [entry, code, source] of WRONG) {
    const names = code.match(/^(?:new )?(\w+)/)[1];
    writeFileSync(join(project, 'wrong.mjs'), `import { ${names} } from '${entry}';\n${code}\n`);
    writeFileSync(join(project, 'wrong.cjs'), `const { ${names} } = require('${entry}');\n${code}\n`);
    for (const file of ['wrong.mjs', 'wrong.cjs']) {
      assert.match(fails(file), /throw new \w*Error\(.*^\s+at .*[/\\]dist[/\\]\w+\.[mc]js:\d+:\d+/ms, `${entry} in ${file}`);
      const told = fails(file, '--enable-source-maps');
      assert.match(told, new RegExp(`[/\\\\]js[/\\\\]${source.replace('/', '[/\\\\]')}\\.ts:\\d+`), `${entry} in ${file}: ${told}`);
      assert.match(told, /throw new \w*Error\(/, `${entry} in ${file}`);
    }
  }
});

test('each map leads to sources in the tarball, and each file of code has one', () => {
  const dist = join(project, 'node_modules/tallymesh/dist');
  for (const path of files.filter((path) => /^dist\/[^/]+\.[mc]?js$/.test(path) && !/inline-\w+\.js$/.test(path))) {
    const name = path.slice('dist/'.length);
    assert.match(readFileSync(join(dist, name), 'utf8'), new RegExp(`\n//# sourceMappingURL=${name}\\.map\\s*$`), name);
    const { sources, sourcesContent } = JSON.parse(readFileSync(join(dist, `${name}.map`), 'utf8'));
    assert.ok(sources.length > 0 && !sourcesContent?.some(Boolean), name);
    for (const source of sources) assert.ok(files.includes(join('dist', source).replaceAll('\\', '/')), `${name}: ${source}`);
  }
});

test('using it before it is loaded says what to do', async () => {
  const { Replica } = await load();
  assert.throws(() => new Replica(), { code: 'not_ready', message: /await init\(\)/ });
});

test('init may be called any number of times', async () => {
  const { init, open, Replica } = await load();
  await Promise.all([init(), init()]);
  await init();
  assert.equal(new Replica().space, 'default');
  assert.equal((await open({ space: 'shop' })).space, 'shop');
});

test('its types compile in a strict project', () => {
  writeFileSync(
    join(project, 'use.ts'),
    `import { connect, open, TallymeshError, type Counters, type CountersStatus, type Members, type Operation, type Replica, type Returned, type Shard, type Transport, type Waiting, type Watched, type Writer } from 'tallymesh';
     import { broadcastChannel, messagePort, post, type Port, type PostOptions, type RetryOptions } from 'tallymesh/transports';
     import { BudgetError, budgets, type Budget, type BudgetDone, type BudgetOperation, type BudgetsOptions, type Transferred } from 'tallymesh/budgets';
     import { limits, RequestError, type Allowance, type Limit, type LimitOf, type Limits, type NodesOptions, type Period } from 'tallymesh/limits';
     import { sequences, type Drawn, type Sequence, type Sequences, type WatchedNumber } from 'tallymesh/sequences';
     const members: NodesOptions = { urls: ['http://127.0.0.1:1'], space: 'shop', ticket: 'a.b.c', retries: 0, fetch };
     export const limited = async (limiter: Limits = limits(members), of: LimitOf = { limit: 2n ** 40n, periodMs: 60_000 }): Promise<Limit | Period | undefined> => {
       const answer: Allowance = await limiter.allow('login:ann', 2, { waitMs: 5, idempotencyKey: 'b', signal: AbortSignal.abort() });
       if (answer.allowed) return { ...answer, limit: answer.limit + 1n };
       const wait: number = answer.retryAfterMs + answer.ends.getTime() + Number(answer.left.here + answer.asked);
       // @ts-expect-error of a refusal it may not be known
       const limit: bigint = answer.limit;
       // @ts-expect-error a cost is a number or a bigint
       await limiter.allow('login', '5').catch((error) => error instanceof RequestError && error.status === wait);
       // @ts-expect-error a limit has a period
       await limiter.set('login', { limit });
       await limiter.remove('login');
       return Math.random() < 1 ? limiter.set('login', of, { waitMs: 5 }) : limiter.get('login');
     };
     export const drawn = async (shop: Sequences = sequences('http://127.0.0.1:1')): Promise<Drawn | Sequence | undefined> => {
       const { number, watched, lost } = await shop.next('visits', { waitMs: 5, signal: AbortSignal.abort() });
       const whole: [bigint, boolean, number] = [number, watched, lost];
       // @ts-expect-error a number takes no idempotency key
       await shop.next('visits', { idempotencyKey: 'a' });
       // @ts-expect-error a number is watched by its sequence
       await shop.watch(5);
       for await (const sequence of shop.changes('visits')) console.log(sequence?.next === whole[0]);
       for await (const { watched } of shop.changes({ prefix: 'v' })) watched.map(({ state }: WatchedNumber) => state === 'handed_out');
       for await (const { held, gaps } of shop.list('v', { after: 'b', level: 'all' })) console.log(held[0]?.owner, gaps[0]?.first);
       return Math.random() < 1 ? shop.unwatch('visits', 5n, { level: 'quorum' }) : shop.get('visits');
     };
     const nodes: BudgetsOptions = { urls: ['http://127.0.0.1:1', new URL('http://127.0.0.1:2')], space: 'shop', ticket: 'a.b.c', timeoutMs: 1, retries: 0, fetch };
     const step: BudgetOperation = { op: 'transfer', key: 'a', to: { b: 1n, c: 2 } };
     export const gift = async (): Promise<Budget | readonly BudgetDone[] | Transferred | undefined> => {
       const shop = budgets(nodes);
       const left: bigint = (await shop.spend('a', 1, { waitMs: 5, level: 'quorum', idempotencyKey: 'b', signal: AbortSignal.abort() })).value;
       for await (const budget of shop.watch('a')) console.log(budget?.value === left);
       for await (const budget of shop.watch({ prefix: 'a' })) console.log(budget.cap);
       for await (const { holders } of shop.list('a', { after: 'b' })) console.log(holders?.[0]?.owner);
       // @ts-expect-error an amount is a number or a bigint
       await shop.mint('a', '5').catch((error) => error instanceof BudgetError && error.held?.elsewhere === 1n);
       // @ts-expect-error there is no such operation
       await shop.transact([{ op: 'burn', key: 'a', amount: 1 }]);
       // @ts-expect-error there are nodes to ask
       budgets({ space: 'shop' });
       await budgets('http://127.0.0.1:1').transact([step, { op: 'grant', key: 'a', to: 'b', amount: 1 }]);
       return Math.random() < 1 ? shop.transfer('a', { b: 1 }) : shop.get('a');
     };
     const retry: RetryOptions = { retryMinMs: 10, paused: true };
     const options: PostOptions = { ...retry, ticket: 'a.b.c', intervalMs: 5_000, signal: AbortSignal.abort(), fetch };
     const port: Port = new MessageChannel().port1;
     export const ways: Transport[] = [broadcastChannel(), broadcastChannel('shop', retry), messagePort(port, retry), post(new URL('http://127.0.0.1:1'), options)];
     const replica: Replica = await open({ space: 'shop' });
     replica.add('likes', 2n);
     const value: bigint | undefined = replica.get('likes');
     const shards: readonly Shard[] = replica.shards('likes');
     const stop: () => void = replica.subscribe('likes', (now: bigint | undefined, key: string) => console.log(key, now));
     connect(replica, 'http://127.0.0.1:1', { paused: true }).close();
     const transport: Transport = (to) => connect(to, 'http://127.0.0.1:1', { paused: true });
     const counters: Counters = await open({ transports: [transport] });
     const status: CountersStatus = counters.status();
     const all: Watched = { prefix: '' };
     counters.subscribe(all, (now) => console.log(now));
     counters.transact((t) => { t.add('a'); t.set('b', 2n); });
     for await (const now of counters.watch('a', { signal: AbortSignal.abort() })) console.log(now, status.peers[0]?.url);
     await counters.close();
     // @ts-expect-error a transaction takes no reads
     counters.transact((t) => t.get('a'));
     // @ts-expect-error amounts are numbers or bigints
     replica.add('likes', 'one');
     replica.set('likes', 3n);
     const existed: boolean = replica.delete('likes');
     const at: Date | undefined = replica.counter('likes').expiresAt;
     const operations: Operation[] = [{ op: 'add', key: 'a' }, { op: 'set', key: 'b', value: 2n }, { op: 'expire', key: 'b', at: new Date() }];
     const told: boolean[] = replica.transact([...operations, { op: 'delete', key: 'a' }]);
     // @ts-expect-error an expiry is a Date
     replica.expire('likes', 1000);
     // @ts-expect-error a set has a value
     replica.transact([{ op: 'set', key: 'a' }]);
     // @ts-expect-error a delete has none
     replica.transact([{ op: 'delete', key: 'a', value: 1 }]);
     const present: Members | undefined = replica.status().members;
     const writers: readonly Writer[] = replica.writers();
     const left: boolean = replica.leave();
     replica.onReturn(({ unknown, weaker }: Returned) => console.log(unknown?.[0], weaker));
     await replica.upgrade();
     const waiting: Waiting = { waitMs: 100 };
     const token: string = await replica.token(new Response().headers.get('tallymesh-token'));
     await replica.reached(token, waiting);
     // @ts-expect-error there is a token to wait for
     await replica.reached();
     // @ts-expect-error it changes by itself
     replica.writer = '';
     stop();
     export { left, present, writers };
     export { at, existed, shards, TallymeshError, told, value };`,
  );
  const typescript = dirname(createRequire(import.meta.url).resolve('typescript/package.json'));
  execFileSync(
    process.execPath,
    [join(typescript, 'bin/tsc'), '--noEmit', '--strict', '--target', 'es2022', '--module', 'nodenext', '--lib', 'es2022,dom', 'use.ts'],
    { cwd: project, stdio: 'inherit' },
  );
});

test('the examples of the README run', () => {
  const readme = readFileSync(join(project, 'node_modules/tallymesh/README.md'), 'utf8');
  const examples = [...readme.matchAll(/^```js\n(.*?)^```/gms)].map(([, code]) => code);
  assert.equal(examples.length, 5);
  // Node 20 has no WebSocket of its own; no example waits for an answer.
  const socket = 'globalThis.WebSocket ??= class { close() {} };\n';
  const outputs = examples.map((code, index) => {
    writeFileSync(join(project, `example-${index}.js`), socket + code);
    return execFileSync(process.execPath, [`example-${index}.js`], { cwd: project, encoding: 'utf8' });
  });
  assert.equal(outputs[0], '40n\nundefined\nconnecting\nlikes: 40n\n');
  assert.equal(outputs[1], "true\ntrue\ntrue\n[ 'price', 'sold', 'stock', 'views' ]\n");
  assert.equal(outputs[2], '2n\ncart:tea 2n\n');
  assert.equal(outputs[3], 'paused\nconnecting\nclosed\n');
  assert.equal(outputs[4], '1n\n');
});

test('every code of the package is in the README', () => {
  const readme = readFileSync(join(project, 'node_modules/tallymesh/README.md'), 'utf8');
  const code = readFileSync(join(project, 'node_modules/tallymesh/dist/browser.js'), 'utf8');
  const thrown = [...code.matchAll(/new \w+\("([a-z_]+)",/g)].map(([, name]) => name);
  assert.ok(thrown.length > 8, `only ${thrown} were found`);
  const transports = readFileSync(join(project, 'node_modules/tallymesh/dist/transports.js'), 'utf8');
  const libp2p = readFileSync(join(project, 'node_modules/tallymesh/dist/libp2p.js'), 'utf8');
  const further = [...(transports + libp2p).matchAll(/\.problem\("([a-z_]+)",|\["([a-z_]+)",`it answered/g)].map(([, name, other]) => name ?? other);
  assert.ok(further.length > 8 && further.includes('http_status') && further.includes('ticket_role'), `only ${further} were found`);
  for (const entry of ['budgets', 'limits', 'sequences']) {
    const alone = readFileSync(join(project, `node_modules/tallymesh/dist/${entry}.js`), 'utf8');
    further.push(...[...alone.matchAll(/new \w+\("([a-z_]+)",/g)].map(([, name]) => name));
  }
  assert.ok(['idempotency_key', 'aborted', 'millis'].every((name) => further.includes(name)), `only ${further} were found`);
  // What a name or a number is refused with, the node has the same codes for.
  further.push('limit_name', 'limit_key', 'limit_range', 'period_range', 'sequence_name', 'number_range');
  // Sentences for further ones are in the second file.
  for (const name of ['left', 'upgraded', 'token', 'token_full', 'token_not_reached', ...thrown, ...further]) assert.ok(readme.includes(`\`${name}\``), name);
});
