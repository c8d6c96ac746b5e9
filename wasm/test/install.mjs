// Installs the packed package into an empty project, as a user would. TALLYMESH_TARBALL names the
// tarball; without it, one is packed from what dist/ holds.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const windows = process.platform === 'win32';
const npm = (args, cwd) => execFileSync('npm', args, { cwd, encoding: 'utf8', shell: windows, stdio: ['ignore', 'pipe', 'ignore'] });

/** Makes the project, with another tarball if one is given; `load()` imports an entry of the package from within it. */
export function install(given = process.env.TALLYMESH_TARBALL) {
  const project = mkdtempSync(join(tmpdir(), 'tallymesh-package-'));
  process.on('exit', () => rmSync(project, { recursive: true, force: true }));
  const [{ filename, files }] = JSON.parse(npm(['pack', '--json', '--pack-destination', project], root));
  const tarball = given ?? join(project, filename);
  writeFileSync(join(project, 'package.json'), '{ "name": "user", "private": true, "type": "module" }');
  npm(['install', '--offline', '--no-package-lock', tarball], project);
  return {
    project,
    tarball,
    files: files.map(({ path }) => path),
    load: (entry = 'tallymesh') => {
      const name = `load-${entry.replaceAll('/', '-')}.js`;
      writeFileSync(join(project, name), `export * from '${entry}';\n`);
      return import(pathToFileURL(join(project, name)).href);
    },
  };
}
