// An HTTP server that limits requests, with node:http and nothing else.
//
// Try it: a node with a limit, as worker.js tells, and
//   NODES=http://127.0.0.1:4280 LIMIT=web node rate-limit/server.js
// TICKET and WHEN_UNKNOWN are as there. The same by another framework: middleware.js.
import { createServer } from 'node:http';
import { limits } from 'tallymesh/limits';
import { rateLimit } from './middleware.js';

const { NODES = 'http://127.0.0.1:4280', TICKET, LIMIT = 'web', WHEN_UNKNOWN = 'open', PORT = '8080' } = process.env;

// Nobody waits long for a limit: within 0.7 s it is known that no node answers.
const limiter = limits({ urls: NODES.split(' '), ticket: TICKET, timeoutMs: 300, retries: 1, retryMinMs: 10 });
const limited = rateLimit({ limiter, name: LIMIT, whenUnknown: WHEN_UNKNOWN });

const server = createServer((request, response) =>
  limited(request, response, () => {
    response.end(`hello from ${request.url}\n`);
  }),
);
server.listen(Number(PORT), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
