import type { Step } from '../story.js';
import type { Company } from './company.js';
import type { Event, MemberView, State } from './state.js';

/** One step of a story about members. */
export interface MembersStep extends Step {
  act(company: Company): void;
}

/** A line of the table in which each member has a column. */
export interface Row {
  readonly id: string;
  readonly name: string;
  /** Whose line it is, if it is one member's. */
  readonly of?: number;
  /** Whether it is what the others come to. */
  readonly total?: boolean;
  read(view: MemberView, at: number, cast: readonly string[]): string;
}

/** What must hold in each view at each moment, and how it stands. */
export interface Always {
  readonly id: string;
  readonly says: string;
  read(state: State, cast: readonly string[]): { readonly value: string; readonly holds: boolean };
}

/** A story about members, as it is written down. */
export interface MembersScript {
  readonly id: string;
  readonly lead: string;
  readonly hint: string;
  readonly byHand: string;
  readonly cast: readonly string[];
  /** How long a message takes. */
  readonly delayMs: number;
  /** How long somebody waits at a member for what is short there. */
  readonly patienceMs: number;
  /** How long it takes until what a visitor did is seen everywhere. */
  readonly handMs: number;
  readonly steps: readonly MembersStep[];
  /** The number of a member's circle. */
  shows(view: MemberView): bigint | undefined;
  readonly rows: readonly Row[];
  readonly always: readonly Always[];
  /** What a visitor can do at each member; pressing its circle does the first. */
  readonly deeds: readonly { readonly label: string; act(company: Company, at: number): void }[];
  /** Says what happened at a member of that name. */
  says(event: Event, who: string): string;
  /** Of a sequence: which number is watched. */
  readonly numbers?: { readonly watched: number };
}

const amount = (view: MemberView, name: string): bigint => BigInt(view.budgets[name]?.value ?? 0);
const value = (view: MemberView, name: string): bigint | undefined => (view.budgets[name] ? amount(view, name) : undefined);
const lowest = ({ found }: State): bigint =>
  Object.values(found.lowest)
    .map(BigInt)
    .reduce((least, it) => (it < least ? it : least), 1_000_000n);

const LOWEST: Always = {
  id: 'lowest',
  says: 'was the least that any view showed, of what is left and of what somebody may spend. Never under 0',
  read(state) {
    const least = lowest(state);
    return { value: state.found.sums.length === 0 ? '–' : String(least), holds: least >= 0n };
  },
};
const VIEWS: Always = {
  id: 'views',
  says: 'views were looked at for that: what each member sees, after each message and each deed',
  read: ({ found }) => ({ value: found.views.toLocaleString('en'), holds: found.faults === 0 }),
};

const SHOPS = ['Paris', 'Quito', 'Osaka'];
const GIFT = 'gift';

const budget: MembersScript = {
  id: 'budget',
  lead: 'Three members of a space, by the very code that nodes run. One gift card is spent in three shops at once. With a plain counter two shops could both take the last unit. With a budget each spends only what it holds the rights to.',
  hint: 'Press a shop to spend 10 there. Press a line to cut it, or cut a shop off, and try to get the card under zero.',
  byHand: 'Now it’s you. Spend on both sides of a cut, as much as you like: what can’t be known to be there is refused.',
  cast: SHOPS,
  delayMs: 500,
  patienceMs: 1_600,
  handMs: 3_600,
  shows: (view) => value(view, GIFT),
  rows: [
    { id: 'left', name: 'Left on the card', total: true, read: (view) => String(value(view, GIFT) ?? 'none') },
    ...SHOPS.map((name, of) => ({ id: `rights-${of}`, name: `${name} may spend`, of, read: (view: MemberView) => view.budgets[GIFT]?.held[of] ?? '0' })),
  ],
  always: [
    LOWEST,
    { id: 'astray', says: 'views in which rights and what is left differ', read: ({ found }) => ({ value: String(found.astray), holds: found.astray === 0 }) },
    VIEWS,
  ],
  deeds: [
    { label: 'Spend 10', act: (company, at) => company.spend(at, GIFT, 10) },
    { label: 'Spend 1', act: (company, at) => company.spend(at, GIFT, 1) },
    { label: 'Pay in 10', act: (company, at) => company.mint(at, GIFT, 10) },
  ],
  says: (event, who) =>
    event.what === 'rights_short'
      ? `${who} refuses ${event.amount}: ${event.here} held here, ${event.elsewhere} elsewhere.`
      : `${who} spends ${event.amount}.`,
  steps: [
    {
      caption: 'Paris sells a gift card of 90, and hands rights on: Quito may spend 30 of it, and Osaka 30.',
      act(company) {
        company.mint(0, GIFT, 90);
        company.grant(0, GIFT, 1, 30);
        company.grant(0, GIFT, 2, 30);
      },
      ms: 2_600,
    },
    {
      caption: 'All three take 10 at the same moment. Each spends its own rights, so nobody asks and nobody waits.',
      act: (company) => SHOPS.forEach((_, at) => company.spend(at, GIFT, 10)),
      ms: 2_600,
    },
    { caption: 'Osaka is cut off.', act: (company) => company.part(2, true), ms: 1_600 },
    {
      caption: 'It sells on, all 20 that it may. Quito takes 10 meanwhile. The two sides see different amounts, and both are safe.',
      act(company) {
        company.spend(2, GIFT, 20);
        company.spend(1, GIFT, 10);
      },
      ms: 3_000,
    },
    {
      caption: 'Osaka wants 10 more. It holds no rights, and can’t reach who does: refused. It says what is held here and what elsewhere.',
      act: (company) => company.spend(2, GIFT, 10),
      ms: 3_200,
    },
    {
      caption: 'The lines are mended. All agree on 30.',
      act: (company) => company.part(2, false),
      ms: 2_600,
    },
    {
      caption: 'Osaka tries again. Now it can ask: rights come over, and it spends 10.',
      act: (company) => company.spend(2, GIFT, 10),
      ms: 3_200,
    },
    {
      caption: 'Quito takes the last 20, wherever the rights to them were: spent to the unit.',
      act: (company) => company.spend(1, GIFT, 20),
      ms: 3_200,
    },
    {
      caption: 'One unit more is refused, at once and for good reason: 0 held here, 0 elsewhere.',
      act: (company) => company.spend(0, GIFT, 1),
      ms: 3_600,
    },
  ],
};

