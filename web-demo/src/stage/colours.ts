/** Hues that stay apart from each other and from the accent, which stands for agreement. */
const HUES = [222, 22, 282, 338, 200, 255, 5, 310, 235, 350, 265, 32];

/** Gives equal numbers one colour, and different ones different colours as long as there are enough. */
export class Colours {
  #taken = new Map<string, number>();

  /** The hue of each number; `undefined` for all if all are equal, which is the page's accent. */
  of(values: readonly (bigint | undefined)[]): (number | undefined)[] {
    const names = values.map(String);
    const distinct = [...new Set(names)];
    for (const name of [...this.#taken.keys()]) if (!distinct.includes(name)) this.#taken.delete(name);
    if (distinct.length <= 1) return values.map(() => undefined);
    for (const name of distinct) {
      if (this.#taken.has(name)) continue;
      const used = new Set(this.#taken.values());
      const free = HUES.find((hue) => !used.has(hue));
      this.#taken.set(name, free ?? 195 + ((this.#taken.size * 47) % 180));
    }
    return names.map((name) => this.#taken.get(name));
  }
}
