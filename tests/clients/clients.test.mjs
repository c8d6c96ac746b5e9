// Programs that people use with Redis, against a real node: they connect, count, and complain of nothing.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { start } from './node.mjs';

const run = promisify(execFile);
let node;

before(async () => {
  node = await start();
});
after(() => node.stop());

/** Runs redis-cli with these words; what it printed on both streams. */
async function cli(...words) {
  const { stdout, stderr } = await run('redis-cli', ['-h', node.host, '-p', String(node.port), ...words]);
  assert.equal(stderr, '');
  return stdout.replace(/\n+$/, '');
}

for (const protocol of ['-2', '-3']) {
  test(`redis-cli ${protocol}`, async () => {
    const key = `cli${protocol}`;
    assert.equal(await cli(protocol, 'PING'), 'PONG');
    assert.equal(await cli(protocol, 'INCR', key), '1');
    assert.equal(await cli(protocol, 'INCRBY', key, '41'), '42');
    assert.equal(await cli(protocol, 'GET', key), '42');
    assert.equal(await cli(protocol, 'SET', key, '7', 'EX', '100'), 'OK');
    assert.match(await cli(protocol, 'TTL', key), /^(99|100)$/);
    assert.equal(await cli(protocol, 'PERSIST', key), '1');
    assert.equal(await cli(protocol, 'TTL', key), '-1');
    assert.equal(await cli(protocol, 'TYPE', key), 'string');
    assert.equal(await cli(protocol, 'SET', key, 'text').then((text) => text.startsWith('ERR')), true);
    assert.equal(await cli(protocol, 'GET', key), '7');
    assert.equal(await cli(protocol, 'DEL', key), '1');
    assert.equal(await cli(protocol, 'EXISTS', key), '0');
    assert.equal(await cli(protocol, 'NOSUCH', 'a'), "ERR unknown command 'NOSUCH', with args beginning with: 'a' ");
  });
}

test('redis-cli looks for keys, and reads what the server says of itself', async () => {
  await cli('MSET', 'scan:a', '1', 'scan:b', '2');
  const found = (await cli('--scan', '--pattern', 'scan:*')).split('\n').sort();
  assert.deepEqual(found, ['scan:a', 'scan:b']);
  assert.match(await cli('INFO', 'server'), /redis_version:\d/);
  assert.match(await cli('COMMAND', 'COUNT'), /^\d+$/);
  assert.match(await cli('CONFIG', 'GET', 'save'), /^save/);
  assert.match(await cli('CLIENT', 'LIST'), /^id=\d+ addr=127\.0\.0\.1:/);
});

