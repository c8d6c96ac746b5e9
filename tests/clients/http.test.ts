// A client that was generated from the description of the HTTP interface, against a real node.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import createClient from 'openapi-fetch';
import type { Client, Middleware } from 'openapi-fetch';
import { start } from './node.mjs';
import type { components, paths } from './built/openapi.js';

type Counter = components['schemas']['Counter'];

const description = JSON.parse(readFileSync(new URL('openapi.json', import.meta.url), 'utf8'));
const schemas = new Ajv2020({ strict: false, allErrors: true, validateFormats: false }).addSchema(description, 'api');

/** Compares each answer with what is said of it. */
const compare: Middleware = {
  async onResponse({ request, response, schemaPath }) {
    const kind = response.headers.get('content-type')?.split(';')[0] ?? '';
    if (!kind.endsWith('json')) return;
    const method = request.method.toLowerCase();
    const steps = ['paths', schemaPath, method, 'responses', String(response.status), 'content', kind, 'schema'];
    const pointer = steps.map((step) => step.replaceAll('~', '~0').replaceAll('/', '~1')).map(encodeURIComponent);
    const fits = schemas.compile({ $ref: `api#/${pointer.join('/')}` });
    const answer: unknown = await response.clone().json();
    assert.ok(fits(answer), `${method} ${schemaPath}: ${JSON.stringify(answer)}: ${JSON.stringify(fits.errors)}`);
    compared++;
  },
};
let compared = 0;

let node: Awaited<ReturnType<typeof start>>;
let client: Client<paths>;

before(async () => {
  node = await start();
  client = createClient<paths>({ baseUrl: node.http, headers: { authorization: `Bearer ${node.token}` } });
  client.use(compare);
});
after(() => node.stop());

const of = (key: string) => ({ params: { path: { space: 'default', key } } });
const inSpace = { params: { path: { space: 'default' } } };

test('a counter is added to and read', async () => {
  const added = await client.POST('/v1/spaces/{space}/counters/{key}/add', { ...of('likes'), body: { by: '5' } });
  assert.equal(added.error, undefined);
  const again = await client.POST('/v1/spaces/{space}/counters/{key}/add', { ...of('likes'), body: { by: -2 } });
  const counter: Counter | undefined = again.data;
  assert.deepEqual(counter, { key: 'likes', value: '3' });
  const read = await client.GET('/v1/spaces/{space}/counters/{key}', of('likes'));
  // A value is a text, and beyond 2^53 too.
  const value: string = read.data?.value ?? '';
  assert.equal(BigInt(value), 3n);
  const large = '9007199254740993';
  await client.PUT('/v1/spaces/{space}/counters/{key}', { ...of('large'), body: { value: large } });
  const kept = await client.GET('/v1/spaces/{space}/counters/{key}', of('large'));
  assert.equal(kept.data?.value, large);
});

test('a counter is set, listed and deleted', async () => {
  const set = await client.PUT('/v1/spaces/{space}/counters/{key}', { ...of('list/a b'), body: { value: '10' } });
  assert.deepEqual(set.data, { key: 'list/a b', existed: false, value: '10' });
  await client.POST('/v1/spaces/{space}/counters/{key}/add', of('list/c'));
  const query = { prefix: 'list/', limit: 1 };
  const page = await client.GET('/v1/spaces/{space}/counters', { params: { ...inSpace.params, query } });
  assert.deepEqual(page.data, { counters: [{ key: 'list/a b', value: '10' }], next: 'list/a b' });
  const after = page.data?.next ?? '';
  const rest = await client.GET('/v1/spaces/{space}/counters', {
    params: { ...inSpace.params, query: { ...query, after } },
  });
  assert.deepEqual(rest.data, { counters: [{ key: 'list/c', value: '1' }], next: null });
  const gone = await client.DELETE('/v1/spaces/{space}/counters/{key}', of('list/c'));
  assert.deepEqual(gone.data, { key: 'list/c', existed: true });
  const many = await client.POST('/v1/spaces/{space}/read', { ...inSpace, body: { keys: ['list/c', 'list/a b'] } });
  assert.deepEqual(many.data?.counters, [null, { key: 'list/a b', value: '10' }]);
});

test('a transaction is made whole', async () => {
  const { data, error } = await client.POST('/v1/spaces/{space}/transactions', {
    ...inSpace,
    body: {
      ops: [
        { op: 'add', key: 'from', by: '-4' },
        { op: 'add', key: 'to', by: 4 },
        { op: 'expire', key: 'to', in_ms: 3_600_000 },
      ],
    },
  });
  assert.equal(error, undefined);
  assert.deepEqual(data?.results.map(({ key, value }) => [key, value]), [['from', '-4'], ['to', '4'], ['to', '4']]);
});

