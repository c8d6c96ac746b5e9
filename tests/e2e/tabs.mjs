// Drives browser tabs for another program: node tabs.mjs NODE-URL...
//
// Opens one tab at each node, prints {"ready":N}, then answers each JSON line on standard input with
// one on standard output, in order:
//   {"op":"add","tab":0,"key":"k","by":1,"times":100}  -> {"ok":true}; `by` is a number or a decimal string
//   {"op":"cut","tab":0,"cut":true}                    -> {"ok":true} once the tab's link is down (or up)
//   {"op":"counters","tab":0}                          -> {"key":"value",...}
//   {"op":"quit"}                                      -> {"ok":true}, then exits
// A failure is answered by {"error":"..."}. It also exits when standard input closes.
import { createInterface } from 'node:readline';
import { counters, cutTab, launch, openTab } from './browser.mjs';

const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);

const browser = await launch();
process.on('SIGTERM', () => void browser.close().finally(() => process.exit(1)));
try {
  await serve(process.argv.slice(2));
} catch (error) {
  say({ error: error.message });
  process.exitCode = 1;
} finally {
  await browser.close();
}

async function serve(nodes) {
  if (nodes.length === 0) throw new Error('name the address of a node for each tab');
  const tabs = [];
  for (const node of nodes) {
    // A context each: tabs of different people.
    const tab = await openTab(await browser.newContext(), node);
    await tab.locator('#link[data-state="online"]').waitFor();
    tabs.push(tab);
  }
  say({ ready: tabs.length });
  for await (const line of createInterface({ input: process.stdin })) {
    if (line.trim() === '') continue;
    try {
      const order = JSON.parse(line);
      say(await obey(order, tabs));
      if (order.op === 'quit') break;
    } catch (error) {
      say({ error: error.message });
    }
  }
}

async function obey(order, tabs) {
  if (order.op === 'quit') return { ok: true };
  const tab = tabs[order.tab];
  if (!tab) throw new Error(`there is no tab ${order.tab}; the first of ${tabs.length} is 0`);
  switch (order.op) {
    case 'add':
      await tab.evaluate(add, { key: order.key, by: String(order.by ?? 1), times: order.times ?? 1 });
      return { ok: true };
    case 'cut':
      await cutTab(tab, order.cut);
      return { ok: true };
    case 'counters':
      return counters(tab);
    default:
      throw new Error(`there is no operation ${order.op}; use add, cut, counters or quit`);
  }
}

/** Runs in the page. */
function add({ key, by, times }) {
  for (let time = 0; time < times; time++) window.tallymesh.add(key, BigInt(by));
}
