// A node that serves HTTP and the Redis protocol on loopback, started from TALLYMESH_BIN.
import { spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const DEADLINE_MS = 30_000;

/** Starts a node; returns its HTTP address, its operator's token, its Redis host and port, and what stops it. */
export async function start(...more) {
  const folder = mkdtempSync(join(tmpdir(), 'tallymesh-clients-'));
  const readyFile = join(folder, 'ready.json');
  const logFile = join(folder, 'log');
  const log = openSync(logFile, 'w');
  const child = spawn(
    process.env.TALLYMESH_BIN,
    [
      'up', '--data', join(folder, 'data'), '--http', '127.0.0.1:0', '--listen', '/ip4/127.0.0.1/tcp/0',
      '--resp', '127.0.0.1:0', '--ready-file', readyFile, ...more,
    ],
    { stdio: ['ignore', log, log] },
  );
  closeSync(log);
  // Nothing that happens to this process may leave a node behind.
  const kill = () => child.kill('SIGKILL');
  process.on('exit', kill);
  const said = await ready(child, readyFile, logFile);
  const [host, port] = said.resp.split(':');
  return {
    http: said.http,
    token: readFileSync(join(folder, 'data', 'token'), 'utf8').trim(),
    tokenFile: join(folder, 'data', 'token'),
    host,
    port: Number(port),
    stop: async () => {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      kill();
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function ready(child, readyFile, logFile) {
  const end = performance.now() + DEADLINE_MS;
  for (;;) {
    try {
      return JSON.parse(readFileSync(readyFile, 'utf8'));
    } catch {
      if (child.exitCode !== null || performance.now() > end) {
        throw new Error(`the node does not listen:\n${readFileSync(logFile, 'utf8')}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