const TILLS = ['Kiosk', 'Café', 'Online'];
const CARD = 'card';
const ACCOUNTS = { [CARD]: 'Customer’s card', shop: 'Shop', cashback: 'Cashback' };

/** A payment, of which a tenth goes to the customer's cashback: one transaction. */
const pay = (company: Company, at: number, sum: number): void =>
  company.transfer(at, CARD, { shop: (sum * 9) / 10, cashback: sum / 10 });

const cashback: MembersScript = {
  id: 'cashback',
  lead: 'A payment takes from the card and adds to the shop and to the customer’s cashback, in one transaction: nobody ever sees the one without the other. So the sum over the three accounts is the same in each view, at each moment.',
  hint: 'Press a till to pay 10 there. Cut one off, pay at both sides, and look for a view with another sum.',
  byHand: 'Now it’s you. Pay at both sides of a cut. Each till sees other amounts, and each sees the same sum.',
  cast: TILLS,
  delayMs: 500,
  patienceMs: 1_600,
  handMs: 3_600,
  shows: (view) => value(view, CARD),
  rows: [
    ...Object.entries(ACCOUNTS).map(([id, name]) => ({ id, name, read: (view: MemberView) => String(amount(view, id)) })),
    { id: 'sum', name: 'Sum', total: true, read: (view) => String(Object.keys(ACCOUNTS).reduce((sum, name) => sum + amount(view, name), 0n)) },
  ],
  always: [
    {
      id: 'sums',
      says: 'is the sum over the accounts, in each view so far. Always',
      read: ({ found }) => ({ value: found.sums.length === 0 ? '–' : found.sums.join(' or '), holds: found.sums.length <= 1 }),
    },
    LOWEST,
    VIEWS,
  ],
  deeds: [
    { label: 'Pay 10', act: (company, at) => pay(company, at, 10) },
    { label: 'Redeem 1', act: (company, at) => company.transfer(at, 'cashback', { shop: 1 }) },
  ],
  says(event, who) {
    const what = event.name === CARD ? event.amount : `${event.amount} of cashback`;
    return event.what === 'rights_short' ? `${who} refuses ${what}: ${event.here} held here, ${event.elsewhere} elsewhere.` : `${who} takes ${what}.`;
  },
  steps: [
    {
      caption: 'A customer’s card holds 100. Each till may take some of it: 40 the kiosk, 30 the café, 30 the online shop.',
      act(company) {
        company.mint(0, CARD, 100);
        company.grant(0, CARD, 1, 30);
        company.grant(0, CARD, 2, 30);
      },
      ms: 2_600,
    },
    {
      caption: 'The café takes 20: 18 for the shop and 2 of cashback, in one transaction. Watch the sum while the news travels.',
      act: (company) => pay(company, 1, 20),
      ms: 2_800,
    },
    { caption: 'The online shop is cut off.', act: (company) => company.part(2, true), ms: 1_600 },
    {
      caption: 'Both sides take payments: 10 at the kiosk, 30 online. The views differ by now, and each adds up to 100.',
      act(company) {
        pay(company, 0, 10);
        pay(company, 2, 30);
      },
      ms: 2_800,
    },
    {
      caption: 'The online shop wants 20 more. It holds no rights to the card any more: refused as a whole. No cashback without a payment.',
      act: (company) => pay(company, 2, 20),
      ms: 3_200,
    },
    {
      caption: 'Mended. Three payments, each whole: 40 left, 54 for the shop, 6 of cashback.',
      act: (company) => company.part(2, false),
      ms: 3_000,
    },
    {
      caption: 'Cashback can be spent like any budget. The café takes all 6, also what the other tills had given. 100 as ever.',
      act: (company) => company.transfer(1, 'cashback', { shop: 6 }),
      ms: 4_000,
    },
  ],
};

