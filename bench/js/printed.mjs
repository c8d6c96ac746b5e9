// What the benchmarks print: Markdown, to the terminal and, with `--out FILE`, to a file for the report.
import { writeFileSync } from 'node:fs';

const lines = [];

/** Whether an argument was given. */
export const flag = (name) => process.argv.includes(name);

/** Prints a line. */
export function say(line) {
  lines.push(line);
  console.log(line);
}

/** Writes what was printed to the file that is asked for. */
export function finish() {
  const at = process.argv.indexOf('--out');
  if (at > 0) writeFileSync(process.argv[at + 1], `${lines.join('\n')}\n`);
}

export const median = (numbers) => [...numbers].sort((a, b) => a - b)[numbers.length >> 1];
