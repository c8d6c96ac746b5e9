// The second module as code: a file of its own, as it is large and mostly not needed.
export { default } from '../../dist/tallymesh-members.wasm';
