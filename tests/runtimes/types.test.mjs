// Types: a strict project compiles with each entry, under each way to resolve it, and what comes out runs.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { before, test } from 'node:test';
import { execute, makeProject, write } from './project.mjs';

/** TypeScript of this folder, and the newest one, with which the package is built. */
const COMPILERS = ['./package.json', '../../wasm/package.json'].map((from) => {
  const manifest = createRequire(new URL(from, import.meta.url)).resolve('typescript/package.json');
  return { version: createRequire(import.meta.url)(manifest).version, tsc: join(dirname(manifest), 'bin/tsc') };
});

const source = (entry) => `
  import { connect, Counter, Counters, init, open, Replica, TallymeshError } from '${entry}';
  import { broadcastChannel, post } from 'tallymesh/transports';
  import type { Connection, ConnectionState, InitOptions, Listener, ModuleSource, Operation, Shard, Status, Transport } from '${entry}';

  type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
  const same = <A, B>(_: Same<A, B>): void => {};
  same<ReturnType<Replica['get']>, bigint | undefined>(true);
  same<Counter['value'], bigint | undefined>(true);
  same<Status['clock'], bigint>(true);
  same<Status['vector'], ReadonlyMap<string, bigint>>(true);
  same<Shard['total'], bigint>(true);
  same<Parameters<Replica['add']>[1], number | bigint | undefined>(true);
  same<Parameters<Listener>[0], bigint | undefined>(true);
  same<Awaited<ReturnType<typeof open>>, Counters>(true);
  same<ReturnType<Counters['status']>['peers'][number]['state'], ConnectionState>(true);
  same<Connection['state'], ConnectionState>(true);
  same<TallymeshError['code'], string>(true);

  export const ways: Transport[] = [broadcastChannel(), broadcastChannel('shop', { paused: true }), post('http://127.0.0.1:4280', { intervalMs: 5_000 })];
  export const transport: Transport = (replica) => connect(replica, new URL('http://127.0.0.1:4280'), { paused: true });
  export const listen = (replica: Replica): Connection => connect(replica, 'http://127.0.0.1:4280', { paused: true });

  export async function count(options: InitOptions = {}): Promise<bigint> {
    await init(options);
    const replica = await open({ space: 'shop', transports: [] });
    const operations: Operation[] = [{ op: 'add', key: 'likes', by: 2n }, { op: 'add', key: 'likes', by: 40 }];
    replica.transact(operations);
    replica.transact((t) => t.add('sold', 3n));
    for await (const sold of replica.watch('sold')) if (sold === 3n) break;
    // @ts-expect-error an amount is a number or a bigint
    try { replica.add('likes', 'one'); } catch (error) { if (!(error instanceof TallymeshError)) throw error; }
    // @ts-expect-error a value may be absent
    const value: bigint = replica.get('likes');
    return value;
  }

  export type Module = ModuleSource;
`;

/** The hooks; there are no types of React itself here, and they need none. */
const react = `
  import { open } from 'tallymesh';
  import type { Counters, Replica } from 'tallymesh';
  import { useCounter, useCounters } from 'tallymesh/react';
  import type { UseCounterResult, UseCountersResult } from 'tallymesh/react';

  type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
  const same = <A, B>(_: Same<A, B>): void => {};
  same<UseCounterResult['value'], bigint | undefined>(true);
  same<UseCounterResult['add'], (by?: number | bigint) => void>(true);
  same<UseCounterResult['delete'], () => boolean>(true);
  same<Parameters<typeof useCounter>, [counters: Replica | undefined, key: string]>(true);
  same<UseCountersResult['counters'], Counters | undefined>(true);

  export function Likes(node: string): bigint {
    const { counters, error } = useCounters(() => open({ transports: [node] }), [node]);
    const { value = 0n, add, set, reset, delete: remove } = useCounter(counters, 'likes');
    const calls: (() => void)[] = [() => add(), () => add(2n), () => set(1), reset, remove, () => error?.message];
    // @ts-expect-error an event is no amount
    const press: (event: { target: object }) => void = add;
    calls.push(() => press({ target: {} }));
    // @ts-expect-error there is a key
    useCounter(counters);
    // @ts-expect-error results are not written to
    useCounter(counters, 'likes').value = 1n;
    return calls.length > 0 ? value : 0n;
  }
`;

