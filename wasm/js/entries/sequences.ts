/**
 * Sequences of numbers, each of which is handed out at most once in the whole mesh: asked for at nodes that are members,
 * over HTTP. It needs none of the other entries, and loads no module.
 *
 * @module tallymesh/sequences
 */
export {
  sequences, type Drawn, type DrawOptions, type Gap, type HeldNumbers, type Sequence, type SequenceListOptions, type SequenceReadOptions,
  type Sequences, type SequenceWriteOptions, type WatchedNumber,
} from '../clients/sequences.js';
export { RequestError, type NodesOptions, type RequestOptions } from '../clients/requests.js';
export { TallymeshError } from '../internal/errors.js';
export type { Watching } from '../replica/open-counters.js';
export type { Watched } from '../replica/replica.js';
