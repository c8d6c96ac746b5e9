// An edge worker that counts: a Durable Object (Cloudflare Workers) that holds a replica, keeps it over its eviction,
// answers HTTP, syncs with pages over WebSocket, and with a node by requests.
//
// Try it: a node (`tallymesh up`), and in a Workers project of your own this file as the worker, with
// `"durable_objects": { "bindings": [{ "name": "TALLY", "class_name": "Tally" }] }` and NODE as a variable (LOOK_MS, too,
// if it is to look at the node at other times). Then
//   curl -X POST https://WORKER/likes        adds one, and prints the number: at the edge, whether or not the node answers
//   curl https://WORKER/likes                prints it
//   open({ transports: ['https://WORKER/sync'] })   in a page, syncs with the worker as with a node
//
// What is guaranteed: a number that was answered is durable in the object's storage, and nothing is told to pages or to
// the node before it is. The object may be evicted at any moment: the next request finds all that it had said.
//
// What it does not: in a space with members pages sync with a node, and not with this worker, which is a guest as they
// are: members take in whom they meet themselves. Each start of the object is a writer, which an open space keeps for
// ever (40,000 at most), and one with members takes over. There is one object here, `default`, so all requests go to
// where that one lives: take one for each region (`idFromName(request.cf.colo)`), which are replicas as well, and meet at
// the node. Whoever reaches the worker can count: ask for whatever you trust before `fetch` goes on, and give `post` a
// ticket where the node asks for one.
import { open } from 'tallymesh';
import { durableObject } from 'tallymesh/storage';
import { post } from 'tallymesh/transports';

/** How long after a change the object wakes, so that the node hears of it. */
const LOOK_MS = 30_000;

export class Tally {
  constructor(ctx, env) {
    this.ctx = ctx;
    this.lookMs = Number(env.LOOK_MS ?? LOOK_MS);
    // Requests wait until what was stored is read.
    ctx.blockConcurrencyWhile(async () => {
      const transports = env.NODE ? [post(env.NODE, { intervalMs: 1_000 })] : [];
      this.counters = await open({ storage: durableObject(ctx.storage), transports });
    });
  }

  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (request.headers.get('upgrade') === 'websocket') return this.sync();
    const key = decodeURIComponent(pathname.slice(1));
    try {
      if (request.method === 'POST') this.counters.add(key);
      else if (request.method !== 'GET') return new Response(null, { status: 405, headers: { allow: 'GET, POST' } });
      const value = this.counters.get(key);
      if (request.method === 'POST') await this.kept();
      return value === undefined ? new Response('absent\n', { status: 404 }) : new Response(`${value}\n`);
    } catch (error) {
      if (!error.code) throw error;
      return new Response(`${error.message}\n`, { status: error.code === 'storage_failed' ? 503 : 400 });
    }
  }

  /** Waits until all is durable, and has the object wake, so that the node hears of it also if it is evicted meanwhile. */
  async kept() {
    await this.counters.flush();
    if ((await this.ctx.storage.getAlarm()) === null) await this.ctx.storage.setAlarm(Date.now() + this.lookMs);
  }

  /** The replica syncs with the node as long as the object is awake, and the alarm keeps it so for a while. */
  async alarm() {
    const [node] = this.counters.connections;
    if (!node) return;
    const { storage } = this.counters.status();
    // Again, while there is something that no member of the space is known to hold, or the node is away.
    if (node.state !== 'online' || storage.unacknowledged > 0) await this.ctx.storage.setAlarm(Date.now() + this.lookMs);
    await new Promise((resolve) => setTimeout(resolve, 2_000));
  }

  /** Syncs with a page. */
  sync() {
    const [theirs, ours] = Object.values(new WebSocketPair());
    ours.binaryType = 'arraybuffer';
    ours.accept();
    const link = this.counters.attach({
      send: (frame) => ours.readyState === 1 && ours.send(frame),
      close: ({ message }) => ours.close(1008, message.slice(0, 100)),
    });
    ours.addEventListener('message', ({ data }) => {
      if (typeof data === 'string') return ours.close(1003, 'frames are bytes');
      link.receive(new Uint8Array(data));
    });
    ours.addEventListener('close', () => link.close());
    return new Response(null, { status: 101, webSocket: theirs });
  }
}

export default {
  fetch: (request, env) => env.TALLY.get(env.TALLY.idFromName('default')).fetch(request),
};
