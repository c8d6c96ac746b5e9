// The sub-entry `tallymesh/transports` of an installed package, and what its tests share.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { DEADLINE_MS } from './link.mjs';

/** Imports the sub-entry from within the project that the package is installed in. */
export function loadTransports(project) {
  const file = join(project, 'load-transports.js');
  writeFileSync(file, "export * from 'tallymesh/transports';\n");
  return import(pathToFileURL(file).href);
}

/** Resolves once `look` gives something true, and gives it. */
export async function poll(what, look) {
  const end = performance.now() + DEADLINE_MS;
  for (;;) {
    const seen = await look();
    if (seen) return seen;
    if (performance.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
