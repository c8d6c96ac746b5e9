// The driver in a page in Firefox; the first argument is the folder of the project. `FIREFOX` names the program.
import process from 'node:process';
import puppeteer from 'puppeteer-core';
import { serve } from '../../e2e/serve.mjs';
import { answerByPage } from './lines.mjs';

const { address, stop } = await serve(process.argv[2]);
const browser = await puppeteer.launch({ browser: 'firefox', executablePath: process.env.FIREFOX, headless: true });
await answerByPage(browser, address, stop);