test('a retry counts once', async () => {
  const path = { space: 'default', key: 'once' };
  const header = { 'idempotency-key': 'a', 'tallymesh-level': 'local' };
  const add = () => client.POST('/v1/spaces/{space}/counters/{key}/add', {
    params: { path, header },
    body: { by: '5' },
  });
  for (const replayed of [null, 'true']) {
    const { data, response } = await add();
    assert.deepEqual(data, { key: 'once', value: '5' });
    assert.equal(response.headers.get('idempotent-replayed'), replayed);
  }
});

test('a refusal has a code that the client knows', async () => {
  const absent = await client.GET('/v1/spaces/{space}/counters/{key}', of('none'));
  assert.equal(absent.response.status, 404);
  // The codes are part of the types: another text would not compile.
  const known: 'absent' | 'space_not_open' | undefined = absent.error?.code as 'absent' | undefined;
  assert.equal(known, 'absent');
  await client.PUT('/v1/spaces/{space}/counters/{key}', { ...of('full'), body: { value: '9223372036854775807' } });
  const ops = [{ op: 'add' as const, key: 'small' }, { op: 'set' as const, key: 'small', value: 'no number' }];
  const refused = await client.POST('/v1/spaces/{space}/transactions', { ...inSpace, body: { ops } });
  assert.equal(refused.data, undefined);
  assert.deepEqual(
    [refused.error?.code, refused.error?.applied, refused.error?.op],
    ['amount', 'no', 1],
  );
  const small = await client.GET('/v1/spaces/{space}/counters/{key}', of('small'));
  assert.equal(small.response.status, 404);
});

test('all answers are as they are described', async () => {
  const before = compared;
  await client.POST('/v1/spaces/{space}/counters/{key}/add', of('told'));
  const answers = [
    await client.GET('/v1/status'),
    await client.GET('/v1/peers'),
    await client.GET('/v1/spaces/{space}/writers', inSpace),
    await client.GET('/v1/spaces/{space}/members', inSpace),
    await client.GET('/v1/spaces/{space}/counters/{key}/shards', of('told')),
    await client.POST('/v1/spaces/{space}/counters/{key}/expire', { ...of('told'), body: { in_ms: '60000' } }),
    await client.GET('/v1/spaces/{space}/counters/{key}', of('told')),
    await client.POST('/v1/spaces/{space}/counters/{key}/persist', of('told')),
    await client.POST('/v1/spaces/{space}/counters/{key}/reset', of('told')),
    await client.POST('/v1/spaces/{space}/counters/{key}/expire', { ...of('told'), body: { at: 1 } }),
    await client.POST('/v1/spaces/{space}/counters/{key}/persist', of('none')),
    await client.POST('/v1/spaces/{space}/members/add', { ...inSpace, body: { owner: '11'.repeat(32), wait_ms: 0 } }),
    await client.POST('/v1/spaces/{space}/members/init', inSpace),
    await client.GET('/v1/spaces/{space}/members', inSpace),
    await client.GET('/v1/spaces/{space}/writers', inSpace),
    await client.POST('/v1/demo/cut', { body: { cut: true } }),
  ];
  assert.equal(compared - before, answers.length + 1);
});

test('what the description does not have does not compile', () => {
  const wrong = () => [
    // @ts-expect-error: a value is a text
    (counter: Counter): number => counter.value,
    // @ts-expect-error: there is no such address
    client.GET('/v1/spaces/{space}/nothing', inSpace),
    // @ts-expect-error: a set has a value
    client.PUT('/v1/spaces/{space}/counters/{key}', { ...of('a'), body: {} }),
  ];
  assert.equal(typeof wrong, 'function');
});

test('a stream of events is read by what JavaScript has', async () => {
  const stop = new AbortController();
  const { response } = await client.GET('/v1/spaces/{space}/events', {
    params: { ...inSpace.params, query: { prefix: 'streamed' } },
    parseAs: 'stream',
    signal: stop.signal,
  });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  assert.equal(response.bodyUsed, true);
  await client.POST('/v1/spaces/{space}/counters/{key}/add', of('streamed'));
  let text = '';
  while (!text.includes('data: {"key":"streamed","value":"1"}')) text += (await reader?.read())?.value ?? '';
  assert.match(text, /id: [0-9a-f]{16}-\d+-\d+\n/);
  stop.abort();
});