test('redis-benchmark', async () => {
  const words = ['-h', node.host, '-p', String(node.port), '--csv', '-t', 'incr,get', '-n', '20000', '-c', '20'];
  const { stdout, stderr } = await run('redis-benchmark', [...words, '-P', '16', '-r', '1000']);
  assert.equal(stderr, '');
  assert.match(stdout, /"INCR","\d/);
  assert.match(stdout, /"GET","\d/);
  await run('redis-benchmark', [...words]);
  assert.equal(await cli('GET', 'counter:__rand_int__'), '20000');
});

test('redis-py', async () => {
  const { stdout, stderr } = await run(
    'python3',
    ['-W', 'error', new URL('redis_py.py', import.meta.url).pathname, node.host, String(node.port)],
    { env: { ...process.env, PYTHONPATH: process.env.TALLYMESH_REDIS_PY } },
  );
  assert.equal(stderr, '');
  assert.equal(stdout, 'done\n');
});

test('ioredis', async () => {
  const redis = new Redis({ host: node.host, port: node.port });
  const errors = [];
  redis.on('error', (error) => errors.push(error));
  assert.equal(await redis.incr('io'), 1);
  assert.equal(await redis.incrby('io', 9), 10);
  const piped = redis.pipeline();
  for (let count = 0; count < 1000; count++) piped.incr('io');
  assert.equal((await piped.exec()).at(-1)[1], 1010);
  assert.deepEqual(await redis.multi().incr('io:a').decr('io:b').exec(), [[null, 1], [null, -1]]);
  assert.deepEqual(await redis.mget('io:a', 'io:b', 'io:none'), ['1', '-1', null]);
  await assert.rejects(redis.set('io', 'text'), /^ReplyError: ERR/);

  const heard = redis.duplicate();
  const message = new Promise((resolve) => heard.on('pmessage', (...words) => resolve(words)));
  await heard.psubscribe('__keyspace@0__:io');
  await redis.incr('io');
  assert.deepEqual(await message, ['__keyspace@0__:io', '__keyspace@0__:io', 'incrby']);
  assert.equal(await redis.pexpire('io', 100_000), 1);
  assert.equal(await redis.del('io', 'io:a', 'io:b'), 3);
  await Promise.all([redis.quit(), heard.quit()]);
  assert.deepEqual(errors, []);
});

for (const RESP of [2, 3]) {
  test(`node-redis with RESP${RESP}`, async () => {
    const errors = [];
    const warnings = [];
    const warned = (warning) => warnings.push(warning);
    process.on('warning', warned);
    const redis = await createClient({ socket: { host: node.host, port: node.port }, RESP })
      .on('error', (error) => errors.push(error))
      .connect();
    const key = `node-redis-${RESP}`;
    assert.equal(await redis.incr(key), 1);
    assert.equal(await redis.incrBy(key, 4), 5);
    assert.equal(await redis.get(key), '5');
    assert.deepEqual(await redis.multi().incr(key).get(key).exec(), [6, '6']);
    const keys = [];
    for await (const found of redis.scanIterator({ MATCH: `${key}*` })) keys.push(...[found].flat());
    assert.deepEqual(keys, [key]);
    assert.equal(await redis.expire(key, 100), 1);
    assert.equal(await redis.del(key), 1);
    assert.equal(await redis.get(key), null);
    await redis.close();
    process.off('warning', warned);
    assert.deepEqual([errors, warnings], [[], []]);
  });
}

test('tickets over TLS', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tallymesh-tls-'));
  const [cert, key] = ['cert.pem', 'key.pem'].map((name) => join(folder, name));
  await run('openssl', [
    'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
    '-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', cert,
  ]);
  const secured = await start('--resp-tickets', '--resp-tls-cert', cert, '--resp-tls-key', key);
  try {
    const invite = async (role) =>
      (await run(process.env.TALLYMESH_BIN, ['invite', '--role', role, '--node', secured.http, '--token-file', secured.tokenFile])).stdout.trim();
    const [reader, writer] = [await invite('reader'), await invite('writer')];
    const { host, port } = secured;
    const cli = async (...words) => {
      const line = ['-h', host, '-p', String(port), '--tls', '--cacert', cert, '--no-auth-warning', ...words];
      return (await run('redis-cli', line)).stdout.replace(/\n+$/, '');
    };
    assert.equal(await cli('INCR', 'tls'), 'NOAUTH Authentication required.');
    assert.equal(await cli('-a', writer, 'INCR', 'tls'), '1');
    assert.equal(await cli('-3', '--user', 'me', '-a', writer, 'INCR', 'tls'), '2');
    assert.equal(await cli('-a', reader, 'GET', 'tls'), '2');
    assert.match(await cli('-a', reader, 'INCR', 'tls'), /^NOPERM forbidden: 'incr' takes the role writer/);
    await assert.rejects(run('redis-cli', ['-h', host, '-p', String(port), 'PING']));

    const ca = readFileSync(cert);
    const io = new Redis({ host, port, tls: { ca }, password: writer });
    const errors = [];
    io.on('error', (error) => errors.push(error));
    assert.equal(await io.incr('tls'), 3);
    await assert.rejects(io.set('tls', 5), /^ReplyError: NOPERM/);
    await io.quit();

    for (const RESP of [2, 3]) {
      const redis = await createClient({ socket: { host, port, tls: true, ca }, password: writer, RESP })
        .on('error', (error) => errors.push(error))
        .connect();
      assert.equal(await redis.incr('tls'), 2 + RESP);
      await redis.close();
    }
    assert.deepEqual(errors, []);
  } finally {
    await secured.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});
