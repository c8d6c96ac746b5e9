import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { install } from './install.mjs';

const project = install();
const { open } = await project.load();
const { file } = await project.load('tallymesh/file');

const folders = [];
const folder = () => {
  // Short, since sockets lie in it.
  const made = mkdtempSync(join(tmpdir(), 'tm-'));
  folders.push(made);
  return made;
};
process.on('exit', () => folders.forEach((made) => rmSync(made, { recursive: true, force: true })));

const logs = (at) => readdirSync(join(at, 'default')).filter((name) => name.includes('.log'));

/** A process that counts until it is killed, and says what it was promised. */
function counting(at, key) {
  const program = join(project.project, 'counting.mjs');
  writeFileSync(
    program,
    `import { open } from 'tallymesh';
     import { file } from 'tallymesh/file';
     const counters = await open({ storage: file(process.argv[2]) });
     for (;;) {
       counters.add(process.argv[3]);
       await counters.flush();
       console.log(counters.get(process.argv[3]).toString());
     }`,
  );
  const child = spawn(process.execPath, [program, at, key], { stdio: ['ignore', 'pipe', 'inherit'] });
  process.on('exit', () => child.kill('SIGKILL'));
  const lines = createInterface(child.stdout);
  let last = 0n;
  lines.on('line', (line) => (last = BigInt(line)));
  return { child, lines, last: () => last };
}

test('what was counted is in the folder, under one owner', async () => {
  const at = folder();
  const first = await open({ storage: file(at) });
  first.add('likes', 5);
  assert.equal(first.status().storage.kind, 'file');
  await first.close();
  const owner = readFileSync(join(at, 'owner.json'), 'utf8');
  assert.match(owner, /"publicKey":"[0-9a-f]{64}","pkcs8":"[0-9a-f]+"/);
  assert.equal(statSync(join(at, 'owner.json')).mode & 0o077, 0, 'nobody else reads the key');
  const second = await open({ storage: file(at) });
  assert.equal(second.get('likes'), 5n);
  assert.equal(readFileSync(join(at, 'owner.json'), 'utf8'), owner);
  await second.close();
  assert.equal(logs(at).length, 1);
});

test('after kill -9 all is there that was promised, of several processes', async () => {
  const at = folder();
  const children = ['a', 'b'].map((key) => counting(at, key));
  for (const { child, lines, last } of children) {
    for await (const _ of lines) if (last() >= 20n) break;
    child.kill('SIGKILL');
    if (child.signalCode === null) await once(child, 'exit');
  }
  const counters = await open({ storage: file(at) });
  for (const [index, key] of ['a', 'b'].entries()) {
    const promised = children[index].last();
    const found = counters.get(key);
    // One more may have been on its way.
    assert.ok(found >= promised, `${found} of ${promised}`);
  }
  assert.equal(logs(at).length, 1);
  await counters.close();
});

test('a process that lives keeps its log, however many others come', async () => {
  const at = folder();
  const [a, b] = [await open({ storage: file(at) }), await open({ storage: file(at) })];
  a.add('k', 1);
  b.add('k', 2);
  await Promise.all([a.flush(), b.flush()]);
  const c = await open({ storage: file(at) });
  assert.equal(c.get('k'), undefined);
  await Promise.all([a.close(), b.close(), c.close()]);
  const d = await open({ storage: file(at) });
  assert.equal(d.get('k'), 3n);
  await d.close();
});

test('a write that was broken off is passed over, and nothing before it', async () => {
  const at = folder();
  const counters = await open({ storage: file(at) });
  for (let round = 0; round < 3; round++) {
    counters.add('k');
    await counters.flush();
  }
  await counters.close();
  const [name] = logs(at);
  const path = join(at, 'default', name);
  const { size } = statSync(path);
  appendFileSync(path, readFileSync(path).subarray(0, 20));
  const again = await open({ storage: file(at) });
  assert.equal(again.get('k'), 3n);
  await again.close();
  const [left] = logs(at);
  const before = statSync(join(at, 'default', left)).size;
  assert.ok(before < size, 'it is one record now');
  truncateSync(join(at, 'default', left), before - 1);
  // The only record is broken: nothing of it was said to be durable.
  const empty = await open({ storage: file(at) });
  assert.equal(empty.get('k'), undefined);
  await empty.close();
});

test('what stands in the way is said', async () => {
  const at = folder();
  writeFileSync(join(at, 'file'), '');
  await assert.rejects(open({ storage: file(join(at, 'file')) }), { code: 'storage_failed', message: /\(file\) failed/ });
  const long = join(at, 'x'.repeat(100));
  await assert.rejects(open({ storage: file(long) }), { code: 'storage_failed', message: /shorter path/ });
  writeFileSync(join(at, 'owner.json'), '{"publicKey":"zz"}');
  await assert.rejects(open({ storage: file(at) }), { code: 'storage_failed', message: /owner.json is damaged/ });
});
