import { make } from '../../make.js';
import type { Hands } from '../story.js';
import type { Company } from './company.js';

/** So many of the last events are listed. */
const LISTED = 4;

/** Writes a text where it is another one by now, so that nothing is read aloud again that did not change. */
function write(into: HTMLElement, text: string): void {
  if (into.textContent !== text) into.textContent = text;
}

/** What stands beside the drawing of members: what each sees, what always holds, what can be done, and what was. */
export class Panel {
  readonly figures: HTMLElement;
  readonly below: HTMLElement;
  readonly #company: Company;
  readonly #cells: { readonly cell: HTMLElement; readonly read: () => string }[] = [];
  readonly #always: { readonly line: HTMLElement; readonly value: HTMLElement }[] = [];
  readonly #cuts: { readonly button: HTMLButtonElement; readonly waits: HTMLElement }[] = [];
  readonly #log = make('div', 'story-log');
  readonly #chips = make('ol', 'chips');
  #listed = -1;

  constructor(company: Company, hands: Hands) {
    this.#company = company;
    this.figures = make('div', 'company', this.#table(), this.#deeds(hands));
    const always = make('ul', 'always', ...company.script.always.map(({ id, says }) => this.#line(id, says)));
    always.ariaLabel = 'What always holds';
    this.#log.role = 'log';
    this.#log.ariaLabel = 'What happened last';
    this.#chips.ariaLabel = 'The numbers, in the order in which they were handed out';
    this.below = make('div', 'company-below', always);
    if (company.script.numbers) this.below.append(this.#chips);
    this.below.append(this.#log);
  }

  /** Shows how it stands. */
  show(): void {
    const { state, script, vertices } = this.#company;
    for (const { cell, read } of this.#cells) {
      const text = read();
      write(cell, text);
      cell.dataset['value'] = text;
    }
    script.always.forEach(({ read }, at) => {
      const { value, holds } = read(state, script.cast);
      const { line, value: shown } = this.#always[at]!;
      write(shown, value);
      line.dataset['value'] = value;
      line.dataset['holds'] = String(holds);
    });
    for (const { at } of vertices) {
      const { button, waits } = this.#cuts[at]!;
      const alone = this.#company.isAlone(at);
      write(button, alone ? 'Mend' : 'Cut off');
      button.setAttribute('aria-pressed', String(alone));
      const { length } = state.members[at]!.waiting;
      write(waits, length === 0 ? '' : `${length} waiting`);
    }
    this.#list();
    this.#number();
  }

  #table(): HTMLElement {
    const { script } = this.#company;
    const head = make('tr', '', make('td', ''), ...script.cast.map((name) => this.#heading(name, 'col')));
    const rows = script.rows.map((row) => {
      const cells = script.cast.map((name, at) => {
        const cell = make('td', row.of === at ? 'here' : '');
        cell.dataset['who'] = name;
        this.#cells.push({ cell, read: () => row.read(this.#company.view(at), at, script.cast) });
        return cell;
      });
      const line = make('tr', row.total ? 'total' : '', this.#heading(row.name, 'row'), ...cells);
      line.dataset['row'] = row.id;
      return line;
    });
    const table = make('table', 'compare', make('tbody', '', head, ...rows));
    table.id = 'story-views';
    table.ariaLabel = 'What each member sees';
    const scroll = make('div', 'scroll', table);
    scroll.tabIndex = 0;
    scroll.role = 'region';
    scroll.ariaLabel = 'What each member sees';
    return scroll;
  }

  #heading(name: string, scope: 'row' | 'col'): HTMLElement {
    const cell = make('th', '', name);
    cell.scope = scope;
    return cell;
  }

  #deeds(hands: Hands): HTMLElement {
    const { script } = this.#company;
    const groups = script.cast.map((name, at) => {
      const buttons = script.deeds.map(({ label }, which) => {
        const button = make('button', 'plain', label);
        button.dataset['deed'] = String(which);
        button.addEventListener('click', () => hands.do(() => this.#company.deed(which, at)));
        return button;
      });
      const cut = make('button', 'plain');
      cut.dataset['deed'] = 'cut';
      cut.addEventListener('click', () => hands.do(() => this.#company.part(at, !this.#company.isAlone(at))));
      const waits = make('span', 'waits');
      this.#cuts.push({ button: cut, waits });
      const group = make('div', 'deed-column', make('b', '', name), ...buttons, cut, waits);
      group.role = 'group';
      group.ariaLabel = name;
      group.dataset['who'] = name;
      return group;
    });
    return make('div', 'deed-columns', ...groups);
  }

  #line(id: string, says: string): HTMLElement {
    const value = make('b', '');
    const line = make('li', '', make('span', 'mark'), value, ` ${says}`);
    line.dataset['always'] = id;
    this.#always.push({ line, value });
    return line;
  }

  #list(): void {
    const { state, script } = this.#company;
    const count = state.eventsBefore + state.events.length;
    if (count === this.#listed) return;
    this.#listed = count;
    const lines = state.events.slice(-LISTED).map((event) => {
      const line = make('p', '', script.says(event, script.cast[event.at]!));
      line.dataset['what'] = event.what;
      return line;
    });
    this.#log.replaceChildren(...lines);
  }

  #number(): void {
    const { state, script } = this.#company;
    const { issued } = state.found;
    if (this.#chips.childElementCount > issued.length) this.#chips.replaceChildren();
    for (const { number, at } of issued.slice(this.#chips.childElementCount)) {
      const chip = make('li', '', number, make('small', '', ` ${script.cast[at]!}`));
      chip.dataset['number'] = number;
      chip.dataset['at'] = String(at);
      chip.dataset['prize'] = String(script.numbers?.watched === Number(number));
      this.#chips.append(chip);
    }
  }
}
