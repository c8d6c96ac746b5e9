/** The clock may be set, and a machine may sleep: no timer runs longer than this without a look. */
const LOOK_MS_MAX = 60_000;

/** Waits for the expiries of the counters that somebody watches. */
export class Expiries {
  readonly #passed: (keys: string[]) => void;
  readonly #now: () => number;
  /** When each counter expires, in milliseconds since 1970. */
  readonly #times = new Map<string, number>();
  /** Not later than any of them. */
  #due = Infinity;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /**
   * @param passed - called with the counters whose time has come, which are forgotten here.
   * @param now - the time by which they expire.
   */
  constructor(passed: (keys: string[]) => void, now: () => number) {
    this.#passed = passed;
    this.#now = now;
  }

  /** Notes when a counter expires, if it does. */
  note(key: string, at: Date | number | undefined): void {
    if (!at) this.#times.delete(key);
    else {
      this.#times.set(key, +at);
      if (+at < this.#due) this.#arm(+at);
    }
  }

  /** Forgets all counters. */
  clear(): void {
    this.#times.clear();
    this.#arm(Infinity);
  }

  #arm(due: number): void {
    this.#due = due;
    clearTimeout(this.#timer);
    if (due === Infinity) return;
    const wait = Math.min(due - this.#now(), LOOK_MS_MAX);
    this.#timer = setTimeout(() => this.#look(), Math.max(wait, 0));
    // In Node it would keep the process alive; browsers give a number.
    (this.#timer as { unref?: () => void }).unref?.();
  }

  #look(): void {
    const passed: string[] = [];
    let due = Infinity;
    const now = this.#now();
    for (const [key, at] of this.#times) {
      if (at > now) due = Math.min(due, at);
      else {
        this.#times.delete(key);
        passed.push(key);
      }
    }
    this.#arm(due);
    this.#passed(passed);
  }
}
