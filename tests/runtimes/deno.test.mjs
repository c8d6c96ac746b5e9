// Deno, with no more rights than each entry needs.
import { after, before, test } from 'node:test';
import { oneNode } from '../e2e/nodes.mjs';
import { asked, ENTRIES, execute, judge, makeProject, tool, write } from './project.mjs';

let node;
let project;

before(async () => {
  node = await oneNode();
  project = makeProject();
});
after(() => node?.stop());

for (const { name, imported } of ENTRIES) {
  // The inline entry reads no file.
  const rights = name.endsWith('inline') ? [] : ['--allow-read=node_modules'];
  test(`Deno: import '${name}'`, async () => {
    write(project, { 'main.mjs': imported });
    const told = asked(node);
    const args = ['run', '--no-prompt', `--allow-net=${new URL(told.node).host}`, ...rights, 'main.mjs', JSON.stringify(told)];
    judge(JSON.parse(await execute(project, tool('deno'), args)));
  });
}
