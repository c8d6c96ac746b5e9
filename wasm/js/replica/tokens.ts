// Tokens, which the second module makes and reads: this is in its file, too.
import type { TallymeshError } from '../internal/errors.js';
import type { MembersEngine } from './members.js';
import type { Waiting } from './replica.js';

/** Makes an error: of this code, or of the engine's last failure. */
export type Refuse = (engine: MembersEngine, context: string, code?: string) => TallymeshError;

/** The token of a session that depends on nothing. */
const NOTHING = 'AQA';
const WAIT_MS = 5_000;
/** A timer of more would end at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A token for all that is seen here, and for what `before` names and is not. */
export function token(engine: MembersEngine, before: string | null | undefined, refuse: Refuse): string {
  if (!engine.token(encoder.encode(before || NOTHING))) throw refuse(engine, 'no token can be made');
  return decoder.decode(engine.take());
}

/**
 * Waits until all is seen that a token names. `live` gives the engine, or throws; `looks` has what is
 * called whenever the replica may have got further, or was freed.
 */
export function reached(
  live: () => MembersEngine,
  looks: Set<() => void>,
  text: string,
  { waitMs = WAIT_MS, signal }: Waiting,
  refuse: Refuse,
): Promise<void> {
  const bytes = encoder.encode(text);
  const holds = (): boolean => {
    const engine = live();
    const held = engine.holds(bytes);
    if (held === undefined) throw refuse(engine, 'there is nothing to wait for');
    return held;
  };
  return new Promise((resolve, reject) => {
    const aborted = (): void => look();
    const end = (): void => {
      clearTimeout(timer);
      looks.delete(look);
      signal?.removeEventListener('abort', aborted);
    };
    const look = (late = false): void => {
      try {
        signal?.throwIfAborted();
        if (!holds()) {
          if (!late) return;
          throw refuse(live(), `waited ${waitMs} ms in vain`, 'token_not_reached');
        }
        resolve();
      } catch (error) {
        reject(error);
      }
      end();
    };
    const timer = setTimeout(look, Math.min(waitMs, TIMER_MS_MAX), true);
    looks.add(look);
    signal?.addEventListener('abort', aborted);
    look();
  });
}
