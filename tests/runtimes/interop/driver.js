// A replica that does what a checker asks: the requests of README.md, in any runtime. It is copied into the project
// that has the package, and knows no runtime.

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
const bytes = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** Answers requests with the package; `connect` gives a replica its connection to an address. */
export function makeDriver({ open, TallymeshError }, connect, options = {}) {
  let replica;
  let connection;

  /** What tells which operations are seen here. */
  const position = () => {
    const { writer, clock, vector, faults } = replica.status();
    const told = Object.fromEntries([...vector].map(([id, upto]) => [id, String(upto)]));
    return { writer, clock: String(clock), vector: told, faults };
  };

  const requests = {
    async begin({ node, state }) {
      replica?.free();
      replica = await open(options);
      if (state) replica.merge(bytes(state));
      connection = connect(replica, node);
      return position();
    },
    transact({ ops }) {
      try {
        const results = ops.length === 1 ? [single(replica, operation(ops[0]))] : several(replica, ops.map(operation));
        return { results, ...position() };
      } catch (error) {
        if (!(error instanceof TallymeshError)) throw error;
        return { refused: error.code, ...position() };
      }
    },
    tell({ keys }) {
      const { counters } = replica.toJSON();
      const listed = replica.list().map(([key, value]) => [key, String(value)]);
      return { ...position(), counters, listed, reads: keys.map((key) => reads(replica, key)), state: hex(replica.delta()) };
    },
    async upgrade() {
      await replica.upgrade();
      return {};
    },
    cut() {
      connection.pause();
      return {};
    },
    heal() {
      connection.resume();
      return {};
    },
  };

  /** Answers one request. Nothing happens between what an answer tells: none of it waits but `begin` and `upgrade`. */
  return async (request) => {
    try {
      return await requests[request.do](request);
    } catch (error) {
      return { error: String(error?.stack ?? error) };
    }
  };
}

/** An operation as the package takes it. */
function operation({ by, value, at, ...rest }) {
  return {
    ...rest,
    ...(by !== undefined && { by: amount(by) }),
    ...(value !== undefined && { value: amount(value) }),
    ...(at !== undefined && { at: new Date(Number(at)) }),
  };
}

/** Small amounts cross as numbers, as programs write them; those that a number can't hold do not. */
const amount = (text) => (Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text));

/** Makes an operation by the method of its name. Of those that answer nothing, a read before tells what was there. */
function single(replica, { op, key, by, value, at }) {
  const existed = replica.get(key) !== undefined;
  const told = replica[op](...[key, by ?? value ?? at].filter((given) => given !== undefined));
  return told ?? existed;
}

/** Makes several as one, by a list or by a function. */
function several(replica, operations) {
  if (operations.length % 2 === 0) return replica.transact(operations);
  return replica.transact((transaction) => {
    for (const { op, key, by, value, at } of operations) {
      transaction[op](...[key, by ?? value ?? at].filter((given) => given !== undefined));
    }
  });
}

/** One counter by each way to read it. */
function reads(replica, key) {
  const text = (value) => (value === undefined ? null : String(value));
  const counter = replica.counter(key);
  const told = { get: text(replica.get(key)), handle: text(counter.value), expires_at: text(replica.expiresAt(key)?.getTime()) };
  counter.free();
  return told;
}
