// The driver in a Durable Object, which is asked by requests and syncs by requests. It is copied into the project.
import { open, TallymeshError } from 'tallymesh/slim';
import { post } from 'tallymesh/transports';
import module from './tallymesh.wasm';
import membersModule from './tallymesh-members.wasm';
import { makeDriver } from './driver.js';

const pace = { intervalMs: 20, intervalMaxMs: 100, retryMinMs: 20, retryMaxMs: 200 };

export class Holder {
  #context;
  #ask = makeDriver({ open, TallymeshError }, (replica, node) => post(node, pace)(replica), { module, membersModule });

  constructor(context) {
    this.#context = context;
  }

  async fetch(request) {
    const asked = await request.json();
    // What was in memory is gone, as when the object is evicted.
    if (asked.do === 'reload') this.#context.abort('reload');
    return Response.json(await this.#ask(asked));
  }
}

export default {
  fetch: (request, { HOLDER }) => HOLDER.get(HOLDER.idFromName('one')).fetch(request),
};
