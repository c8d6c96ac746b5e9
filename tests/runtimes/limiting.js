// What every runtime is asked to do with the limits of real nodes. It is copied into each project, and knows no runtime.

/** So long that it does not end while it is looked at. */
const PERIOD_MS = 366 * 86_400_000;

/**
 * Sets a limit, uses all of it at nodes that are members, and takes it away; tells what came of it. A page may use a limit that
 * somebody else has set, and no more.
 */
export async function run({ limits, RequestError, TallymeshError }, { nodes, name }) {
  const limiter = limits(nodes);
  const key = `${name}:ann/ü`;
  const before = await limiter.get(key);
  const set = await limiter.set(name, { limit: 9n, periodMs: PERIOD_MS }).catch((error) => error);
  // A third of it is the node's own; the others lend theirs.
  const first = await limiter.allow(key, 2, { waitMs: 20_000 });
  const most = await limiter.allow(key, 6n, { waitMs: 20_000 });
  const refused = await limiter.allow(key, 2);
  const { begins, ends } = await limiter.get(key);
  const wrong = await limiter.allow(key, 1.5).catch((error) => error);
  const listed = (await limiter.list()).filter((it) => it.name === name);
  const removed = await limiter.remove(name).catch((error) => error);
  const gone = await limiter.allow(key).catch((error) => error);
  return {
    before: typeof before,
    set: set.code ?? [set.name, String(set.limit), set.periodMs],
    allowed: [first.allowed, first.key === key, first.name, String(first.limit), typeof first.left.here, first.retryAfterMs],
    most: most.allowed,
    refused: [refused.allowed, refused.name, String(refused.limit), refused.left.here < 2n, refused.applied],
    waits: refused.retryAfterMs > 0 && refused.retryAfterMs <= PERIOD_MS,
    period: [ends - begins, refused.ends - ends, refused.begins - begins, begins.getTime() % PERIOD_MS],
    wrong: [wrong instanceof TallymeshError, wrong instanceof RequestError, wrong.code],
    listed: listed.map(({ limit, since }) => [String(limit), typeof since]),
    gone: removed?.code ?? [gone instanceof RequestError, gone.code, gone.applied, gone.status],
  };
}
