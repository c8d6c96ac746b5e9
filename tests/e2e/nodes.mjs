// Three nodes that gossip on loopback: given by TALLYMESH_NODES, or started from TALLYMESH_BIN.
import { execFile, spawn } from 'node:child_process';
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { until } from './until.mjs';

/** Returns the HTTP addresses of three nodes, and what stops those that were started. */
export async function nodes() {
  const given = process.env.TALLYMESH_NODES;
  if (given) return { addresses: JSON.parse(given), stop: async () => {} };
  const binary = process.env.TALLYMESH_BIN;
  if (!binary) throw new Error('set TALLYMESH_NODES (JSON list of three addresses) or TALLYMESH_BIN (the program)');

  const { ready, stop } = await cluster(binary, 3);
  return { addresses: ready.map(({ http }) => http), stop };
}

/**
 * Starts a node that nobody else uses, from TALLYMESH_BIN, with further arguments; returns its HTTP address, where it
 * listens for nodes, what stops it, and what starts it again with other such arguments, at another address.
 */
export const oneNode = (...first) => nodeOf(process.env.TALLYMESH_BIN, ...first);

/** The same of another program. */
export async function nodeOf(binary, ...first) {
  const { ready, stop, again } = await cluster(binary, 1, first);
  const node = {
    address: ready[0].http,
    listen: ready[0].listen,
    stop,
    again: async (...more) => {
      ({ http: node.address, listen: node.listen } = await again(...more));
    },
  };
  return node;
}

async function cluster(binary, count, more = []) {
  const folder = mkdtempSync(join(tmpdir(), 'tallymesh-e2e-'));
  const children = [];
  // Nothing that happens to this process may leave a node behind.
  const kill = () => children.forEach((child) => child.kill('SIGKILL'));
  process.on('exit', kill);
  const ended = async () => {
    kill();
    await Promise.all(children.map((child) => child.exitCode ?? child.signalCode ?? new Promise((resolve) => child.once('exit', resolve))));
  };
  const again = async (...more) => {
    await ended();
    return start(binary, folder, 0, [], children, more);
  };
  const stop = async () => {
    await ended();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const ready = [];
    for (let index = 0; index < count; index++) {
      ready.push(await start(binary, folder, index, ready.flatMap(({ listen }) => listen), children, more));
    }
    return { ready, stop, again };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function start(binary, folder, index, peers, children, more = []) {
  const readyFile = join(folder, `ready-${index}.json`);
  rmSync(readyFile, { force: true });
  const logFile = join(folder, `log-${index}`);
  const log = openSync(logFile, 'w');
  const child = spawn(
    binary,
    [
      'up', '--demo', '--data', join(folder, `data-${index}`), '--http', '127.0.0.1:0', '--listen', '/ip4/127.0.0.1/tcp/0',
      ...peers.flatMap((peer) => ['--peer', peer]), '--ready-file', readyFile, ...more,
    ],
    { stdio: ['ignore', log, log] },
  );
  closeSync(log);
  children.push(child);
  const said = await until('a node to listen', () => {
    if (child.exitCode !== null) throw new Error(`node ${index} stopped:\n${readFileSync(logFile, 'utf8')}`);
    try {
      return JSON.parse(readFileSync(readyFile, 'utf8'));
    } catch {
      return undefined;
    }
  });
  tokens.set(said.http, join(folder, `data-${index}`, 'token'));
  return { http: said.http, listen: [said.listen].flat() };
}

/** Where the operators' tokens of the nodes are that were started here, by their addresses. */
const tokens = new Map();

/** Runs a command of the node's program, and reads its answer, one JSON object a line. */
export async function tell(node, ...args) {
  const token = tokens.get(node);
  // Nodes of earlier versions have none.
  const shown = token && existsSync(token) ? ['--token-file', token] : [];
  const { stdout } = await promisify(execFile)(process.env.TALLYMESH_BIN, [...args, '--json', '--node', node, ...shown]);
  return stdout.trim().split('\n').map((line) => JSON.parse(line));
}

/** Reads one counter of the default space at a node; `undefined` when it is absent. */
export async function read(node, key) {
  const answer = await fetch(`${node}/v1/spaces/default/counters/${encodeURIComponent(key)}`);
  return answer.ok ? (await answer.json()).value : undefined;
}
