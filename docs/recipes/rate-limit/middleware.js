// Middleware that limits requests: for node:http as it is, and for Express, Connect and others that call
// `(request, response, next)`:
//   app.use(rateLimit({ limiter, name: 'web' }));
//   app.post('/login', rateLimit({ limiter, name: 'login', whenUnknown: 'closed' }), login);
//
// What is guaranteed, and what is not, is told at the top of worker.js: it is the same.
import { judge, network } from './verdict.js';

/**
 * @param options.limiter - of `limits()`.
 * @param options.name - the limit, which somebody has set.
 * @param options.client - tells who asks. Default: the address that the connection comes from. Behind a proxy that is the
 *   proxy's: take what it says (in Express, `request.ip` with `trust proxy`), and from nobody else, or clients make up
 *   addresses.
 * @param options.whenUnknown - whether requests go on that could not be asked for. Default: `open`, they do.
 */
export function rateLimit({ limiter, name, client = addressOf, whenUnknown = 'open' }) {
  return async (request, response, next) => {
    const verdict = await judge(limiter, name, client(request), whenUnknown);
    // Who left meanwhile waits for nothing.
    if (response.destroyed) return;
    for (const [header, value] of Object.entries(verdict.headers)) response.setHeader(header, value);
    if (verdict.goesOn) return next();
    response.statusCode = verdict.status;
    response.end(verdict.body);
  };
}

const addressOf = ({ socket }) => network(socket.remoteAddress ?? 'nobody');
