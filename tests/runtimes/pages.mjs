// Pages that run the program: what they are made of, who serves them, and how they are asked.
import assert from 'node:assert/strict';
import { serve } from '../e2e/serve.mjs';
import { asked, judge } from './project.mjs';

/** A page without an icon, which browsers would ask for, that loads this script. */
export const html = (script, head = '') =>
  `<!doctype html><link rel="icon" href="data:,">${head}<script type="module" src="${script}"></script>\n`;

/** The module that runs the program in a page; the outcome is left where the test finds it. */
export const pageModule = (imports = "import * as tallymesh from 'tallymesh';", options = '') =>
  `${imports}
   import { run } from './program.js';
   const asked = JSON.parse(decodeURIComponent(location.hash.slice(1)));
   globalThis.outcome = run(tallymesh, { ...asked, ${options} });\n`;

/** Opens a page in a browser, of Playwright or of Puppeteer, and judges what came of it. */
export async function visit(browser, address, node) {
  const page = await browser.newPage();
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => ['error', 'warning', 'warn'].includes(message.type()) && complaints.push(message.text()));
  await page.goto(`${address}#${encodeURIComponent(JSON.stringify(asked(node)))}`);
  const outcome = await page.evaluate(() => globalThis.outcome);
  assert.deepEqual(complaints, []);
  judge(outcome);
  await page.close();
}

/** Serves a folder while its page is visited. */
export async function visitFolder(browser, folder, node) {
  const { address, stop } = await serve(folder);
  try {
    await visit(browser, address, node);
  } finally {
    stop();
  }
}
