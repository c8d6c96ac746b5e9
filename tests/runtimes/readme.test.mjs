// The JavaScript of the main README, on the oldest Node that the package names and on those after it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { oneNode, read } from '../e2e/nodes.mjs';
import { until } from '../e2e/until.mjs';
import { execute, makeProject, write } from './project.mjs';

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
const code = [...readme.matchAll(/^```js\n(.*?)^```$/gms)].map(([, text]) => text).join('');
const { engines } = JSON.parse(readFileSync(new URL('../../wasm/package.json', import.meta.url), 'utf8'));

/** The releases of Node: the one that runs this, and those that the lock file has for this machine. */
const programs = [
  process.execPath,
  ...['node-22', 'node-24'].map((name) => new URL(`nodes/node_modules/${name}/bin/node`, import.meta.url).pathname),
].filter((file) => existsSync(file));

let project;
let node;
let counted = 0;

before(async () => {
  project = makeProject();
  node = await oneNode();
});
after(() => node?.stop());

test('the package names a range of Node that is tried', () => {
  assert.equal(engines.node, '>=20');
  if (process.platform === 'linux' && process.arch === 'x64') assert.equal(programs.length, 3);
});

for (const program of programs) {
  test(`the README's JavaScript, by ${program.split('/').slice(-3).join('/')}`, async () => {
    const said = /^(counters\.get\('likes'\)); \/\/ 1n.*$/m;
    assert.match(code, said);
    assert.equal(code.split("'http://127.0.0.1:4280'").length, 2, 'the node is named once');
    // A counter that nobody else counts with, as on a fresh node.
    const key = `likes-${counted++}`;
    const main = code.replace('http://127.0.0.1:4280', node.address).replace(said, 'console.log($1);').replaceAll("'likes'", `'${key}'`);
    write(project, { 'main.mjs': main });
    const child = spawn(program, ['main.mjs'], { cwd: project });
    const told = { stdout: '', stderr: '' };
    for (const stream of ['stdout', 'stderr']) child[stream].setEncoding('utf8').on('data', (text) => (told[stream] += text));
    try {
      await until('the node to have it', async () => {
        assert.deepEqual([told.stderr, child.exitCode], ['', null]);
        return (await read(node.address, key)) === '1';
      });
      await fetch(`${node.address}/v1/spaces/default/counters/${key}/add`, { method: 'POST' });
      await until('the program to hear of it', () => told.stdout.includes('2n'));
      assert.deepEqual(told, { stdout: '1n\n2n\n', stderr: '' });
    } finally {
      child.kill('SIGKILL');
    }
  });
}

test('an error in Node names its class and shows no long line', async () => {
  write(project, {
    'wrong.mjs': `import { open } from 'tallymesh';\n(await open()).add('', 1);\n`,
  });
  const failed = await execute(project, process.execPath, ['wrong.mjs']).then(() => assert.fail('it must fail'), (error) => error);
  assert.match(failed.stderr, /TallymeshError: /);
  const longest = Math.max(...failed.stderr.split('\n').map((line) => line.length));
  assert.ok(longest < 300, `a line of ${longest} characters`);
});
