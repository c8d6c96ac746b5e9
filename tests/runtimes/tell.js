// Runs the program in a runtime that has a command line. It is copied into each project.
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { run } from './program.js';

const file = (name) => readFileSync(new URL(`./node_modules/tallymesh/dist/${name}`, import.meta.url));

/** Prints what came of the program with this package; one that loads nothing by itself is handed its modules. */
export async function tell(tallymesh, slim) {
  const { ws, ...asked } = JSON.parse(process.argv[2]);
  if (ws) asked.WebSocket = (await import(ws)).WebSocket;
  if (slim) Object.assign(asked, { module: file('tallymesh.wasm'), membersModule: file('tallymesh-members.wasm') });
  console.log(JSON.stringify(await run(tallymesh, asked)));
}
