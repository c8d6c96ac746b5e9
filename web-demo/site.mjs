// Lays the page of dist/ out for a static host, with the documents and the package's reference beside it:
// `node site.mjs OUT REFERENCE`. Nothing in it asks another host, and all links are relative.
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, posix, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { Marked } from 'marked';

const root = dirname(fileURLToPath(import.meta.url));
const repo = dirname(root);
const [out, reference] = process.argv.slice(2);
if (!reference) throw new Error('say where the site is to be, and where the reference is: node site.mjs OUT REFERENCE');

/** As the node's header has it; what only a header can say is left out. */
const policyOf = (scripts, styles = '') =>
  `<meta http-equiv="content-security-policy" content="default-src 'none'; script-src 'self' ${scripts}; style-src 'self'${styles}; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'">`;
const policy = policyOf("'wasm-unsafe-eval'");

rmSync(out, { recursive: true, force: true });
cpSync(join(root, 'dist'), out, { recursive: true });
const page = readFileSync(join(root, 'dist/index.html'), 'utf8')
  .replace('<html lang="en">', '<html lang="en" data-node="none">')
  .replace('<meta charset="utf-8">', `<meta charset="utf-8">\n    ${policy}`)
  .replace('<!-- documents -->', '<a href="docs/index.html">Read how it works</a>');
writeFileSync(join(out, 'index.html'), page);

await build({ absWorkingDir: root, entryPoints: { docs: 'src/docs.css' }, outdir: join(out, 'assets'), bundle: true, minify: true });

const found = readdirSync(join(repo, 'docs'), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && !relative(repo, entry.parentPath).includes('node_modules'))
  .map((entry) => posix.join(relative(repo, entry.parentPath), entry.name));
const documents = [...found.filter((name) => name.endsWith('.md')), 'README.md', 'wasm/README.md', 'ARCHITECTURE.md', 'CHANGELOG.md'].sort();
/** Where a file of the repository is in the site. */
const places = new Map(documents.map((name) => [name, name.startsWith('docs/') ? name.replace(/\.md$/, '.html') : `docs/${name.replace(/\.md$/, '.html').toLowerCase()}`]));
// Its text is the front page of the reference.
const API = 'docs/api.md';
places.set(API, 'docs/api/index.html');
for (const name of found.filter((name) => /\.(png|svg)$/.test(name))) {
  mkdirSync(dirname(join(out, name)), { recursive: true });
  cpSync(join(repo, name), join(out, name));
  places.set(name, name);
}

const titles = new Map();
for (const name of documents) {
  const { html, title } = rendered(name);
  titles.set(name, title);
  if (name !== API) write(places.get(name), title, html);
}
referenceLaid();
const entries = documents.map((name) => `<li><a href="${posix.relative('docs', places.get(name))}">${escaped(titles.get(name))}</a></li>`);
write('docs/index.html', 'Documents', `<h1>Documents</h1>\n<ul>\n${entries.join('\n')}\n</ul>`);
console.log(`${documents.length} documents and the page are in ${out}`);

/** Puts the reference beside the documents, under a policy that knows the script and the styles that TypeDoc writes into pages. */
function referenceLaid() {
  const folder = join(out, posix.dirname(places.get(API)));
  cpSync(reference, folder, { recursive: true });
  // Copies of the documents that its front page names; they are here already.
  rmSync(join(folder, 'media'), { recursive: true, force: true });
  const linked = new Map(documents.map((name) => [posix.basename(name), places.get(name)]));
  linked.set('README.md', places.get('wasm/README.md'));
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.name.endsWith('.html')) continue;
    const file = join(entry.parentPath, entry.name);
    const html = readFileSync(file, 'utf8');
    const hashes = [...html.matchAll(/<script>(.*?)<\/script>/gs)].map(([, script]) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`);
    const laid = html
      .replace('<meta charset="utf-8"/>', `<meta charset="utf-8"/>${policyOf([...new Set(hashes)].join(' '), " 'unsafe-inline'")}<link rel="icon" href="data:,"/>`)
      .replace(/href="media\/([^"]+)"/g, (_, name) => `href="${posix.relative('docs/api', linked.get(name))}"`);
    if (!laid.includes('content-security-policy')) throw new Error(`${file} has no place for the policy`);
    writeFileSync(file, laid);
  }
}

/** A document's HTML and its first heading. */
function rendered(name) {
  const here = posix.dirname(places.get(name));
  const slugs = new Map();
  let title = '';
  const target = (href) => {
    if (/^[a-z]+:/.test(href) || href.startsWith('#')) return href;
    const [path, anchor] = href.split('#');
    const place = places.get(posix.normalize(posix.join(posix.dirname(name), path)));
    return place && posix.relative(here, place) + (anchor ? `#${anchor}` : '');
  };
  const renderer = {
    heading({ tokens, depth, text }) {
      if (depth === 1 && !title) title = text.replaceAll('`', '');
      const slug = text.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-');
      const times = slugs.get(slug) ?? 0;
      slugs.set(slug, times + 1);
      return `<h${depth} id="${slug}${times ? `-${times}` : ''}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
    },
    link({ href, tokens }) {
      const to = target(href);
      const text = this.parser.parseInline(tokens);
      // Sources are not part of the site.
      return to ? `<a href="${escaped(to)}">${text}</a>` : text;
    },
    image({ href, text }) {
      const to = target(href);
      return to && !/^[a-z]+:/.test(to) ? `<img src="${escaped(to)}" alt="${escaped(text)}">` : escaped(text);
    },
    html({ text }) {
      // Comments say where measured figures stand.
      return text.startsWith('<!--') ? '' : escaped(text);
    },
  };
  const html = new Marked({ renderer }).parse(readFileSync(join(repo, name), 'utf8'));
  const tables = html.replaceAll('<table>', '<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>').replaceAll('</table>', '</table></div>');
  return { html: tables, title: title || name };
}

function write(place, title, html) {
  const up = posix.relative(posix.dirname(place), '');
  mkdirSync(dirname(join(out, place)), { recursive: true });
  writeFileSync(
    join(out, place),
    `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
${policy}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escaped(title)} · Tallymesh</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${up}/assets/docs.css">
</head>
<body>
<header><a href="${up}/index.html">Tallymesh</a> <a href="${up}/docs/index.html">Documents</a></header>
<main>
${html}
</main>
</body>
</html>
`,
  );
}

function escaped(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
