// What every runtime is asked to do with the budgets of real nodes. It is copied into each project, and knows no runtime.

const DEADLINE_MS = 30_000;

/** Pays in, spends, moves, watches and leases, at nodes that are members; tells what came of it. */
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
  const lease = await shop.lease(key, 10, { ms: 3_600_000, waitMs: 20_000 });
  const left = [lease.spend(4)];
  let short;
  try {
    lease.spend(7);
  } catch (error) {
    short = error;
  }
  // As after a reload.
  const again = shop.resume(JSON.parse(JSON.stringify(lease.state)));
  left.push(again.left, again.spend(1));
  await again.tell();
  await again.end();
  const { value: rest, leased } = await shop.get(key);
  return {
    before: typeof before,
    values: [value, from.value, to[0].value, seen.value].map(String),
    refused: [refused instanceof BudgetError, refused.code, refused.applied, String(here + pending + elsewhere)],
    wrong: [wrong instanceof TallymeshError, wrong.code],
    names,
    lease: [...left, again.untold, rest, leased].map(String),
    short: [short instanceof TallymeshError, short.code, lease.isOver, again.isOver],
    held: String(holders.reduce((sum, { rights }) => sum + rights, 0n)),
  };
}
