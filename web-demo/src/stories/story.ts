import type { Scene } from '../stage/drawing.js';

/** One step of a story as it is looked at. */
export interface Step {
  readonly caption: string;
  /** For how long. */
  readonly ms?: number;
}

/** A story that tells itself. */
export interface Story {
  readonly id: string;
  readonly title: string;
  /** Begins it; what it takes for that may have to be loaded first. */
  open(hands: Hands): Play | Promise<Play>;
}

/** How a visitor's deed reaches the player, which shows what comes of it. */
export interface Hands {
  /** Does something, and lets time go on until what comes of it is seen. */
  do(act: () => void): void;
}

/** A story that was begun: who is in it, and a clock of its own, so that every run is the same. */
export interface Play extends Scene {
  /** What is shown by it. */
  readonly lead: string;
  /** What a visitor can try. */
  readonly hint: string;
  /** What is said once a visitor has taken over. */
  readonly byHand: string;
  readonly steps: readonly Step[];
  /** How long it takes until what a visitor did is seen everywhere. */
  readonly handMs: number;
  /** What the numbers beside the drawing are shown in. */
  readonly figures: HTMLElement;
  /** What stands below the drawing, if anything does. */
  readonly below?: HTMLElement;
  /** Has a step happen. */
  act(step: number): void;
  /** Lets time pass until then; tells whether there is something new to be shown. */
  run(until: number): boolean;
  /** A point was pressed. */
  press(id: string): void;
  /** A link was pressed. */
  toggle(id: string): void;
  /** Writes what stands beside the drawing. */
  show(): void;
  free(): void;
}
