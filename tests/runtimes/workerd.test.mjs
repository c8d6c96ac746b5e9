// workerd, in the way that Cloudflare's tools make a Worker: modules stay imports, which the runtime answers.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Miniflare } from 'miniflare';
import { oneNode } from '../e2e/nodes.mjs';
import { asked, judge, makeProject } from './project.mjs';
import { bundle } from './workers.mjs';

let node;
let project;

before(async () => {
  node = await oneNode();
  project = makeProject();
});
after(() => node?.stop());

/** Runs the worker, and asks it over HTTP as often as there are bodies. */
async function serve(modules, ...bodies) {
  const worker = new Miniflare({ modules, compatibilityDate: '2026-04-01', host: '127.0.0.1', port: 0, cf: false });
  try {
    const answers = [];
    for (const body of bodies) {
      const answer = await fetch(await worker.ready, { method: 'POST', body: JSON.stringify(body) });
      const text = await answer.text();
      assert.equal(answer.status, 200, text);
      answers.push(JSON.parse(text));
    }
    return answers;
  } finally {
    await worker.dispose();
  }
}

const worker = (imports, options = '') =>
  `${imports}
   import { run } from './program.js';
   export default {
     fetch: async (request) => Response.json(await run(tallymesh, { ...(await request.json()), ${options} })),
   };\n`;

test('workerd: a Worker finds its modules by itself', async () => {
  const modules = await bundle(project, worker("import * as tallymesh from 'tallymesh';"));
  assert.deepEqual(modules.map(({ path }) => path).sort(), ['tallymesh-members.wasm', 'tallymesh.wasm', 'worker.js']);
  const [outcome] = await serve(modules, asked(node));
  judge(outcome);
});

test('workerd: a Worker hands the modules in', async () => {
  const imports = `import * as tallymesh from 'tallymesh/slim';
    import module from 'tallymesh/tallymesh.wasm';
    import membersModule from 'tallymesh/tallymesh-members.wasm';`;
  const [outcome] = await serve(await bundle(project, worker(imports, 'module, membersModule')), asked(node));
  judge(outcome);
});

test('workerd: a Worker syncs over requests', async () => {
  const imports = `import * as entry from 'tallymesh';
    import { post } from 'tallymesh/transports';
    const refused = (replica) => {
      try {
        post('mailto:node')(replica);
      } catch (error) {
        if (error instanceof entry.TallymeshError && error.code === 'url') return;
      }
      throw new Error('it was not refused as it should be');
    };
    const connect = (replica, url) => (refused(replica), post(url, { intervalMs: 20 })(replica));
    const tallymesh = { ...entry, connect };`;
  const [outcome, again] = await serve(await bundle(project, worker(imports)), asked(node), asked(node));
  judge(outcome);
  judge(again);
});

test('workerd: a replica stays from one request to the next', async () => {
  const modules = await bundle(project, `import { open } from 'tallymesh';
    let replica;
    const count = async () => {
      replica ??= await open();
      replica.add('visits');
      return Response.json(String(replica.get('visits')));
    };
    export default { fetch: count };\n`);
  assert.deepEqual(await serve(modules, {}, {}, {}), ['1', '2', '3']);
});
