import type { View } from './rows.js';

/** A space of a node, and the ticket that is shown there, if one is. */
export interface Place {
  readonly origin: string;
  readonly space: string;
  readonly ticket: string | undefined;
}

/** The header that shows a ticket. */
export function withTicket(ticket: string | undefined): Record<string, string> {
  return ticket ? { authorization: `Bearer ${ticket}` } : {};
}

/** Which rows of which view the page shows. */
export interface Look extends View {
  readonly from: number;
  readonly to: number;
  /** Whether the order is to stay as it is, since a hand is on it. */
  readonly held: boolean;
}

/** What the page asks of the worker. */
export type WorkerRequest =
  /** Reads a space of a node; without a place, the page tells of its own counters. `opening` numbers the answers. */
  | { readonly do: 'open'; readonly place: Place | undefined; readonly opening: number }
  | { readonly do: 'look'; readonly look: Look }
  | { readonly do: 'choose'; readonly key: string | undefined }
  /** Counters that the page knows better: its own, and what an answer to a write showed. */
  | { readonly do: 'tell'; readonly counters: readonly (readonly [key: string, value: bigint | undefined])[] }
  /** The page is out of sight, or back. */
  | { readonly do: 'rest'; readonly resting: boolean };

/** A row as it is shown. */
export interface Shown {
  readonly key: string;
  readonly value: bigint | undefined;
  /** What it changes by, a second. */
  readonly rate: number;
  readonly spark: readonly number[] | undefined;
}

/** The chosen counter. */
export interface Chosen extends Shown {
  readonly expires: number | undefined;
  /** When it changed last, in milliseconds since 1970; 0 if it was not seen to. */
  readonly changed: number;
  /** Seconds since 1970. */
  readonly times: readonly number[];
  readonly values: readonly (number | null)[];
}

/** What the worker tells the page. */
export type WorkerReport =
  | {
      readonly kind: 'rows';
      /** The number of the opening that the rows belong to. */
      readonly opening: number;
      readonly from: number;
      readonly rows: readonly Shown[];
      /** How many rows the view has. */
      readonly count: number;
      /** How many counters are known. */
      readonly known: number;
      readonly state: State;
      /** Whether there are more at the node than the console takes in. */
      readonly partial: boolean;
      readonly chosen: Chosen | undefined;
    }
  | { readonly kind: 'news'; readonly opening: number; readonly name: string; readonly data: Readonly<Record<string, unknown>>; readonly at: number };

/** Whether what is shown is all there is, and the newest. */
export type State = 'reading' | 'live' | 'waiting' | Problem;

/** Why a node refuses, as it says. */
export interface Problem {
  readonly code: string;
  readonly detail: string;
}
