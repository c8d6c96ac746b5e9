// An edge worker that limits requests (Cloudflare Workers): each client so many in a minute, in the whole mesh, whichever
// place of the edge it comes to.
//
// Try it: a node with a limit,
//   tallymesh up &  tallymesh members init  tallymesh limit set web --limit 100 --period 60s
// and in a Workers project of your own this file as the worker, with its neighbour verdict.js, and as variables NODES,
// the addresses of nodes that are members with a space between them; TICKET, where they ask for one (`tallymesh invite
// --role writer`); LIMIT, the limit's name; and WHEN_UNKNOWN. Nodes beyond loopback are reached by HTTPS.
//
// What is guaranteed: what is allowed of a client in a period adds up to no more than the limit, wherever it asked, while
// nodes are cut off from each other, and when a request to a node is made twice. Over the end of a period it may be twice
// as much in a short time, as with all limits by fixed periods.
//
// What it does not: it does not take the load away that refused requests make here, and it does not wait. A client that
// one node has no more for is refused at once, though others may hold some (`allow` with `waitMs` would ask them). While no
// node answers within 0.7 s, WHEN_UNKNOWN decides: `open`, which it is if nothing is said, lets all through, `closed` none.
import { limits } from 'tallymesh/limits';
import { judge, network } from './verdict.js';

let limiter;

export default {
  async fetch(request, env) {
    // Kept over requests, so that a node that is away is not asked first each time.
    limiter ??= limits({ urls: env.NODES.split(' '), ticket: env.TICKET, timeoutMs: 300, retries: 1, retryMinMs: 10 });
    // Cloudflare says who asks, and lets no client say so.
    const client = network(request.headers.get('cf-connecting-ip') ?? 'nobody');
    const verdict = await judge(limiter, env.LIMIT ?? 'web', client, env.WHEN_UNKNOWN ?? 'open');
    if (!verdict.goesOn) return new Response(verdict.body, verdict);
    const answer = await respond(request, env);
    const limited = new Response(answer.body, answer);
    for (const [name, value] of Object.entries(verdict.headers)) limited.headers.set(name, value);
    return limited;
  },
};

/** What the worker is there for: put yours here, such as `fetch(request)`, which asks the origin. */
async function respond(request) {
  return new Response(`hello from ${new URL(request.url).pathname}\n`);
}
