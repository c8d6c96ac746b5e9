import type { InitOutput as MembersOutput } from '#bindgen-members';
import { coded, explain, TallymeshError } from '../internal/errors.js';
import type { Sign } from '../internal/sign.js';
import { bind, instantiate, type Engine } from './calls.js';
import type { Members, Returned, Writer } from './layout.js';
import type { ModuleSource } from './module-source.js';
import { DELTA, ERROR, KEY } from './numbers.js';
import type { Waiting } from './replica.js';

/** What the second module adds to the first one. It is a file of its own, loaded when it is needed. */
export interface Guest {
  /** Makes an engine of what its origin is and a space's name; nothing if they are refused. */
  open(bytes: Uint8Array): Engine | undefined;
  /** Makes one that goes on with a state of another. */
  resume(origin: Uint8Array, space: Uint8Array, state: Uint8Array): Engine | undefined;
  /** The members as the replica knows them; nothing while the space is open. */
  members(engine: Engine): { members: Members; home: string | undefined; pending: number } | undefined;
  /** All writers that are known. */
  writers(engine: Engine): Writer[];
  /** Says goodbye; false if there is nobody to say it to. */
  leave(engine: Engine, now: number): boolean;
  /** Tells the listeners what a late return came to. */
  returned(bytes: Uint8Array, writer: string, before: string, listeners: ReadonlySet<(returned: Returned) => void>): void;
  /** What a session depends on that had this token and has seen what is seen here. */
  token(engine: Engine, before: string | null | undefined): string;
  /** Waits until a token is reached; `looks` has what is called whenever that may have come true. */
  reached(live: () => Engine, looks: Set<() => void>, token: string, options: Waiting): Promise<void>;
  /**
   * Answers the text with which a node asks for the proof of an owner's key, and holds the engine to the role
   * that the node names.
   */
  prove(engine: Engine, asked: string, owner: Uint8Array, sign: Sign | undefined): Promise<string>;
  /** Sentences for the codes that only it has. */
  readonly rules: Readonly<Record<string, string>>;
}

type Source = () => ModuleSource | Promise<ModuleSource>;

/** Something that is loaded once; a failed attempt may be repeated. */
class Once<T> {
  value: T | undefined;
  readonly #file: string;
  readonly #start: (module: WebAssembly.Module) => T | Promise<T>;
  #loading: Promise<T> | undefined;

  constructor(file: string, start: (module: WebAssembly.Module) => T | Promise<T>) {
    this.#file = file;
    this.#start = start;
  }

  load(source: Source): Promise<T> {
    return (this.#loading ??= this.#load(source));
  }

  async #load(source: Source): Promise<T> {
    try {
      return (this.value = await this.#start(await compile(await source())));
    } catch (cause) {
      this.#loading = undefined;
      throw new TallymeshError('module_load', `${this.#file} could not be loaded: ${String(cause)}`, { cause });
    }
  }
}

const small = new Once('tallymesh.wasm', (module) => bind(instantiate(module)));

const guest = new Once('tallymesh-members.wasm', async (module) => {
  const { start } = await import('./members.js');
  const wasm = instantiate<MembersOutput>(module);
  const guest = start(wasm, bind(wasm), (engine, context, code) => coded(code ?? errorCode(engine), context));
  explain(guest.rules);
  return guest;
});

/** Each entry sets it before anything can be loaded. */
let guestSource: Source;

/** Loads the first module once. */
export async function loadOnce(source: Source): Promise<void> {
  await small.load(source);
}

/** Says where the second module is. It is not loaded yet. */
export function setGuestSource(source: Source): void {
  guestSource = source;
}

/** Loads the second module once. */
export function loadGuest(): Promise<Guest> {
  return guest.load(guestSource);
}

async function compile(source: ModuleSource): Promise<WebAssembly.Module> {
  if (source instanceof WebAssembly.Module) return source;
  if (typeof source === 'string' || source instanceof URL || source instanceof Request) source = await fetch(source);
  if (!(source instanceof Response)) return WebAssembly.compile(source as BufferSource);
  if (!source.ok) throw new Error(`${source.url}: HTTP status ${source.status}`);
  // Compiled whole and not as it streams: that works whatever type the server gives the file.
  return WebAssembly.compile(await source.arrayBuffer());
}

/** What an engine is made with: an owner's public key, the one that was given or any, and 24 random bytes. */
export function origin(given: Uint8Array | undefined): Uint8Array {
  const owner = given ?? random(32);
  if (owner instanceof Uint8Array && owner.length === 32) return new Uint8Array([...owner, ...random(24)]);
  throw new TallymeshError('owner_key', 'ownerKey is the owner\'s public key: a Uint8Array of 32 bytes');
}

/** What an engine takes for its space: the name for people, which may be empty, and the space in a line of its own. */
export function named(space: string, name = ''): string {
  if (typeof name !== 'string' || /\p{Cc}/u.test(name) || utf8(name).length > 40) {
    throw new TallymeshError('replica_name', `${JSON.stringify(name)} is no name: that has up to 40 bytes and no control characters`);
  }
  return `${name}\n${space}`;
}

/** Makes the engine of one replica, of the second module if `members` says so. */
export function newEngine(space: string, named: string, origin: Uint8Array, members: boolean): { engine: Engine; by: Guest | undefined } {
  const by = members ? guest.value : undefined;
  const makes = members ? by : small.value;
  if (!makes) throw new TallymeshError('not_ready', 'the module is not loaded yet: await init() or open() first');
  const engine = makes.open(new Uint8Array([...origin, ...utf8(named)]));
  if (engine) return { engine, by };
  throw new TallymeshError('space_name', `${JSON.stringify(space)} is no space: a name is 1 to 64 of A-Z a-z 0-9 . _ -`);
}

/** Makes an engine of the second module that goes on where one of the first ends. */
export function resumed(by: Guest, engine: Engine, named: string, origin: Uint8Array): Engine {
  const next = by.resume(origin, utf8(named), read(engine, DELTA)!);
  if (next) return next;
  throw new TallymeshError('module_load', 'tallymesh-members.wasm does not take this replica over; are both modules of one release?');
}

/** Fresh random bytes. */
export function random(count: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(count));
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
const encoder = new TextEncoder();

/** A string as the engine takes it. */
export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}

/** The bytes of an input that has none. */
export const NONE: Uint8Array = new Uint8Array();

/** The stable code of the engine's last failure. */
export function errorCode(engine: Engine): string {
  return decoder.decode(read(engine, ERROR));
}

/** Reads a part of the engine's state; nothing, where there is none. */
export function read(engine: Engine, part: number, keyId = 0): Uint8Array | undefined {
  return engine.read(part, keyId) ? engine.take() : undefined;
}

/** The key of a counter's number. */
export function keyOf(engine: Engine, keyId: number): string | undefined {
  const key = read(engine, KEY, keyId);
  return key && decoder.decode(key);
}

/** The numbers that the call before left to be taken. */
export function takeKeyIds(engine: Engine): Uint32Array {
  return new Uint32Array(engine.take().buffer);
}

export type { Engine };
