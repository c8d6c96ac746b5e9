import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { install } from './install.mjs';
import { closedState } from './member.mjs';

const { project, load } = install();
const file = (name) => readFileSync(join(project, 'node_modules/tallymesh/dist', name));

test('the second module is loaded when it is needed, and again after it failed', async () => {
  const { init, Replica } = await load();
  let asked = 0;
  const given = {
    // A promise would be asked for at once; this is only when it is waited for.
    then: (resolve) => {
      asked += 1;
      resolve(asked === 1 ? new Uint8Array([0]) : file('tallymesh-members.wasm'));
    },
  };
  await init({ membersModule: given });
  assert.throws(() => new Replica({ members: true }), { code: 'not_ready' });
  const replica = new Replica();
  replica.add('likes');
  assert.equal(asked, 0);

  const bytes = closedState(10);
  const guest = { link: undefined };
  const reason = await new Promise((resolve) => {
    // A peer that pushes a member's state; it never greets back.
    guest.link = replica.attach({ send: () => {}, close: resolve });
    guest.link.receive(frame(1, hello()));
    guest.link.receive(frame(6, bytes));
  });
  assert.equal(reason.code, 'module_load');
  assert.match(reason.message, /tallymesh-members\.wasm/);
  assert.equal(asked, 1);
  assert.equal(replica.get('likes'), 1n);
  await replica.upgrade();
  assert.equal(asked, 2);
  replica.merge(bytes);
  assert.equal(replica.get('likes'), 11n);
});

/** A frame of the default space. */
function frame(type, body) {
  return new Uint8Array([...Buffer.from('tm'), 1, type, 7, ...Buffer.from('default'), ...body]);
}

function hello() {
  const zeros = (count) => new Array(count).fill(0);
  return [1, 1, 0, ...zeros(8), 0, ...zeros(16), 0, ...zeros(24), ...new Array(16).fill(0xc0), 2];
}

test('esbuild bundles the package, with the second module apart', async () => {
  const { build } = createRequire(import.meta.url)('esbuild');
  const { outputFiles } = await build({
    stdin: {
      contents: `import wasm from 'tallymesh/tallymesh.wasm';
        import members from 'tallymesh/tallymesh-members.wasm';
        import { open } from 'tallymesh';
        globalThis.opened = open({ module: wasm, membersModule: members });`,
      resolveDir: project,
    },
    bundle: true,
    splitting: true,
    format: 'esm',
    loader: { '.wasm': 'file' },
    outdir: join(project, 'bundle'),
    write: false,
    logLevel: 'error',
  });
  const names = outputFiles.map(({ path }) => path.slice(dirname(path).length + 1));
  assert.equal(names.filter((name) => name.endsWith('.wasm')).length, 2);
  const page = outputFiles.find(({ path }) => path.endsWith('stdin.js')).text;
  assert.match(page, /import\("\.\/members-[A-Z0-9]+\.js"\)/);
  const apart = outputFiles.find(({ path }) => /members-[A-Z0-9]+\.js$/.test(path)).text;
  assert.ok(apart.includes('engine_resume'));
  assert.ok(!page.includes('engine_resume'), 'the bindings of the second module are apart');
});
