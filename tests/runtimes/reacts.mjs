// The versions of React that projects are tested with.
import { cpSync } from 'node:fs';
import { join } from 'node:path';

const modules = join(import.meta.dirname, 'node_modules');

/** Their major versions. */
export const REACTS = ['18', '19'];

/** Where the packages of each one are here. */
const PACKAGES = {
  18: { react: 'react-18', 'react-dom': 'react-dom-18', 'loose-envify': 'loose-envify', 'js-tokens': 'js-tokens' },
  19: { react: 'react', 'react-dom': 'react-dom', scheduler: 'scheduler' },
};

/** Puts a version of React into a project; returns its folder. They are copied, so that each finds its own peers. */
export function addReact(project, version) {
  for (const [name, from] of Object.entries(PACKAGES[version])) {
    cpSync(join(modules, from), join(project, 'node_modules', name), { recursive: true });
  }
  return project;
}
