import { TallymeshError, type Operation, type Replica } from 'tallymesh';
import { withTicket, type Place, type Problem } from './messages.js';

/** One operation, with its number as it was typed: whoever counts says what is wrong with it. */
export type Deed =
  | { readonly op: 'add'; readonly key: string; readonly by: string }
  | { readonly op: 'set'; readonly key: string; readonly value: string }
  | { readonly op: 'reset' | 'delete'; readonly key: string };

/** Why a write was refused. */
export class Refused extends Error {
  readonly code: string;

  constructor({ code, detail }: Problem) {
    super(detail);
    this.code = code;
  }
}

/** Makes an operation; returns what the counter shows after it. */
export type Write = (deed: Deed) => Promise<bigint | undefined>;

const TIMEOUT_MS = 10_000;

interface Answer {
  readonly results: readonly { readonly value?: string }[];
  /** Of a refusal: whether it was applied all the same. */
  readonly applied?: 'no' | 'here' | 'unknown';
}

/** Writes at a node. What may or may not have counted has the same key when it is tried again, and so counts once. */
export function atNode({ origin, space, ticket }: Place): Write {
  const path = `${origin}/v1/spaces/${encodeURIComponent(space)}/transactions`;
  let unsure: { body: string; key: string } | undefined;
  return async (deed) => {
    const body = JSON.stringify({ ops: [deed] });
    const { key } = unsure?.body === body ? unsure : { key: idempotencyKey() };
    unsure = { body, key };
    let answer: Response;
    try {
      const headers = { ...withTicket(ticket), 'content-type': 'application/json', 'idempotency-key': key };
      answer = await fetch(path, { method: 'POST', headers, body, signal: AbortSignal.timeout(TIMEOUT_MS) });
    } catch {
      throw new Refused({ code: 'no_answer', detail: 'The node did not answer, so it is not known whether this counted. Try again: it counts once.' });
    }
    const said = (await answer.json()) as Answer & Problem;
    if (said.applied !== 'unknown') unsure = undefined;
    if (!answer.ok) throw new Refused(said);
    const value = said.results[0]?.value;
    return value === undefined ? undefined : BigInt(value);
  };
}

function idempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Writes at the page's own replica, where there is no node. */
export function atPage(replica: Replica): Write {
  return async (deed) => {
    try {
      replica.transact([operation(deed)]);
    } catch (error) {
      if (error instanceof TallymeshError) throw new Refused({ code: error.code, detail: error.message.replace(/ \(\w+\)$/, '') });
      throw error;
    }
    return replica.get(deed.key);
  };
}

function operation(deed: Deed): Operation {
  switch (deed.op) {
    case 'add':
      return { ...deed, by: number(deed.by) };
    case 'set':
      return { ...deed, value: number(deed.value) };
    default:
      return deed;
  }
}

/** What is no whole number becomes one that is refused as such. */
function number(typed: string): number | bigint {
  return /^[+-]?\d+$/.test(typed.trim()) ? BigInt(typed.trim().replace('+', '')) : NaN;
}
