// What the second module adds: a file of its own, which is loaded together with that module.
import type { InitOutput } from '#bindgen-members';
import { guarded } from '../internal/guarded.js';
import type { EngineClass } from './calls.js';
import type { Engine, Guest } from './engine.js';
import { hex, type Returned, type Writer } from './layout.js';
import { prove } from './proof.js';
import { reached, token, type Refuse } from './tokens.js';

// What `Engine.read` reads: the numbers of wasm/src/engine.rs.
const MEMBERS = 7;
const WRITERS = 8;
const UNCONFIRMED = 11;

const OWNER_BYTES = 32;
const WRITER_BYTES = 89;
const FATES = ['living', 'left', 'dead', 'absorbed'] as const;

/** Adds the calls of the second module to those that both have. Errors are made by the first file, so that they are of one class. */
export function start(exports: InitOutput, both: EngineClass, refuse: Refuse): Guest {
  const engines = whole(exports, both);
  return {
    open: (bytes) => engines.open(bytes),
    resume: (bytes, space, state) => engines.resume(bytes, space, state),
    members,
    writers,
    leave,
    returned,
    prove: (engine, asked, owner, sign) => prove(own(engine), asked, owner, sign, refuse),
    token: (engine, before) => token(own(engine), before, refuse),
    reached: (live, looks, text, options) => reached(() => own(live()), looks, text, options, refuse),
    rules,
  };
}

// Both modules have one interface; this one has more.
const own = (engine: Engine): MembersEngine => engine as MembersEngine;

/** What the second module's engines do. */
export type MembersEngine = InstanceType<ReturnType<typeof whole>>;

/** What `engine_holds` gives for no, for yes, and for nothing. */
const HELD = [false, true, undefined];

/** The class of the second module's engines. */
function whole(wasm: InitOutput, both: EngineClass) {
  const { pass } = both;
  return class extends both {
    /** Makes an engine of 56 bytes, the name of a space, and a state of another one. */
    static resume(bytes: Uint8Array, space: Uint8Array, state: Uint8Array) {
      const all = new Uint8Array(bytes.length + space.length + state.length);
      all.set(bytes);
      all.set(space, bytes.length);
      all.set(state, bytes.length + space.length);
      pass(all);
      return this.of(wasm.engine_resume(space.length));
    }

    /** In a space with members it is the members' time, if they told it. */
    override set_time(): number {
      return wasm.engine_judge_time(this.at, Date.now(), performance.now());
    }

    restore(record: Uint8Array, live: boolean): boolean {
      pass(record);
      return wasm.engine_restore(this.at, Number(live)) !== 0;
    }

    adopt(live: boolean): boolean {
      return wasm.engine_adopt(this.at, Number(live)) !== 0;
    }

    leave(now: number): boolean {
      return wasm.engine_leave(this.at, now) !== 0;
    }

    limit(role: number): void {
      wasm.engine_limit(this.at, role);
    }

    token(before: Uint8Array): boolean {
      pass(before);
      return wasm.engine_token(this.at) !== 0;
    }

    holds(text: Uint8Array): boolean | undefined {
      pass(text);
      return HELD[wasm.engine_holds(this.at)];
    }
  };
}

function members(engine: Engine): ReturnType<Guest['members']> {
  if (!engine.read(MEMBERS, 0)) return undefined;
  const bytes = engine.take();
  const view = new DataView(bytes.buffer);
  const owners: string[] = [];
  for (let at = 32; at < bytes.length; at += OWNER_BYTES) owners.push(hex(bytes.subarray(at, at + OWNER_BYTES)));
  const members = { era: view.getBigUint64(0, true), number: view.getBigUint64(8, true), owners };
  engine.read(UNCONFIRMED, 0);
  const pending = Number(new DataView(engine.take().buffer).getBigUint64(0, true));
  return { members, home: id(bytes.subarray(16, 32)), pending };
}

function writers(engine: Engine): Writer[] {
  engine.read(WRITERS, 0);
  const bytes = engine.take();
  const view = new DataView(bytes.buffer);
  const found: Writer[] = [];
  for (let at = 0; at < bytes.length; at += WRITER_BYTES) {
    const home = id(bytes.subarray(at + 24, at + 40));
    const heir = id(bytes.subarray(at + 40, at + 56));
    const owner = id(bytes.subarray(at + 56, at + 88));
    found.push({
      writer: hex(bytes.subarray(at, at + 16)),
      clock: view.getBigUint64(at + 16, true),
      ...(owner && { owner }),
      ...(home && { home }),
      ...(heir && { heir }),
      fate: FATES[bytes[at + 88] ?? 0] ?? 'living',
    });
  }
  return found;
}

/** An id in hex; nothing if it is all zeros. */
function id(bytes: Uint8Array): string | undefined {
  return bytes.some((byte) => byte !== 0) ? hex(bytes) : undefined;
}

function returned(bytes: Uint8Array, writer: string, before: string, listeners: ReadonlySet<(returned: Returned) => void>): void {
  const view = new DataView(bytes.buffer);
  const number = (at: number): bigint => view.getBigUint64(at * 8, true);
  const [first, last] = [number(1), number(2)];
  const lost = last > 0n;
  const weaker = Number(number(3));
  const returned: Returned = { writer, before, again: Number(number(0)), weaker, ...(lost && { unknown: [first, last] as const }) };
  if (listeners.size === 0 && (lost || weaker > 0)) console.warn('tallymesh came back with losses', returned);
  for (const listener of listeners) guarded(() => listener(returned));
}

function leave(engine: Engine, now: number): boolean {
  return own(engine).leave(now);
}

const rules = {
  closed: 'the space has members already',
  left: 'the replica left; once it is connected again, it comes back',
  upgraded: 'the replica went on in its second module; connect it again',
  retired: 'this replica left or was given up; connect it to a member, and it comes back by itself',
  outdated: 'this replica missed what was dropped meanwhile; connect it to a member, and it comes back by itself',
  behind: 'whoever made these bytes missed what was dropped meanwhile; it has to connect to a member first',
  gone: 'whoever made these bytes left or was given up; it has to connect to a member first',
  not_yours: 'whoever sent this speaks for a writer that it has not proved to be its own',
  beyond_role: 'the role does not allow this: writers only add, and readers only read',
  expired: 'the counter has expired, and this replica may not end it, for its role or as no member told it the time; add through a member, or once one has ended it',
  stranger: 'no member has taken in a writer of these bytes; it has to connect to a member first',
  owner_proof: 'the ticket is of a lesser role than member, and takes options.sign and the replica\'s ownerKey',
  not_a_challenge: 'the peer sent a text that is no challenge; is it a node of Tallymesh?',
  token: 'this is no token; pass on unchanged what a node or token() gave',
  token_full: 'it would have to name more than 64 writers; ask again after a change here, which stands for all that it had seen, or begin a new session',
  token_not_reached: 'not all that the token names is seen here; look whether the replica is connected, and wait again',
  unsure: 'it is not certain yet that a member began from a new enough state; merge a whole state of another replica',
};
