// Makes the types of a client of the HTTP interface from what `tallymesh openapi` prints, with a generator
// that knows nothing of this project.
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import openapiTS, { astToString } from 'openapi-typescript';

const folder = new URL('built/', import.meta.url);
const { stdout } = await promisify(execFile)(process.env.TALLYMESH_BIN, ['openapi'], { maxBuffer: 1 << 24 });
mkdirSync(folder, { recursive: true });
writeFileSync(new URL('openapi.json', folder), stdout);
const types = astToString(await openapiTS(JSON.parse(stdout)));
writeFileSync(new URL('openapi.d.ts', folder), types);
