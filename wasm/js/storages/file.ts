import { createHash } from 'node:crypto';
import { link, mkdir, open, readdir, readFile, rename, unlink, type FileHandle } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import type { Storage } from '../replica/open-counters.js';
import { freshKey, freshName, keptKey, type StoredKey } from './owner-key.js';
import type { Log, Opened, OwnerKey, Remains, Store } from './store.js';
import { stored } from './stored-counters.js';

/**
 * Keeps counters in a folder, which is made if need be. Each process has a log of its own there, and all have one
 * owner's key, so keep the folder private; what a process leaves behind that is gone, the next one takes over. Nothing
 * is told to anybody before it is flushed to the disk.
 *
 * The folder has to be on this machine's own file system: whether a process is alive, its socket in the folder tells.
 *
 * @throws {@link TallymeshError} `storage_failed`, by `open()`.
 *
 * @example
 * ```ts
 * const counters = await open({ storage: file('./tally'), transports: ['https://node.example'] });
 * ```
 */
export function file(folder: string): Storage {
  return stored(new FileStore(folder));
}

/** Each record: its length (u32), the begin of its SHA-256, and its bytes. */
const LENGTH_BYTES = 4;
const CHECK_BYTES = 8;
const HEAD_BYTES = LENGTH_BYTES + CHECK_BYTES;

const LOG = '.log';
const OWNER = 'owner.json';
/** The longest path that a socket may have on every system. */
const SOCKET_PATH_MAX = 103;

/** A log that was left behind, and has this name now. */
interface Left extends Remains {
  readonly path: string;
}

class FileStore implements Store {
  readonly kind = 'file';
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async open(space: string): Promise<Opened> {
    const folder = join(this.#folder, space);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const ownerKey = await ownerOf(this.#folder);
    const id = freshName();
    const alive = await listen(socketOf(folder, id));
    try {
      const left = await remains(folder, id);
      return { log: new FileLog(folder, id, alive), left, ownerKey };
    } catch (error) {
      alive.close();
      throw error;
    }
  }
}

class FileLog implements Log {
  readonly #folder: string;
  readonly #path: string;
  readonly #alive: Server;
  #handle: FileHandle | undefined;
  /** Up to where the file is known to be right. */
  #end = 0;

  constructor(folder: string, id: string, alive: Server) {
    this.#folder = folder;
    this.#path = join(folder, id + LOG);
    this.#alive = alive;
  }

