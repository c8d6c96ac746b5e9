import type { Step } from './story.js';
import type { Person, World } from './world.js';

/** One step of a story: what is said, what happens, and how long it is looked at. */
export interface ScriptStep extends Step {
  act(world: World, cast: Record<string, Person>): void;
}

/** A story, as it is written down. */
export interface Script {
  readonly id: string;
  readonly title: string;
  /** What a visitor can try. */
  readonly hint: string;
  /** Who is there when it begins. */
  readonly cast: readonly string[];
  readonly steps: readonly ScriptStep[];
}

const times = (count: number, act: () => void): void => {
  for (let time = 0; time < count; time++) act();
};

/** All stories. */
export const STORIES: readonly Script[] = [
  {
    id: 'partition',
    title: 'Likes in a tunnel',
    hint: 'Press a person to like. Press a line to cut it or to mend it.',
    cast: ['Ada', 'Ben', 'Cleo'],
    steps: [
      {
        caption: 'Ada likes the photo. Her phone counts at once and tells the others.',
        act(world, { Ada }) {
          world.count(Ada!);
          world.tell(Ada!);
        },
      },
      {
        caption: 'Ben’s train enters a tunnel. His lines are cut.',
        act: (world, { Ben }) => world.part([Ben!], true),
        ms: 1_600,
      },
      {
        caption: 'Ben likes it four times all the same. Nobody hears, and nothing stops him.',
        act: (world, { Ben }) =>
          times(4, () => {
            world.count(Ben!);
            world.tell(Ben!);
          }),
      },
      {
        caption: 'Outside, Ada likes it twice more and Cleo once. The two sides now differ.',
        act(world, { Ada, Cleo }) {
          times(2, () => world.count(Ada!));
          world.tell(Ada!);
          world.count(Cleo!);
          world.tell(Cleo!);
        },
      },
      {
        caption: 'Light again. The lines are mended and everybody passes on what they hold: 8, with no like lost and none twice.',
        act(world, { Ada, Ben, Cleo }) {
          world.part([Ben!], false);
          for (const person of [Ada!, Ben!, Cleo!]) world.tell(person);
        },
        ms: 3_600,
      },
    ],
  },
  {
    id: 'retry',
    title: 'The lost answer',
    hint: 'Press a person to count. What crosses a cut line is lost.',
    cast: ['Shop', 'Bank'],
    steps: [
      {
        caption: 'The bank has counted 10 already, and the shop knows it.',
        act(world, { Bank }) {
          world.count(Bank!, 10n);
          world.tell(Bank!);
        },
      },
      {
        caption: 'The shop adds 5 and tells the bank.',
        act(world, { Shop, Bank }) {
          world.count(Shop!, 5n);
          const letter = world.write(Shop!);
          letters.set(world, letter);
          world.post(letter, Bank!, { what: 'add 5' });
        },
      },
      {
        caption: 'The bank has it and answers. The answer gets lost on its way.',
        act: (world, { Shop, Bank }) => world.post(world.write(Bank!), Shop!, { lost: true, what: 'answer' }),
      },
      {
        caption: 'Did it arrive? The shop can’t know, so it sends the very same message again.',
        act: (world, { Bank }) => world.post(letters.get(world)!, Bank!, { what: 'add 5' }),
      },
      {
        caption: 'It counts once: the message says “my total is 5, at tick 1”, and the bank holds that already. The naive counter has added 5 twice.',
        act: (world, { Shop, Bank }) => world.post(world.write(Bank!), Shop!, { what: 'answer' }),
        ms: 3_600,
      },
    ],
  },
  {
    id: 'delete',
    title: 'Delete, and count again',
    hint: 'Press a person to count. Press the line to cut it.',
    cast: ['Ada', 'Ben'],
    steps: [
      {
        caption: 'Ada counts 7 birds. Ben knows.',
        act(world, { Ada }) {
          world.count(Ada!, 7n);
          world.tell(Ada!);
        },
      },
      {
        caption: 'They lose touch.',
        act: (world, { Ada }) => world.part([Ada!], true),
        ms: 1_600,
      },
      {
        caption: 'Ada deletes the counter: a new season. At the same time Ben sees 2 more birds.',
        act(world, { Ada, Ben }) {
          world.delete(Ada!);
          world.tell(Ada!);
          world.count(Ben!, 2n);
          world.tell(Ben!);
        },
      },
      {
        caption: 'In touch again. The delete takes away what Ada had seen, all 7, and spares the 2 that she had not.',
        act(world, { Ada, Ben }) {
          world.part([Ada!], false);
          world.tell(Ada!);
          world.tell(Ben!);
        },
        ms: 3_000,
      },
      {
        caption: 'Ada counts 1 more under the same name. 3 birds, and none of the old ones comes back from the dead.',
        act(world, { Ada }) {
          world.count(Ada!);
          world.tell(Ada!);
        },
        ms: 3_600,
      },
    ],
  },
  {
    id: 'killed',
    title: 'A tab that dies',
    hint: 'Press a tab to count. Tab 1 is gone for good; its count is not.',
    cast: ['Tab 1', 'Tab 2'],
    steps: [
      {
        caption: 'Two tabs count at the same moment: 3 in one, 2 in the other.',
        act(world, { 'Tab 1': one, 'Tab 2': two }) {
          world.count(one!, 3n);
          world.count(two!, 2n);
        },
        ms: 1_600,
      },
      {
        caption: 'They tell each other. Both show 5.',
        act(world, { 'Tab 1': one, 'Tab 2': two }) {
          world.tell(one!);
          world.tell(two!);
        },
      },
      {
        caption: 'Tab 1 crashes, with no goodbye.',
        act: (world, { 'Tab 1': one }) => world.kill(one!),
        ms: 1_800,
      },
      {
        caption: 'Tab 2 counts on, and a third tab opens.',
        act(world, { 'Tab 2': two }) {
          world.join('Tab 3');
          world.count(two!);
          world.tell(two!);
        },
      },
      {
        caption: 'Tab 3 counts once. It has never met Tab 1, and yet its 7 has the 3 of the dead tab in it.',
        act(world, cast) {
          world.count(cast['Tab 3']!);
          world.tell(cast['Tab 3']!);
        },
        ms: 3_600,
      },
    ],
  },
];

/** The letter that is sent again, by world. */
const letters = new WeakMap<World, ReturnType<World['write']>>();
