// Node: ES modules, and `require()` with and without its way to take those.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { build } from 'esbuild';
import { oneNode } from '../e2e/nodes.mjs';
import { asked, ENTRIES, execute, judge, makeProject, write } from './project.mjs';

let node;
let project;

before(async () => {
  node = await oneNode();
  project = makeProject();
});
after(() => node?.stop());

/** Runs one module of the project. Node 20 has no WebSocket of its own. */
async function start(file, text, ...flags) {
  write(project, { [file]: text });
  const told = JSON.stringify({ ...asked(node), ws: import.meta.resolve('ws') });
  judge(JSON.parse(await execute(project, process.execPath, [...flags, file, told])));
}

for (const { name, imported, required } of ENTRIES) {
  test(`Node: import '${name}'`, () => start('main.mjs', imported));
  test(`Node: require('${name}')`, () => start('main.cjs', required));
  test(`Node: require('${name}') where no ES module can be required`, () =>
    start('main.cjs', required, '--no-experimental-require-module'));
}

for (const { name } of ENTRIES) {
  const refused = `(async () => {
      const { readFile } = await import('node:fs/promises');
      const module = ${name.endsWith('slim')} ? await readFile('node_modules/tallymesh/dist/tallymesh.wasm') : undefined;
      const replica = await open(module && { module });
      try {
        post('mailto:node')(replica);
      } catch (error) {
        console.log(error instanceof TallymeshError, error.code);
      }
    })();\n`;
  test(`Node: errors of transports are those of ${name}`, async () => {
    write(project, {
      'errors.mjs': `import { open, TallymeshError } from '${name}';\nimport { post } from 'tallymesh/transports';\n${refused}`,
      'errors.cjs': `const { open, TallymeshError } = require('${name}');\nconst { post } = require('tallymesh/transports');\n${refused}`,
    });
    for (const args of [['errors.mjs'], ['errors.cjs'], ['--no-experimental-require-module', 'errors.cjs']]) {
      assert.equal(await execute(project, process.execPath, args), 'true url\n');
    }
  });
}

test('Node: a program in one file', async () => {
  write(project, {
    'program.mjs': `import { open } from 'tallymesh/inline';
      open().then(async (replica) => {
        replica.add('likes', 42);
        await replica.token(); // takes the second module
        console.log(replica.get('likes'));
      });\n`,
  });
  const outfile = join(project, 'alone/program.cjs');
  await build({ entryPoints: [join(project, 'program.mjs')], outfile, bundle: true, platform: 'node', logLevel: 'error' });
  assert.equal(await execute(project, process.execPath, [outfile]), '42n\n');
});

test('Node: who imports and who requires get the same package', async () => {
  write(project, {
    'both.mjs': `import { createRequire } from 'node:module';
      import { Replica } from 'tallymesh';
      console.log(createRequire(import.meta.url)('tallymesh').Replica === Replica);\n`,
  });
  assert.equal(await execute(project, process.execPath, ['both.mjs']), 'true\n');
});

test('Node: the slim entry says what it misses', async () => {
  write(project, {
    'slim.mjs': `import { init, open } from 'tallymesh/slim';
      const say = ({ code, message }) => console.log(code, message);
      await open().catch(say);
      await init({ members: true }).catch(say);\n`,
  });
  const said = await execute(project, process.execPath, ['slim.mjs']);
  assert.match(said, /^module_load .*hand the module in, as `module`.*\nmodule_load .*, as `membersModule`.*\n$/);
});

test("Node: sockets of ws that don't come about end nothing else", async () => {
  write(project, {
    'away.mjs': `import { once } from 'node:events';
      import { createServer } from 'node:net';
      import { connect, open } from 'tallymesh';
      const { WebSocket } = await import(process.argv[2]);
      const server = createServer().listen(0, '127.0.0.1');
      await once(server, 'listening');
      const address = \`http://127.0.0.1:\${server.address().port}\`;
      const replica = await open();
      // Paused before there is an answer.
      connect(replica, address, { WebSocket }).pause();
      server.close();
      await once(server, 'close');
      const connection = connect(replica, address, { WebSocket });
      await new Promise((resolve) => connection.subscribe((state) => state === 'waiting' && resolve()));
      connection.close();
      console.log(connection.error.code);\n`,
  });
  assert.equal(await execute(project, process.execPath, ['away.mjs', import.meta.resolve('ws')]), 'link_lost\n');
});
