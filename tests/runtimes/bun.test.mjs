// Bun: ES modules and `require()`.
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

/** Runs one module of the project. */
async function start(file, text) {
  write(project, { [file]: text });
  judge(JSON.parse(await execute(project, tool('bun'), [file, JSON.stringify(asked(node))])));
}

for (const { name, imported, required } of ENTRIES) {
  test(`Bun: import '${name}'`, () => start('main.mjs', imported));
  test(`Bun: require('${name}')`, () => start('main.cjs', required));
}
