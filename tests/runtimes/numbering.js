// What every runtime is asked to do with the sequences of real nodes. It is copied into each project, and knows no runtime.

const DEADLINE_MS = 30_000;

/** Begins a sequence at nodes that are members, draws, and watches a number; tells what came of it. */
export async function run({ sequences, RequestError, TallymeshError }, { nodes, key }) {
  const shop = sequences(nodes);
  const changes = shop.changes(key, { signal: AbortSignal.timeout(DEADLINE_MS) });
  const { value: before } = await changes.next();
  const begun = await shop.begin(key, { level: 'quorum', levelWaitMs: 20_000 });
  const again = await shop.begin(key).catch((error) => error);
  await shop.watch(key, 3n);
  const drawn = [];
  for (let count = 0; count < 3; count++) drawn.push(await shop.next(key, { waitMs: 20_000 }));
  let seen;
  for await (const sequence of changes) if ((seen = sequence?.watched[0])?.state === 'handed_out') break;
  const ended = await shop.unwatch(key, 3);
  const wrong = await shop.watch(key, 0).catch((error) => error);
  const none = await shop.next(`${key}:none`).catch((error) => error);
  const names = [];
  for await (const { key: name, next } of shop.list(key)) names.push([name.slice(key.length), typeof next]);
  const { issued, lost } = await shop.get(key);
  return {
    before: typeof before,
    begun: [begun.key === key, String(begun.next), String(begun.issued), begun.held.length],
    again: [again instanceof RequestError, again.code, again.applied],
    drawn: drawn.map(({ number, watched, lost }) => [String(number), watched, lost]),
    seen: [String(seen.number), String(seen.below), seen.own],
    ended: ended.watched.length,
    wrong: [wrong instanceof TallymeshError, wrong instanceof RequestError, wrong.code],
    none: [none.code, none.applied, typeof (await shop.get(`${key}:none`))],
    names,
    known: [String(issued), String(lost)],
  };
}
