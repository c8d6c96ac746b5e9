// What the build makes of a module that an entry imports. Those of dist/ are taken into the code; one beside
// the entry stays an import, which workerd answers.
declare module '../../dist/*.wasm' {
  const bytes: Uint8Array<ArrayBuffer>;
  export default bytes;
}

declare module './*.wasm' {
  const module: WebAssembly.Module;
  export default module;
}
