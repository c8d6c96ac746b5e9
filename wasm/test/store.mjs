// A store that a test plays: it keeps records in memory, and fails, waits and breaks off as it is told.

/** The logs of one store, over the processes that open it. */
export class PlayedStore {
  kind = 'played';
  /** The records of each log that is there. */
  logs = new Map();
  /** Those of processes that are alive. */
  alive = new Set();
  ownerKey = undefined;
  opened = 0;
  writes = 0;
  /** Offers each process in turn what another one left behind. */
  offers = [];
  /** Called before each write; what it throws, the write does. */
  before = async () => {};

  async open(space) {
    const id = `${space}/${++this.opened}`;
    const left = [...this.logs].filter(([name]) => !this.alive.has(name) && name.startsWith(`${space}/`));
    this.alive.add(id);
    for (const [name] of left) this.alive.add(name);
    const log = {
      write: async (record, whole, taken) => {
        await this.before(record, whole, taken);
        this.writes++;
        this.logs.set(id, [...(whole ? [] : (this.logs.get(id) ?? [])), record]);
        for (const { name } of taken) this.logs.delete(name);
      },
      close: async () => {
        this.alive.delete(id);
        for (const [name] of left) this.alive.delete(name);
      },
      onRemains: (take) => this.offers.push((name) => take({ name, records: this.logs.get(name) })),
    };
    return { log, left: left.map(([name, records]) => ({ name, records })), ...(this.ownerKey && { ownerKey: this.ownerKey }) };
  }

  /** All processes end at once, and say nothing. */
  kill() {
    this.alive.clear();
  }

  /** What is durable now, as another machine would find it. */
  copy() {
    const copy = new PlayedStore();
    copy.logs = new Map([...this.logs].map(([name, records]) => [name, [...records]]));
    copy.opened = this.opened;
    return copy;
  }
}

/** A gate: what waits at it goes on once it is opened. */
export function gate() {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { opened, open };
}
