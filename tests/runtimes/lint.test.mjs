// What those tools say of the tarball that know how packages go wrong.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, test } from 'node:test';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { install } from '../../wasm/test/install.mjs';
import { execute, tool } from './project.mjs';

let made;

before(() => {
  made = install();
});

test('publint has no advice', async () => {
  const { buffer } = new Uint8Array(readFileSync(made.tarball));
  const { messages, pkg } = await publint({ pack: { tarball: buffer }, strict: true });
  assert.deepEqual(messages.map((message) => formatMessage(message, pkg)), []);
});

test('the types are right (attw)', async () => {
  // Of ways to resolve, that of TypeScript before 4.7 is left out: it knows no `exports`.
  const args = [made.tarball, '--profile', 'node16', '--no-definitely-typed', '--no-emoji', '--no-color'];
  await execute(made.project, tool('attw'), args).catch(({ stdout, message }) => assert.fail(stdout ?? message));
});
