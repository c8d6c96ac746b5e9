// Makes dist/ complete: types by the TypeScript compiler, and one file an entry by esbuild, minified but for Node.
// The modules and the types of their bindings must be in dist/ already.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = dirname(fileURLToPath(import.meta.url));
const dist = join(root, 'dist');

const needed = ['tallymesh.wasm', 'bindgen.d.ts', 'tallymesh-members.wasm', 'bindgen-members.d.ts'];
for (const made of needed) {
  if (!existsSync(join(dist, made))) {
    console.error(`dist/${made} is missing: \`cargo xtask pack\` makes it and then runs this build`);
    process.exit(1);
  }
}

// All else is of an earlier build.
for (const name of readdirSync(dist)) if (!needed.includes(name)) rmSync(join(dist, name), { recursive: true });

const typescript = dirname(createRequire(import.meta.url).resolve('typescript/package.json'));
execFileSync(process.execPath, [join(typescript, 'bin', 'tsc'), '-p', root], { stdio: 'inherit' });

// The declarations that users can reach from an entry are published, and no others.
const types = join(dist, 'types');
const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const published = new Set(Object.values(exports).flatMap(({ types }) => (types ? [join(root, types.default)] : [])));
for (const file of published) {
  const declarations = readFileSync(file, 'utf8');
  for (const [, name] of declarations.matchAll(/(?:from|import\() ?['"]([.#][^'"]+)['"]/g)) {
    // The types of the bindings are of the inside.
    if (name.startsWith('#')) throw new Error(`${file} names ${name}, which is not published`);
    published.add(join(dirname(file), name.replace(/\.js$/, '.d.ts')));
  }
}
for (const entry of readdirSync(types, { recursive: true, withFileTypes: true })) {
  const file = join(entry.parentPath ?? entry.path, entry.name);
  if (entry.isFile() && !published.has(file)) rmSync(file);
}

// The same types for those who `require()`: what a declaration is of depends on the package.json above it.
const commonjs = join(dist, 'require');
cpSync(types, commonjs, { recursive: true });
writeFileSync(join(commonjs, 'package.json'), '{ "type": "commonjs" }\n');

// Which source becomes which file: `.js` for pages, `.mjs` and `.cjs` for Node.
const pages = ['browser', 'workerd', 'inline', 'slim', 'transports', 'storage', 'libp2p', 'budgets', 'limits', 'sequences', 'react'];
const both = ['slim', 'transports', 'storage', 'file', 'libp2p', 'budgets', 'limits', 'sequences', 'react'];
const files = [
  ...pages.map((name) => [name, `${name}.js`]),
  ['../replica/members', 'members.js'],
  ['inline-members', 'inline-members.js'],
  ['inline-module', 'inline-module.js'],
  ['node', 'node.mjs'],
  ['require', 'node.cjs'],
  ['inline-node', 'inline.mjs'],
  ['inline-node', 'inline.cjs'],
  ...both.flatMap((name) => [[name, `${name}.mjs`], [name, `${name}.cjs`]]),
  ['../replica/members', 'members.mjs'],
];
/** Files that others load when they need them. */
const later = (members) => ({
  name: 'later',
  setup: ({ onResolve }) => {
    onResolve({ filter: /^\.\/members\.js$/ }, () => ({ path: members, external: true }));
    onResolve({ filter: /^\.\/inline-(members|module)\.js$/ }, ({ path }) => ({ path, external: true }));
  },
});
/** What each source comes to in each file: `cargo xtask size` shows it. */
const parts = {};
for (const [source, file] of files) {
  // Node downloads none of these: there, names and lines are worth more, in an error for instance.
  const page = file.endsWith('.js');
  const { metafile } = await build({
    entryPoints: [join(root, 'js/entries', `${source}.ts`)],
    outfile: join(dist, file),
    bundle: true,
    // These workerd has at hand, and the users have the other.
    external: ['./tallymesh.wasm', './tallymesh-members.wasm', 'react'],
    plugins: [later(page ? './members.js' : './members.mjs')],
    loader: { '.wasm': 'binary' },
    format: file.endsWith('.cjs') ? 'cjs' : 'esm',
    platform: page ? 'neutral' : 'node',
    target: 'es2022',
    minify: page,
    legalComments: 'none',
    // A file that is a module in bytes has no lines. The sources are in the package once, and in no map.
    sourcemap: !/^inline-.*\.js$/.test(file),
    sourcesContent: false,
    metafile: true,
  });
  const { inputs } = metafile.outputs[relative(process.cwd(), join(dist, file)).replaceAll('\\', '/')];
  parts[file] = Object.fromEntries(Object.entries(inputs).map(([name, { bytesInOutput }]) => [name, bytesInOutput]));
}
writeFileSync(join(dist, 'parts.json'), JSON.stringify(parts));
