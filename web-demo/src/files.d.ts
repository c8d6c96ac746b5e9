// A file beside the script that names it: esbuild gives its address.
declare module '*.wasm' {
  const address: string;
  export default address;
}
