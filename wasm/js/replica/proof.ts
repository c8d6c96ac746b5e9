// The proof of an owner's key, which a node asks of whoever has a ticket of a lesser role than member; this is
// in the second module's file, too.
import type { Sign } from '../internal/sign.js';
import { hex } from './layout.js';
import type { MembersEngine } from './members.js';
import type { Refuse } from './tokens.js';

/** What is signed begins with this, so that no other signature of the key passes for one. */
const DOMAIN = 'tallymesh-link-1';
const OWNER_BYTES = 32;
const SIGNATURE_BYTES = 64;
/** What `Engine.limit` takes. */
const LIMITS = ['member', 'writer', 'reader'];

/**
 * Signs the challenge that a node sent, and holds the engine to the role that it names: others would not take
 * what is beyond that, and nothing that is made after it.
 */
export async function prove(
  engine: MembersEngine,
  asked: string,
  origin: Uint8Array,
  sign: Sign | undefined,
  refuse: Refuse,
): Promise<string> {
  const { challenge, node, role } = read(asked, refuse, engine);
  const owner = origin.subarray(0, OWNER_BYTES);
  // An editor may do all that a page can.
  engine.limit(Math.max(LIMITS.indexOf(role), 0));
  if (!sign) throw refuse(engine, 'the node asks for a proof', 'owner_proof');
  let signature: Uint8Array;
  try {
    signature = new Uint8Array(await sign(new Uint8Array([...new TextEncoder().encode(DOMAIN), ...challenge, ...node])));
  } catch (cause) {
    throw refuse(engine, `options.sign failed: ${String(cause)}`, 'owner_proof');
  }
  if (signature.length !== SIGNATURE_BYTES) {
    throw refuse(engine, `options.sign gave ${signature.length} bytes, and an Ed25519 signature has 64`, 'owner_proof');
  }
  return JSON.stringify({ owner: hex(owner), signature: hex(signature) });
}

function read(asked: string, refuse: Refuse, engine: MembersEngine): { challenge: Uint8Array; node: Uint8Array; role: string } {
  try {
    const { challenge, node, role } = JSON.parse(asked);
    return { challenge: unhex(challenge), node: unhex(node), role };
  } catch {
    throw refuse(engine, 'a text came', 'not_a_challenge');
  }
}

/** 32 bytes of 64 hex digits. */
function unhex(text: string): Uint8Array {
  if (!/^[0-9a-f]{64}$/.test(text)) throw new Error('no hex digits');
  return Uint8Array.from(text.match(/../g)!, (pair) => parseInt(pair, 16));
}
