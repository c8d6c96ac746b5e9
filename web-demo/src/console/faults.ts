import { make } from '../make.js';
import { short } from '../writers.js';
import { refusals, type Reading } from './metrics.js';
import type { SpaceStatus } from './watch.js';
import { timeOfDay, whole } from './words.js';

const EVENTS_MAX = 30;
const REFUSALS_MAX = 6;

type Data = Readonly<Record<string, unknown>>;

/** What went wrong, and what the node did about it. */
export class Faults {
  readonly #verdict: HTMLElement;
  readonly #events: HTMLElement;
  readonly #refusals: HTMLElement;

  constructor(verdict: HTMLElement, events: HTMLElement, refused: HTMLElement) {
    this.#verdict = verdict;
    this.#events = events;
    this.#refusals = refused;
  }

  /** Shows how often something went wrong since the node started. */
  show(space: SpaceStatus | undefined, figures: Reading, upFor: string): void {
    const { faults = 0, renewals = 0 } = space ?? {};
    const again = renewals === 0 ? '' : ` This node took another writer id ${renewals === 1 ? 'once' : `${renewals} times`} because of that.`;
    const text =
      faults === 0
        ? `No fault in the ${upFor} since the node started.`
        : `${faults === 1 ? 'One fault' : `${faults} faults`}: a writer id was used by two processes, such as after a copied disk.${again} The counts come together all the same.`;
    if (this.#verdict.textContent !== text) this.#verdict.textContent = text;
    this.#verdict.dataset['good'] = String(faults === 0);
    const rows = refusals(figures);
    const shown = rows.slice(0, REFUSALS_MAX).map(({ code, protocol, count }) => {
      const name = make('th', '', make('code', '', code), make('span', 'soft', ` over ${protocol}`));
      name.scope = 'row';
      return make('tr', '', name, make('td', 'num', whole(count)));
    });
    if (rows.length === 0) shown.push(make('tr', '', make('td', 'soft', 'Nothing was refused.')));
    this.#refusals.replaceChildren(...shown);
  }

  /** Adds what the node told. */
  tell(name: string, data: Data, at: number): void {
    const text = sentence(name, data);
    if (!text) return;
    const when = make('time', 'soft', timeOfDay(at));
    when.dateTime = new Date(at).toISOString();
    const entry = make('li', '', when, ` ${text}`);
    entry.dataset['bad'] = String(name === 'fault');
    this.#events.querySelector('.nothing')?.remove();
    this.#events.prepend(entry);
    while (this.#events.children.length > EVENTS_MAX) this.#events.lastElementChild?.remove();
  }

  clear(): void {
    this.#events.replaceChildren(make('li', 'nothing soft', 'Nothing since this page was opened.'));
  }
}

function sentence(name: string, data: Data): string | undefined {
  const writer = short(String(data['writer'] ?? ''));
  switch (name) {
    case 'fault':
      return `Fault (${String(data['kind'])}): two processes wrote as ${writer}, seen at clock ${String(data['clock'])}${data['key'] === undefined ? '' : ` of ${String(data['key'])}`}.`;
    case 'renewed':
      return `This node goes on under writer ${writer}, as somebody else wrote under ${short(String(data['was']))}.`;
    case 'returned':
      return `This node rejoined as writer ${writer} after it had been retired, and made ${String(data['again'])} transactions again.`;
    case 'members': {
      const { length = 0 } = (data['members'] as readonly unknown[] | undefined) ?? [];
      return `The space has ${length === 1 ? 'one member' : `${length} members`} now, by configuration ${String(data['number'])}.`;
    }
    case 'retired':
      return `Writer ${writer} is gone, and its counts were taken over.`;
    default:
      return undefined;
  }
}
