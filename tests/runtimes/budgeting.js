// What every runtime is asked to do with the budgets of real nodes. It is copied into each project, and knows no runtime.

const DEADLINE_MS = 30_000;

/** Pays in, spends, moves and watches, at nodes that are members; tells what came of it. */
export async function run({ budgets, BudgetError, TallymeshError }, { nodes, key }) {
  const shop = budgets(nodes);
  const watch = shop.watch(key, { signal: AbortSignal.timeout(DEADLINE_MS) });
  const { value: before } = await watch.next();
  await shop.mint(key, 100n);
  // What came in under a key is pending until all members know of it.
  const { value } = await shop.spend(key, 40, { waitMs: 20_000, level: 'quorum', levelWaitMs: 20_000 });
  const { from, to } = await shop.transfer(key, { [`${key}:cashback`]: 2 }, { waitMs: 20_000 });
  const refused = await shop.spend(key, 1_000).catch((error) => error);
  const { here, pending, elsewhere } = refused.held;
  const wrong = await shop.spend(key, 1.5).catch((error) => error);
  const names = [];
  for await (const budget of shop.list(key)) names.push(budget.key.slice(key.length));
  const { holders } = await shop.get(key);
  let seen;
  for await (seen of watch) if (seen.value === 58n) break;
  return {
    before: typeof before,
    values: [value, from.value, to[0].value, seen.value].map(String),
    refused: [refused instanceof BudgetError, refused.code, refused.applied, String(here + pending + elsewhere)],
    wrong: [wrong instanceof TallymeshError, wrong.code],
    names,
    held: String(holders.reduce((sum, { rights }) => sum + rights, 0n)),
  };
}