/** Budgets, by who opens no counters. */
const budgets = `
  import { BudgetError, budgets, TallymeshError } from 'tallymesh/budgets';
  import type { Budget, Budgets, BudgetsOptions, Holder, Holding, Lease, LeaseState, LeaseTold, Transferred } from 'tallymesh/budgets';

  type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
  const same = <A, B>(_: Same<A, B>): void => {};
  same<ReturnType<typeof budgets>, Budgets>(true);
  same<Budget['value'], bigint>(true);
  same<Budget['cap'], bigint | undefined>(true);
  same<Budget['rights'], Holding>(true);
  same<Holder['owner'], string | undefined>(true);
  same<Awaited<ReturnType<Budgets['spend']>>, Budget>(true);
  same<Awaited<ReturnType<Budgets['get']>>, Budget | undefined>(true);
  same<Awaited<ReturnType<Budgets['transfer']>>, Transferred>(true);
  same<Budget['leased'], bigint>(true);
  same<Budget['leases'], readonly LeaseTold[] | undefined>(true);
  same<Awaited<ReturnType<Budgets['lease']>>, Lease>(true);
  same<Lease['state'], LeaseState>(true);
  same<ReturnType<Lease['spend']>, bigint>(true);
  same<BudgetError['applied'], 'no' | 'here' | 'unknown' | undefined>(true);
  same<BudgetError['held'], Holding | undefined>(true);
  const options: BudgetsOptions = { urls: ['http://127.0.0.1:4280'], fetch };

  export async function gift(shop = budgets(options)): Promise<bigint> {
    for await (const budget of shop.watch('gift', { signal: AbortSignal.timeout(1) })) if (budget) return budget.value;
    try { return (await shop.spend('gift', 5n, { waitMs: 5, idempotencyKey: 'a' })).value; }
    catch (error) { if (error instanceof BudgetError && error.asked === 1n) return error.held!.here; throw error as TallymeshError; }
  }
  // @ts-expect-error an amount is a number or a bigint
  export const wrong = (shop: Budgets) => shop.spend('gift', '5');
  // @ts-expect-error a lease has a time
  export const endless = (shop: Budgets) => shop.lease('gift', 5, {});
  export const till = async (shop: Budgets, lease: Lease) => { lease.spend(1n); await lease.tell({ waitMs: 5 }); return shop.resume(lease.state); };
`;

/** Limits and sequences, by who opens no counters. */
const members = `
  import { limits, RequestError, TallymeshError } from 'tallymesh/limits';
  import type { Allowance, Allowed, AllowOptions, Holding, Limit, Limits, NodesOptions, NotAllowed, Period } from 'tallymesh/limits';
  import { sequences } from 'tallymesh/sequences';
  import type { Drawn, DrawOptions, Gap, HeldNumbers, Sequence, Sequences, WatchedNumber } from 'tallymesh/sequences';

  type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
  const same = <A, B>(_: Same<A, B>): void => {};
  same<ReturnType<typeof limits>, Limits>(true);
  same<Allowance, Allowed | NotAllowed>(true);
  same<Allowance['left'], Holding>(true);
  same<Allowed['limit'], bigint>(true);
  same<NotAllowed['limit'], bigint | undefined>(true);
  same<Period['ends'], Date>(true);
  same<Limit['periodMs'], number>(true);
  same<AllowOptions['signal'], AbortSignal | undefined>(true);
  same<Awaited<ReturnType<Limits['set']>>, Limit>(true);
  same<ReturnType<typeof sequences>, Sequences>(true);
  same<Drawn['number'], bigint>(true);
  same<keyof DrawOptions, 'waitMs' | 'signal'>(true);
  same<Sequence['held'], readonly HeldNumbers[]>(true);
  same<Sequence['gaps'], readonly Gap[]>(true);
  same<WatchedNumber['below'], bigint | undefined>(true);
  same<Awaited<ReturnType<Sequences['get']>>, Sequence | undefined>(true);
  const nodes: NodesOptions = { urls: ['http://127.0.0.1:4280'], fetch };

  export async function visit(limiter = limits(nodes), shop = sequences(nodes)): Promise<bigint> {
    try { if (!(await limiter.allow('visits')).allowed) return 0n; }
    catch (error) { if (error instanceof RequestError && error.applied === 'no') return 0n; throw error as TallymeshError; }
    for await (const sequence of shop.changes('visits', { signal: AbortSignal.timeout(1) })) if (sequence) return sequence.issued;
    return (await shop.next('visits')).number;
  }
  // @ts-expect-error a cost is a number or a bigint
  export const wrong = (limiter: Limits) => limiter.allow('visits', '5');
`;

