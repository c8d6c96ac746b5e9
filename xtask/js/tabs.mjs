// Drives one Chromium with a tab for each page: node tabs.mjs CHROME PAGE...
// Reads commands as JSON lines and answers each with {"ok": ...} or {"error": "..."}; ends when
// its input ends. It runs in tests/e2e, where playwright-core is installed.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const { chromium } = createRequire(join(process.cwd(), 'package.json'))('playwright-core');

const [executablePath, ...pages] = process.argv.slice(2);
const ONLINE_MS = 30_000;

const browser = await chromium.launch({
  executablePath,
  args: [
    '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync',
  ],
});

const inState = (tab, state) =>
  tab.waitForFunction((wanted) => document.getElementById('link')?.dataset.state === wanted, state, { timeout: ONLINE_MS });

const commands = {
  add: ({ tab, adds }) =>
    tabs[tab].evaluate((list) => {
      for (const [key, by] of list) globalThis.tallymesh.add(key, BigInt(by));
    }, adds),

  // The switch that a person uses.
  async cut({ tab, cut }) {
    await tabs[tab].click('#cut-tab');
    await inState(tabs[tab], cut ? 'paused' : 'online');
  },

  counters: ({ tab }) =>
    tabs[tab].evaluate(() => globalThis.tallymesh.list().map(([key, value]) => [key, String(value)])),
};

const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);
const tabs = [];
try {
  for (const page of pages) {
    const tab = await browser.newPage();
    tab.on('pageerror', (error) => console.error(`${page}: ${error.stack ?? error}`));
    tab.on('console', (message) => {
      if (message.type() === 'error') console.error(`${page}: ${message.text()}`);
    });
    tabs.push(tab);
    await tab.goto(page);
    await inState(tab, 'online');
  }
  say({ ok: null });
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    try {
      say({ ok: (await commands[command.do](command)) ?? null });
    } catch (error) {
      say({ error: String(error?.message ?? error) });
    }
  }
} catch (error) {
  say({ error: String(error?.message ?? error) });
  process.exitCode = 1;
} finally {
  await browser.close();
}
