/**
 * Hooks for React 18 and later. They go with each of the entries that open counters.
 *
 * @module tallymesh/react
 */
// Frameworks that render on servers take this file for one of the client's.
'use client';

import { useEffect, useMemo, useState, useSyncExternalStore } from 'react';
import type { Counters } from '../replica/open-counters.js';
import type { Replica } from '../replica/replica.js';

/**
 * What {@link useCounter} gives. The functions stay the same ones as long as counters and key do, and so does the
 * object as long as the value does.
 */
export interface UseCounterResult {
  /** The counter's exact value; `undefined` when it does not exist, and while there are no counters yet. */
  readonly value: bigint | undefined;
  /** Adds to the counter, as {@link Replica.add} does. Default: 1. */
  readonly add: (by?: number | bigint) => void;
  /** Replaces the counter's value, as {@link Replica.set} does. */
  readonly set: (value: number | bigint) => void;
  /** Takes the counter back to 0, as {@link Replica.reset} does. */
  readonly reset: () => void;
  /** Deletes the counter, as {@link Replica.delete} does; false while there are no counters yet. */
  readonly delete: () => boolean;
}

/** What {@link useCounters} gives. */
export interface UseCountersResult {
  /** The counters, once they are open; `undefined` before, and if they cannot be opened. */
  readonly counters: Counters | undefined;
  /** Why they could not be opened, if so. */
  readonly error: Error | undefined;
}

/**
 * One counter in a component: its value, and what changes it. The component renders again when this counter has
 * changed here or elsewhere, and not when another one has.
 *
 * While `counters` is `undefined`, as long as they are opened, the functions do nothing: show that, by a button
 * that is disabled. What is rendered on a server, and while that is hydrated, has no value. Once the counters
 * are closed the value stays as this component saw it last, and the functions throw `freed`.
 *
 * @param counters - the counters of a space, such as {@link useCounters} gives; any {@link Replica} will do.
 * @param key - the counter's key.
 *
 * @example
 * ```tsx
 * function Likes({ counters }: { counters: Counters | undefined }) {
 *   const { value = 0n, add } = useCounter(counters, 'likes');
 *   return <button disabled={!counters} onClick={() => add()}>{String(value)} likes</button>;
 * }
 * ```
 */
export function useCounter(counters: Replica | undefined, key: string): UseCounterResult {
  const { subscribe, look, calls } = useMemo(() => bind(counters, key), [counters, key]);
  const value = useSyncExternalStore(subscribe, look, absent);
  return useMemo(() => ({ value, ...calls }), [value, calls]);
}

/**
 * Opens counters for a component and what it renders, and closes them when it is gone. Those that are as long there
 * as the page is are opened outside of React: nothing has to close them.
 *
 * Closing tells peers what was counted last. What is counted while no peer is in reach is gone with the component.
 *
 * @param opening - opens them. It is called after the first render, also in StrictMode once only.
 * @param deps - what `opening` depends on: when one of these has changed, other counters are opened in their place.
 * Default: nothing.
 *
 * @example
 * ```tsx
 * function Shop({ node }: { node: string }) {
 *   const { counters, error } = useCounters(() => open({ space: 'shop', transports: [node] }), [node]);
 *   if (error) return <p>{error.message}</p>;
 *   return <Likes counters={counters} />;
 * }
 * ```
 */
export function useCounters(opening: () => Promise<Counters>, deps: readonly unknown[] = []): UseCountersResult {
  const wanted = useMemo(() => ({}), deps);
  const [made, setMade] = useState<{ readonly wanted: object; readonly result: UseCountersResult }>();
  useEffect(() => {
    let gone = false;
    let counters: Counters | undefined;
    const tell = (result: UseCountersResult): void => setMade({ wanted, result });
    const start = async (): Promise<void> => {
      // StrictMode takes the component away and puts it back in this turn: nothing is opened for that.
      await undefined;
      if (gone) return;
      try {
        counters = await opening();
        if (gone) await counters.close();
        else tell({ counters, error: undefined });
      } catch (error) {
        if (!gone) tell({ counters: undefined, error: error as Error });
      }
    };
    void start();
    return () => {
      gone = true;
      // Whoever is shown again, after it was hidden, has none until they are open.
      setMade(undefined);
      void counters?.close();
    };
  }, [wanted]);
  // Nobody is given counters that are about to be closed.
  return made?.wanted === wanted ? made.result : NONE;
}

const NONE: UseCountersResult = { counters: undefined, error: undefined };

const absent = (): undefined => undefined;

/** What a component does with one counter. */
function bind(counters: Replica | undefined, key: string) {
  let seen: bigint | undefined;
  const calls: Omit<UseCounterResult, 'value'> = {
    add: (by) => counters?.add(key, by),
    set: (value) => counters?.set(key, value),
    reset: () => counters?.reset(key),
    delete: () => counters?.delete(key) ?? false,
  };
  return {
    calls,
    look: () => (seen = unlessFreed(() => counters?.get(key), seen)),
    subscribe: (changed: () => void) => unlessFreed(() => counters?.subscribe(key, changed), undefined) ?? absent,
  };
}

/** What `work` gives, or `otherwise` if the replica was freed. */
function unlessFreed<T>(work: () => T, otherwise: T): T {
  try {
    return work();
  } catch (error) {
    // The class of errors would come with a copy of the package.
    if ((error as { code?: unknown }).code === 'freed') return otherwise;
    throw error;
  }
}
