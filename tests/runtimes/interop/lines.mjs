// The side of a driver that a checker talks to, where the replica lives behind something else: a page or a worker.
import process from 'node:process';
import { createInterface } from 'node:readline';

/** Answers each line by `ask`, and ends with its input, after `end`. */
export async function answerLines(ask, end) {
  try {
    for await (const line of createInterface({ input: process.stdin })) {
      process.stdout.write(`${JSON.stringify(await ask(JSON.parse(line)))}\n`);
    }
  } finally {
    await end();
  }
}

/** The same for a page, of Playwright or of Puppeteer. */
export async function answerByPage(browser, address, end) {
  const page = await browser.newPage();
  const ready = () => page.waitForFunction(() => globalThis.ask !== undefined);
  await page.goto(address);
  await ready();
  const ask = async (request) => {
    if (request.do === 'reload') {
      await page.reload();
      await ready();
      return {};
    }
    // As text, since browsers' protocols lose a key such as `__proto__`.
    const asked = JSON.stringify(request);
    const answer = await page.evaluate(async (text) => JSON.stringify(await globalThis.ask(JSON.parse(text))), asked);
    return JSON.parse(answer);
  };
  await answerLines(ask, async () => {
    await browser.close();
    await end();
  });
}
