// The package and the node with which version 1 of the wire was declared stable (tests/kept/v1), beside those of now.
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { after, test } from 'node:test';
import { nodeOf, oneNode, tell } from '../e2e/nodes.mjs';
import { entryOf } from './asking.mjs';
import { asked, ENTRIES, execute, judge, makeProject, write } from './project.mjs';

const kept = (name) => fileURLToPath(new URL(`../kept/v1/${name}`, import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'tallymesh-kept-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** The node of then, as a program. */
function keptNode() {
  const program = join(folder, 'tallymesh');
  writeFileSync(program, gunzipSync(readFileSync(kept('tallymesh-x86_64-linux.gz'))));
  chmodSync(program, 0o755);
  return program;
}

/** Counts with all entries of a package over a socket, and asks with the others, at a node. */
async function goThrough(project, node) {
  for (const { imported } of ENTRIES) {
    write(project, { 'main.mjs': imported });
    const told = JSON.stringify({ ...asked(node), ws: import.meta.resolve('ws') });
    judge(JSON.parse(await execute(project, process.execPath, ['main.mjs', told])));
  }
  await tell(node.address, 'members', 'init');
  const { budgets } = await entryOf(project, 'budgets');
  // Under a key, as the package mints, it could be spent only once all that is known of those pages is over.
  await tell(node.address, 'budget', 'mint', 'gift', '100');
  assert.equal((await budgets(node.address).spend('gift', 25, { waitMs: 20_000 })).value, 75n);
  const { limits } = await entryOf(project, 'limits');
  await limits(node.address).set('login', { limit: 9, periodMs: 86_400_000 });
  assert.equal((await limits(node.address).allow('login:ann', 2, { waitMs: 20_000 })).allowed, true);
  const { sequences } = await entryOf(project, 'sequences');
  await sequences(node.address).begin('visits');
  assert.equal((await sequences(node.address).next('visits', { waitMs: 20_000 })).number, 1n);
}

test('the package of then works at a node of now', async () => {
  const node = await oneNode();
  try {
    await goThrough(makeProject(kept('tallymesh-0.1.0.tgz')), node);
  } finally {
    await node.stop();
  }
});

const elsewhere = process.platform !== 'linux' || process.arch !== 'x64';
test('the package of now works at a node of then', { skip: elsewhere && 'the kept node is for Linux on x86-64' }, async () => {
  const node = await nodeOf(keptNode());
  try {
    await goThrough(makeProject(), node);
  } finally {
    await node.stop();
  }
});
