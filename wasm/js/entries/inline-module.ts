// The first module as code, for Node: a file that its ES modules and its CommonJS share.
export { default } from '../../dist/tallymesh.wasm';
