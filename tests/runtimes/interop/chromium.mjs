// The driver in a page in Chromium; the first argument is the folder of the project. `CHROME` names the program.
import process from 'node:process';
import { launch } from '../../e2e/browser.mjs';
import { serve } from '../../e2e/serve.mjs';
import { answerByPage } from './lines.mjs';

const { address, stop } = await serve(process.argv[2]);
await answerByPage(await launch(), address, stop);
