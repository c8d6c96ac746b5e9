/** The least time between two announcements, in milliseconds: a screen reader has to finish one. */
const PAUSE_MS = 5_000;

/**
 * A live region that speaks at most once in {@link PAUSE_MS}. What changes faster is not queued: after the pause it
 * says how things are then, if that is anything new.
 */
export class Announcer {
  readonly #region: HTMLElement;
  #wanted = '';
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(region: HTMLElement) {
    this.#region = region;
  }

  /** Says this, now or after the pause, unless something else is wanted by then. */
  say(text: string): void {
    this.#wanted = text;
    if (this.#timer === undefined) this.#speak();
  }

  #speak(): void {
    this.#timer = undefined;
    if (this.#region.textContent === this.#wanted) return;
    this.#region.textContent = this.#wanted;
    this.#timer = setTimeout(() => this.#speak(), PAUSE_MS);
  }
}
