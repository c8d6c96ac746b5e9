// The state of a space with members, as a member tells it: made by hand, since a page can't be one.

const WRITER = 'c0'.repeat(16);
/** The key of the only member. */
export const OWNER = '0e'.repeat(32);

/** A member's whole state: it added `amount` (below 64) to `likes`, and then closed the space. */
export function closedState(amount) {
  return state(amount, '00'); // nothing beside it
}

/** The same, with a part of 0 that it took over from a writer that is gone. */
export function absorbedState(amount) {
  const fold = ['10', '01', '00', '01']; // at clock 2, of 0, adds
  return state(amount, '01', '00', '00', ...fold);
}

/** As {@link closedState}, of a member that added it to the value of the budget `gift`. */
export function budgetState(amount) {
  return stateOf('\0bvgift', amount, '00');
}

function state(amount, ...sides) {
  return stateOf('likes', amount, ...sides);
}

function stateOf(key, amount, ...sides) {
  const text = (key) => Buffer.from(key).toString('hex');
  const hex = [
    '01', WRITER, '00', '02', // one writer, at clock 2
    '01', '00', key.length.toString(16).padStart(2, '0'), text(key), // one key
    '01', '00', '00', '00', amount.toString(16).padStart(2, '0'), // one column, of one shard
    ...sides,
    '02', '02', // all that is known, two facts
    '00', '00', '01', OWNER, '0a'.repeat(16), '01', // announce
    '06', '00', '01', '00', '01', '01', OWNER, // configuration
  ];
  return new Uint8Array(Buffer.from(hex.join(''), 'hex'));
}
