/**
 * Keeps counters in a folder, for Node, Deno and Bun.
 *
 * @module tallymesh/file
 */
export { file } from '../storages/file.js';