/** Imports all entries; only the one that reads files is also called. */
const main = `
  import { count } from './tallymesh.js';
  import { count as inline } from './inline.js';
  import { count as slim } from './slim.js';
  import type module from 'tallymesh/tallymesh.wasm';
  import type members from 'tallymesh/tallymesh-members.wasm';

  export const handed = (files: { module: typeof module; membersModule: typeof members }) => slim(files);
  Promise.all([count(), inline()]).then((counts) => console.log(String(counts)));
`;

/** Ports of each kind of project. */
const PORTS = {
  browsers: 'new MessageChannel().port1, new Worker("worker.js"), new SharedWorker("worker.js").port',
  node: 'new threads.MessageChannel().port1, new threads.Worker("worker.js"), threads.parentPort!',
};
const ports = (kind) => `
  import { messagePort, type Port, type PostOptions, type RetryOptions } from 'tallymesh/transports';
  import type { Transport } from 'tallymesh';
  ${kind === 'node' ? "import * as threads from 'node:worker_threads';" : ''}
  export const options: RetryOptions & PostOptions = { retryMinMs: 1, signal: new AbortController().signal, fetch };
  export const made = (): Transport[] => ([${PORTS[kind]}] satisfies Port[]).map((port) => messagePort(port, options));
  // @ts-expect-error a port takes messages
  export const wrong = () => messagePort({ addEventListener() {} });
`;

const browsers = { lib: ['es2022', 'dom'], types: [] };
const node = { lib: ['es2022'], types: ['node'], typeRoots: [join(import.meta.dirname, 'node_modules/@types')] };

/** Kinds of projects: how they find the package, and what they take their global types from. */
const PROJECTS = {
  'bundler': { type: 'module', compilerOptions: { module: 'esnext', moduleResolution: 'bundler', ...browsers } },
  'node16, ES modules': { type: 'module', compilerOptions: { module: 'node16', ...node } },
  'node16, CommonJS': { type: 'commonjs', compilerOptions: { module: 'node16', ...node } },
  'nodenext, CommonJS': { type: 'commonjs', compilerOptions: { module: 'nodenext', ...browsers } },
};

let project;

before(() => {
  project = makeProject();
});

for (const { version, tsc } of COMPILERS) {
  for (const [kind, { type, compilerOptions }] of Object.entries(PROJECTS)) {
    test(`TypeScript ${version}: ${kind}`, async () => {
      // The types of the package are checked, those of TypeScript itself not again.
      const strict = { strict: true, skipDefaultLibCheck: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true };
      const folder = write(join(project, 'strict'), {
        'package.json': JSON.stringify({ type }),
        'tsconfig.json': JSON.stringify({
          compilerOptions: { ...strict, target: 'es2022', rootDir: '.', outDir: 'built', ...compilerOptions },
          files: ['main.ts', 'ports.ts', 'react.ts', 'budgets.ts', 'members.ts'],
        }),
        'main.ts': main,
        'ports.ts': ports(compilerOptions.types.length > 0 ? 'node' : 'browsers'),
        'tallymesh.ts': source('tallymesh'),
        'inline.ts': source('tallymesh/inline'),
        'slim.ts': source('tallymesh/slim'),
        'react.ts': react,
        'budgets.ts': budgets,
        'members.ts': members,
      });
      await execute(folder, process.execPath, [tsc, '-p', '.']).catch(({ stdout }) => assert.fail(stdout));
      assert.equal(await execute(folder, process.execPath, ['built/main.js']), '42,42\n');
    });
  }
}