  async write(record: Uint8Array, whole: boolean, taken: readonly Remains[]): Promise<void> {
    const bytes = framed(record);
    if (whole || !this.#handle) await this.#anew(bytes);
    else {
      // Over whatever a write left that went wrong.
      await this.#handle.write(bytes, 0, bytes.length, this.#end);
      await this.#handle.datasync();
      this.#end += bytes.length;
    }
    for (const { path } of taken as readonly Left[]) await unlink(path);
    if (taken.length > 0) await syncFolder(this.#folder);
  }

  async close(): Promise<void> {
    await this.#handle?.close();
    this.#handle = undefined;
    await new Promise<void>((done) => this.#alive.close(() => done()));
  }

  /** Begins the file anew; it takes the place of the old one at once. */
  async #anew(bytes: Uint8Array): Promise<void> {
    const beside = `${this.#path}.new`;
    const handle = await open(beside, 'w', 0o600);
    try {
      await handle.write(bytes, 0, bytes.length, 0);
      await handle.datasync();
      await rename(beside, this.#path);
      await syncFolder(this.#folder);
    } catch (error) {
      await handle.close();
      throw error;
    }
    await this.#handle?.close();
    this.#handle = handle;
    this.#end = bytes.length;
  }
}

/** What processes left behind that are gone. Each log is renamed first, so that no two take the same. */
async function remains(folder: string, id: string): Promise<Left[]> {
  const found: Left[] = [];
  for (const name of (await readdir(folder)).sort()) {
    // ID.log, or ID.log.TAKER of one that was being taken over.
    const [owner = '', kind, taker] = name.split('.');
    if (kind !== 'log' || taker === 'new' || owner === id) continue;
    if (await isAlive(socketOf(folder, taker ?? owner))) continue;
    const path = join(folder, `${owner}${LOG}.${id}`);
    try {
      await rename(join(folder, name), path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') continue;
      throw error;
    }
    if (process.platform !== 'win32') await unlink(socketOf(folder, taker ?? owner)).catch(() => {});
    found.push({ path, records: records(await readFile(path)) });
  }
  return found;
}

function framed(record: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(HEAD_BYTES + record.length);
  new DataView(bytes.buffer).setUint32(0, record.length, true);
  bytes.set(check(record), LENGTH_BYTES);
  bytes.set(record, HEAD_BYTES);
  return bytes;
}

const check = (record: Uint8Array): Uint8Array => createHash('sha256').update(record).digest().subarray(0, CHECK_BYTES);

/** The records of a file; what a write left that was broken off is behind them, and was never said to be durable. */
function records(bytes: Uint8Array): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const found: Uint8Array[] = [];
  for (let at = 0; at + HEAD_BYTES <= bytes.length; ) {
    const end = at + HEAD_BYTES + view.getUint32(at, true);
    const record = bytes.slice(at + HEAD_BYTES, end);
    const expected = bytes.subarray(at + LENGTH_BYTES, at + HEAD_BYTES);
    if (end > bytes.length || check(record).some((byte, index) => byte !== expected[index])) break;
    found.push(record);
    at = end;
  }
  return found;
}

async function syncFolder(folder: string): Promise<void> {
  if (process.platform === 'win32') return; // it has no such thing
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

const socketOf = (folder: string, id: string): string =>
  process.platform === 'win32' ? `\\\\.\\pipe\\tallymesh-${id}` : join(folder, `${id}.sock`);

/** Shows that this process is alive, for as long as it is. */
async function listen(path: string): Promise<Server> {
  if (Buffer.byteLength(path) > SOCKET_PATH_MAX) {
    throw new Error(`${path} is longer than ${SOCKET_PATH_MAX} bytes, which no socket may be; take a folder with a shorter path`);
  }
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((done, failed) => {
    server.once('error', failed);
    server.listen(path, done);
  });
  server.unref();
  return server;
}

function isAlive(path: string): Promise<boolean> {
  return new Promise((told) => {
    const socket = connect(path);
    const tell = (alive: boolean) => (): void => {
      socket.destroy();
      told(alive);
    };
    socket.once('connect', tell(true));
    socket.once('error', (error: NodeJS.ErrnoException) => {
      // Nobody listens, or the file is gone; anything else tells nothing.
      tell(error.code !== 'ECONNREFUSED' && error.code !== 'ENOENT')();
    });
  });
}

/** The key of all processes, made by the first one. */
async function ownerOf(folder: string): Promise<OwnerKey> {
  const path = join(folder, OWNER);
  const kept = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return undefined;
  });
  if (kept !== undefined) return keptKey(parsed(kept, path));
  const fresh = await freshKey();
  const beside = join(folder, `${freshName()}.owner`);
  const handle = await open(beside, 'wx', 0o600);
  try {
    const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
    await handle.writeFile(`${JSON.stringify({ publicKey: hex(fresh.publicKey), ...(fresh.pkcs8 && { pkcs8: hex(fresh.pkcs8) }) })}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  // Of two that are made at once the one counts that was there first.
  await link(beside, path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  await unlink(beside);
  await syncFolder(folder);
  return keptKey(parsed(await readFile(path, 'utf8'), path));
}

function parsed(text: string, path: string): StoredKey {
  const bytes = (hex: unknown): Uint8Array => {
    if (typeof hex !== 'string' || !/^([0-9a-f]{2})+$/.test(hex)) throw new Error(`${path} is damaged`);
    return new Uint8Array(Buffer.from(hex, 'hex'));
  };
  const { publicKey, pkcs8 } = JSON.parse(text) as Record<string, unknown>;
  return { publicKey: bytes(publicKey), ...(pkcs8 !== undefined && { pkcs8: bytes(pkcs8) }) };
}
