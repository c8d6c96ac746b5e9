/** A `WebAssembly.Module`. Projects for Node alone may have no type for one: then there is none to hand in. */
type CompiledModule = typeof globalThis extends { WebAssembly: { Module: { prototype: infer Module } } } ? Module : never;

/** Where the compiled module can come from. */
export type ModuleSource = string | URL | Request | Response | ArrayBuffer | ArrayBufferView | CompiledModule;
