// docs/tutorial.md: its code as one program, with the packed package and a real node.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { after, before, test } from 'node:test';
import { oneNode, read } from '../e2e/nodes.mjs';
import { gate } from './gate.mjs';
import { makeProject, write } from './project.mjs';

const TIMEOUT_MS = 60_000;
const tutorial = readFileSync(new URL('../../docs/tutorial.md', import.meta.url), 'utf8');
const blocks = (language) => [...tutorial.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(([, text]) => text).join('');

let node;
let network;
before(async () => {
  node = await oneNode();
  network = await gate(node.address);
});
after(async () => {
  network?.stop();
  await node?.stop();
});

test('the tutorial installs the package as it is packed', () => {
  const name = basename(process.env.TALLYMESH_TARBALL);
  assert.deepEqual([...new Set(tutorial.match(/[\w.-]+\.tgz/g))], [name]);
});

test('the tutorial does what it says', async () => {
  const code = blocks('js');
  assert.equal(code.split("'http://127.0.0.1:4280'").length, 2, 'the node is named once');
  const project = write(makeProject(), {
    'tally.mjs': code.replace('http://127.0.0.1:4280', network.address),
    // Node 20 has no WebSocket of its own.
    'socket.mjs': `import { WebSocket } from '${import.meta.resolve('ws')}';\nglobalThis.WebSocket ??= WebSocket;\n`,
  });
  // The reader starts the node after the first piece.
  network.cut();
  const program = spawn(process.execPath, ['--import', './socket.mjs', 'tally.mjs'], { cwd: project, timeout: TIMEOUT_MS, killSignal: 'SIGKILL' });
  const told = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr']) {
    program[stream].setEncoding('utf8').on('data', (text) => {
      told[stream] += text;
      if (told.stdout.includes('likes: 1n')) network.heal();
    });
  }
  const ended = await new Promise((resolve, reject) => {
    program.on('error', reject);
    program.on('close', resolve);
  });
  assert.deepEqual({ ended, ...told }, { ended: 0, stdout: blocks('text'), stderr: '' });
  assert.equal(await read(node.address, 'likes'), '0');
});
