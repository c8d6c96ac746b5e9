// Replicas of one process that are linked in memory.
export const DEADLINE_MS = 20_000;

/** Resolves when `holds` does, looking after each change of the replicas. */
export function until(holds, replicas) {
  return new Promise((resolve, reject) => {
    const stops = [];
    const finish = (settle) => {
      clearTimeout(timer);
      for (const stop of stops) stop();
      settle();
    };
    const timer = setTimeout(() => finish(() => reject(new Error('the condition never held'))), DEADLINE_MS);
    const look = () => holds() && finish(resolve);
    for (const replica of replicas) stops.push(replica.subscribe({ prefix: '' }, look));
    look();
  });
}

/** Joins two replicas in memory; `drop` decides which frames get lost. */
export function pair(a, b, drop = () => false) {
  const links = {};
  const errors = [];
  const side = (to) => ({
    send: (frame) => queueMicrotask(() => drop() || links[to].receive(frame)),
    close: (error) => errors.push(error),
  });
  links.a = a.attach(side('b'));
  links.b = b.attach(side('a'));
  return {
    errors,
    cut: () => {
      links.a.close();
      links.b.close();
    },
  };
}
