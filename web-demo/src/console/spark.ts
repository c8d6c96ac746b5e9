const SVG = 'http://www.w3.org/2000/svg';
export const WIDTH = 96;
export const HEIGHT = 22;

/** A small line without axes, for eyes alone. */
export class Spark {
  readonly element = document.createElementNS(SVG, 'svg');
  readonly #line = document.createElementNS(SVG, 'path');
  readonly #area = document.createElementNS(SVG, 'path');
  #shown = '';

  constructor() {
    this.element.setAttribute('class', 'spark');
    this.element.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`);
    this.element.setAttribute('preserveAspectRatio', 'none');
    this.element.setAttribute('aria-hidden', 'true');
    this.#area.setAttribute('class', 'area');
    this.#line.setAttribute('class', 'line');
    this.element.append(this.#area, this.#line);
  }

  /** Draws points from left to right; none is a flat line. */
  show(points: readonly number[] | undefined): void {
    const line = path(points);
    if (line === this.#shown) return;
    this.#shown = line;
    this.element.classList.toggle('flat', points === undefined);
    this.#line.setAttribute('d', line);
    this.#area.setAttribute('d', points ? `${line}V${HEIGHT}H0Z` : '');
  }
}

function path(points: readonly number[] | undefined): string {
  if (!points || points.length < 2) return `M0 ${HEIGHT - 1.5}H${WIDTH}`;
  const top = Math.max(0, ...points);
  const low = Math.min(0, ...points);
  const span = top - low || 1;
  const step = WIDTH / (points.length - 1);
  return points
    .map((point, at) => `${at === 0 ? 'M' : 'L'}${(at * step).toFixed(1)} ${(1.5 + ((top - point) / span) * (HEIGHT - 3)).toFixed(1)}`)
    .join('');
}
