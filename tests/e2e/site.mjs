import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** The folder of the static site: TALLYMESH_SITE, or where `cargo xtask site` puts it. */
export function site() {
  const folder = process.env.TALLYMESH_SITE ?? new URL('../../target/site', import.meta.url).pathname;
  if (!existsSync(join(folder, 'index.html'))) throw new Error(`there is no site in ${folder}; \`cargo xtask site\` builds it`);
  return folder;
}