const DOORS = ['North', 'East', 'West'];
const VISITORS = 'visitors';
const PRIZE = 25;
const seen = (view: MemberView) => view.sequences[VISITORS];

const visitor: MembersScript = {
  id: 'visitor',
  lead: `Visitors come in by three doors, and the ${PRIZE}th is to win a prize. Two counters that have not heard of each other would both come to ${PRIZE}. A sequence hands each number out at most once in the whole mesh, with nobody in the middle.`,
  hint: 'Press a door, and the next visitor comes in there. Cut doors off, and look for a number that is handed out twice.',
  byHand: 'Now it’s you. Let visitors in on both sides of a cut: a door that has no number left makes them wait.',
  cast: DOORS,
  delayMs: 200,
  patienceMs: 3_000,
  handMs: 4_600,
  shows: (view) => (seen(view) ? BigInt(seen(view)!.issued) : undefined),
  rows: [
    { id: 'issued', name: 'Handed out', total: true, read: (view) => seen(view)?.issued ?? 'none' },
    {
      id: 'held',
      name: 'Held here',
      read(view, at) {
        const own = seen(view)?.held.filter((it) => it.at === at) ?? [];
        return own.map(({ from, to }) => (from === to ? from : `${from}–${to}`)).join(', ') || 'none';
      },
    },
    {
      id: 'watched',
      name: `Number ${PRIZE}`,
      read(view, _, cast) {
        const watched = seen(view)?.watched[0];
        return !watched ? '–' : watched.by === null ? 'open' : cast[watched.by]!;
      },
    },
  ],
  always: [
    { id: 'twice', says: 'numbers handed out twice. Never one', read: ({ found }) => ({ value: String(found.twice), holds: found.twice === 0 }) },
    {
      id: 'prize',
      says: `has number ${PRIZE}. Never two`,
      read({ found }, cast) {
        const winners = found.issued.filter(({ number }) => number === String(PRIZE));
        const value = winners.length === 0 ? 'Nobody yet' : `${winners.length === 1 ? 'One visitor' : winners.length}, at ${winners.map(({ at }) => cast[at]!).join(' and ')},`;
        return { value, holds: winners.length <= 1 };
      },
    },
    { id: 'issued', says: 'visitors have a number', read: ({ found }) => ({ value: String(found.issued.length), holds: found.faults === 0 }) },
  ],
  deeds: [{ label: 'Next visitor', act: (company, at) => company.next(at, VISITORS) }],
  says: (event, who) =>
    event.what === 'handed_out'
      ? `${who} hands out ${event.number}${event.watched ? ': that is the prize!' : '.'}`
      : `${who} has no number, and can’t get one now. Ask again later.`,
  numbers: { watched: PRIZE },
  steps: [
    { caption: `A sequence begins, and number ${PRIZE} is watched: all three doors come to know.`, act: (company) => company.begin(0, VISITORS, PRIZE), ms: 2_000 },
    {
      caption: 'A visitor at each door. Numbers are given to doors in ranges, and used once most members hold that they were given: no disk that is lost can give them again.',
      act: (company) => DOORS.forEach((_, at) => company.next(at, VISITORS)),
      ms: 3_400,
    },
    {
      caption: 'More visitors, most of them at West. Doors keep some numbers at hand, so most visitors don’t wait.',
      act(company) {
        company.next(0, VISITORS);
        company.next(1, VISITORS, 2);
        company.next(2, VISITORS, 4);
      },
      ms: 3_000,
    },
    { caption: 'West is cut off.', act: (company) => company.part(2, true), ms: 1_600 },
    {
      caption: 'Both sides go on. West hands out the two numbers that it holds.',
      act(company) {
        company.next(2, VISITORS, 2);
        company.next(0, VISITORS, 3);
        company.next(1, VISITORS, 2);
      },
      ms: 3_200,
    },
    {
      caption: 'West has none left. Three visitors wait there, and are told to ask again later: better than a number that somebody else may have, too.',
      act: (company) => company.next(2, VISITORS, 3),
      ms: 3_400,
    },
    {
      caption: `North and East go on, and close to ${PRIZE} in short ranges, so that it really is the ${PRIZE}th.`,
      act(company) {
        company.next(0, VISITORS, 3);
        company.next(1, VISITORS, 3);
      },
      ms: 3_600,
    },
    {
      caption: `The prize. ${PRIZE} is kept back for a second, as West might still have lower numbers, and then it goes to one visitor at one door.`,
      act(company) {
        company.next(0, VISITORS, 2);
        company.next(1, VISITORS, 2);
      },
      ms: 4_000,
    },
    {
      caption: `West is back, and hears who won. Its visitors get numbers that nobody had.`,
      act(company) {
        company.part(2, false);
        company.next(2, VISITORS, 3);
      },
      ms: 4_600,
    },
  ],
};

export const SCRIPTS: readonly MembersScript[] = [budget, cashback, visitor];
