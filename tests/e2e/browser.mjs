// Chromium for tests: where it is, how it is started, and what is asked of a page.
import { existsSync, readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** Starts a headless Chromium with an empty profile, and further flags. `CHROME` names the program. */
export function launch(...more) {
  const found = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => existsSync(path));
  const executablePath = process.env.CHROME ?? found;
  if (!executablePath) throw new Error('no Chromium was found; name its program in CHROME');
  return chromium.launch({ executablePath, headless: true, args: [...FLAGS, ...more] });
}

/**
 * Has the packed package at /package/ of any address that a context's pages ask; returns the list of the
 * files that they load. `refuse` says which of them cannot be had.
 */
export async function servePackage(context, refuse = () => false) {
  const loaded = [];
  await context.route('**/package/*', (route) => {
    const name = new URL(route.request().url()).pathname.split('/').at(-1);
    loaded.push(name);
    if (refuse(name)) return route.abort();
    const contentType = name.endsWith('.wasm') ? 'application/wasm' : 'text/javascript';
    const file = new URL(`../../web-demo/node_modules/tallymesh/dist/${name}`, import.meta.url);
    return route.fulfill({ contentType, body: readFileSync(file) });
  });
  return loaded;
}

/** Opens a node's page in a new tab and waits until it counts. */
export async function openTab(context, node) {
  const page = await context.newPage();
  await page.goto(node);
  await page.waitForFunction(() => window.tallymesh !== undefined);
  return page;
}

/** Cuts a tab off, or connects it again, by the switch on its page. */
export async function cutTab(page, cut) {
  const knob = page.locator('#cut-tab');
  const connected = (await knob.getAttribute('aria-checked')) === 'true';
  if (connected === cut) await knob.click();
  const state = cut ? 'paused' : 'online';
  await page.locator(`#link[data-state="${state}"]`).waitFor();
}

/** All counters of a tab's replica, as decimal strings by key. */
export function counters(page) {
  return page.evaluate(() => Object.fromEntries(window.tallymesh.list().map(([key, value]) => [key, String(value)])));
}
