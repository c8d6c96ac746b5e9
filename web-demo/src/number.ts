const format = new Intl.NumberFormat('en');
const calm = matchMedia('(prefers-reduced-motion: reduce)');
const ROLL_MS = 380;

/** Writes a number with its digits in groups. */
export function grouped(value: bigint): string {
  return format.format(value).replace('-', '\u2212');
}

/** A number that rolls softly to its new value. `data-value` always holds the true one. */
export class RollingNumber {
  readonly element = document.createElement('div');
  #shown = 0n;
  #target: bigint | undefined;
  #frame = 0;

  constructor() {
    this.element.className = 'number';
  }

  /** Shows a value; the first one appears at once. */
  show(value: bigint): void {
    if (value === this.#target) return;
    const first = this.#target === undefined;
    this.#target = value;
    this.element.dataset.value = String(value);
    cancelAnimationFrame(this.#frame);
    if (first || calm.matches) this.#write(value);
    else this.#roll(value);
  }

  /** Shows a value of something else: there is nothing between the two. */
  jump(value: bigint): void {
    this.#target = undefined;
    this.show(value);
  }

  #roll(target: bigint): void {
    const from = this.#shown;
    const way = Number(target - from);
    const start = performance.now();
    const step = (now: number): void => {
      // A frame may have begun before it was asked for.
      const part = Math.min(Math.max((now - start) / ROLL_MS, 0), 1);
      if (part === 1) return this.#write(target);
      this.#write(from + BigInt(Math.round(way * (1 - (1 - part) ** 3))));
      this.#frame = requestAnimationFrame(step);
    };
    this.#frame = requestAnimationFrame(step);
  }

  #write(value: bigint): void {
    const text = grouped(value);
    this.#shown = value;
    this.element.textContent = text;
    this.element.style.setProperty('--digits', String(Math.max(text.length, 3)));
  }
}
