/** What a member sees of a budget: what is left, and what each member may spend of it. */
export interface BudgetView {
  readonly value: string;
  readonly held: readonly string[];
}

/** Numbers in a row that a member holds; `null` for one that is a member no more. */
export interface HeldNumbers {
  readonly from: string;
  readonly to: string;
  readonly at: number | null;
}

/** What a member knows of a watched number. */
export interface WatchedNumber {
  readonly number: string;
  readonly state: 'open' | 'handed_out' | 'passed' | 'lost';
  readonly by: number | null;
  readonly below: string;
}

/** What a member sees of a sequence. */
export interface SequenceView {
  readonly next: string;
  readonly issued: string;
  readonly held: readonly HeldNumbers[];
  readonly watched: readonly WatchedNumber[];
}

/** What a member sees, and who waits there. */
export interface MemberView {
  readonly budgets: Readonly<Record<string, BudgetView>>;
  readonly sequences: Readonly<Record<string, SequenceView>>;
  readonly waiting: readonly { readonly name: string; readonly amount: string }[];
}

/** Something that was done at a member, or refused there. */
export type Event = { readonly at: number; readonly now: number; readonly name: string; readonly amount: string } & (
  | { readonly what: 'spent' | 'transferred' | 'numbers_short' }
  | { readonly what: 'handed_out'; readonly number: string; readonly watched: boolean }
  | { readonly what: 'rights_short'; readonly here: string; readonly elsewhere: string }
);

/** What was found in all views at all moments so far; a view is what one member sees. */
export interface Findings {
  readonly views: number;
  readonly lowest: Readonly<Record<string, string>>;
  readonly sums: readonly string[];
  readonly astray: number;
  readonly issued: readonly { readonly number: string; readonly at: number }[];
  readonly twice: number;
  readonly faults: number;
}

/** What the members' module tells; web-demo/members/src/page_json.rs. */
export interface State {
  readonly members: readonly MemberView[];
  readonly events: readonly Event[];
  readonly eventsBefore: number;
  readonly found: Findings;
}
