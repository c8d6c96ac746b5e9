// A project that uses the packed package, a node that it syncs with, and the program that is run in it.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { install } from '../../wasm/test/install.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const run = promisify(execFile);
const TIMEOUT_MS = 120_000;

/** Makes a project with the package, or another one's tarball, and the program; returns its folder. */
export function makeProject(tarball) {
  const { project } = install(tarball);
  for (const file of ['program.js', 'tell.js']) copyFileSync(join(here, file), join(project, file));
  return project;
}

/** Writes files, given by their paths within `folder`; returns `folder`. */
export function write(folder, files) {
  for (const [name, text] of Object.entries(files)) {
    const file = join(folder, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
  return folder;
}

/** Runs a program in `cwd`; returns what it printed on its standard output. It must not complain. */
export async function execute(cwd, file, args) {
  const env = { ...process.env, DO_NOT_TRACK: '1', DENO_NO_UPDATE_CHECK: '1', DENO_DIR: join(cwd, '.deno') };
  const { stdout, stderr } = await run(file, args, { cwd, env, timeout: TIMEOUT_MS, killSignal: 'SIGKILL' });
  assert.equal(stderr, '');
  return stdout;
}

/** A program of the npm packages here. */
export const tool = (name) => join(here, 'node_modules/.bin', name);

let keys = 0;

/** What the program is told: the node, and a key that nobody else counts with. */
export const asked = (node) => ({ node: node.address, key: `key-${keys++}` });

/** Checks what the program told. */
export function judge(outcome) {
  assert.deepEqual(outcome, { likes: 'bigint 42', refused: 'key_length', atNode: '5' });
}

/** The entries of the package, and modules that run the program with them. */
export const ENTRIES = ['tallymesh', 'tallymesh/inline', 'tallymesh/slim'].map((name) => ({
  name,
  imported: `import * as tallymesh from '${name}';\nimport { tell } from './tell.js';\nawait tell(tallymesh, ${name.endsWith('slim')});\n`,
  required: `const tallymesh = require('${name}');\nimport('./tell.js').then(({ tell }) => tell(tallymesh, ${name.endsWith('slim')}));\n`,
}));
