import type { Story } from './story.js';

const TITLES = { budget: 'One budget, spent apart', cashback: 'Cashback', visitor: 'The N-th visitor' };

/** The stories that need members of a space. What they are played by is loaded when the first of them is opened. */
export const MEMBERS: readonly Story[] = Object.entries(TITLES).map(([id, title]) => ({
  id,
  title,
  open: async (hands) => (await import('./members/company.js')).open(id, hands),
}));
