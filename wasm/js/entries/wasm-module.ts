// What an import of tallymesh/tallymesh.wasm gives. Bundlers differ, but `init` and `open` take each of these.
import type { ModuleSource } from '../replica/module-source.js';

declare const module: ModuleSource;
export default module;
