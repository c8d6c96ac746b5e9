/**
 * Each error of this package, and each replica, has this property: the class `TallymeshError` of the entry that made it.
 * Entries have classes of their own, so that an error of another one is no instance of theirs.
 */
export const ERROR_CLASS: unique symbol = Symbol.for('tallymesh.error');
