// Bytes of a hostile peer, against a replica of the package: by `merge()`, on links, and over WebSocket. It is copied
// into the project, and knows no runtime.

const bytes = (hex) => Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16));
const text = (state) => String(state);

/** Attacks with all refusals, and with so many changed messages and frames; tells how often it was refused. */
export async function run({ connect, open, TallymeshError }, { refusals, messages, server, attacks, seed, ...options }) {
  const random = generator(seed);
  const figures = { merged: 0, refused: 0, links: 0, closed: 0, codes: {} };
  const coded = (error) => {
    if (!(error instanceof TallymeshError) || !/^[a-z_]+$/.test(error.code)) throw error;
    return error.code;
  };

  /** One victim of attacks, until one of them turns out to be no lie. */
  const victim = async (members) => {
    const replica = await open({ ...options, members });
    replica.add('mine', 7);
    return { replica, before: text(replica.delta()) };
  };
  const unhurt = ({ replica, before }, what) => {
    if (text(replica.delta()) !== before || replica.get('mine') !== 7n) throw new Error(`${what} changed the replica`);
  };

  for (const members of [false, true]) {
    let target = await victim(members);
    const merge = (attack) => {
      try {
        target.replica.merge(attack);
        return undefined;
      } catch (error) {
        return coded(error);
      }
    };
    for (const { name, hex, refused } of refusals) {
      const code = merge(bytes(hex));
      unhurt(target, name);
      if (code === undefined) throw new Error(`${name} was merged`);
      // Some is wrong for other reasons to who keeps no keys, as no page does.
      const plain = name.startsWith('message_') && !/keyed|keyless|lacking|withdrawal|flags|side/.test(name);
      if (plain && code !== refused) throw new Error(`${name}: ${code}, expected ${refused}`);
    }
    const good = [...messages.map(({ hex }) => bytes(hex)), target.replica.delta()];
    for (let attack = 0; attack < attacks / 2; attack++) {
      const code = merge(mutated(random, good));
      if (code === undefined) {
        figures.merged++;
        target.replica.free();
        target = await victim(members);
      } else {
        figures.refused++;
        unhurt(target, `attack ${attack} of seed ${seed} by merge()`);
      }
    }

    const said = await dialogue(() => open({ ...options, members }));
    for (let attack = 0; attack < attacks / 2; attack++) {
      let reason;
      const link = target.replica.attach({ send: () => {}, close: (error) => (reason = error) });
      if (attack % 2 === 0) link.receive(said[0]);
      link.receive(mutated(random, said));
      link.close();
      figures.links++;
      if (reason) {
        figures.closed++;
        coded(reason);
        unhurt(target, `attack ${attack} of seed ${seed} on a link`);
      } else if (text(target.replica.delta()) !== target.before) {
        target.replica.free();
        target = await victim(members);
      }
    }
    target.replica.free();
  }

  const target = await victim(false);
  for (const { name } of refusals.filter(({ hex }) => hex.startsWith('746d') || hex.startsWith('786d'))) {
    figures.codes[name] = await refusedOver(connect, target.replica, `${server}/${name}`, options);
    unhurt(target, `${name} over WebSocket`);
  }
  target.replica.free();
  return figures;
}

/** With which code the link to a hostile server ends. */
function refusedOver(connect, replica, url, options) {
  return new Promise((resolve) => {
    const connection = connect(replica, url, options);
    connection.subscribe((state) => {
      if (state !== 'waiting') return;
      connection.close();
      resolve(connection.error.code);
    });
  });
}

/** All frames that two replicas say to each other, the first hello first. */
async function dialogue(open) {
  const [a, b] = [await open(), await open()];
  for (let key = 0; key < 20; key++) a.add(`key ${key}`, key);
  b.set('mine', 3);
  const said = [];
  const ends = [];
  const peer = (to) => ({ send: (frame) => said.push([to, frame]), close: () => {} });
  ends.push(a.attach(peer(1)), b.attach(peer(0)));
  for (let at = 0; at < said.length; at++) ends[said[at][0]].receive(said[at][1]);
  a.free();
  b.free();
  return said.map(([, frame]) => frame);
}

/** Some bytes of these, changed a little. */
function mutated(random, from) {
  let out = [...from[random(from.length)]];
  for (let change = 0; change <= random(3); change++) {
    const at = random(out.length + 1);
    const kind = random(5);
    if (kind === 0) out = out.slice(0, at);
    else if (kind === 1) out.splice(at, 0, random(256));
    else if (kind === 2) out.splice(at, random(4));
    else if (kind === 3) out[Math.min(at, out.length - 1)] = random(256);
    else out[Math.min(at, out.length - 1)] ^= 1 << random(8);
  }
  return Uint8Array.from(out);
}

/** Numbers below a bound, by the generator mulberry32. */
function generator(seed) {
  let state = seed;
  return (bound) => {
    state = (state + 0x6d2b79f5) | 0;
    let z = Math.imul(state ^ (state >>> 15), 1 | state);
    z = (z + Math.imul(z ^ (z >>> 7), 61 | z)) ^ z;
    return ((z ^ (z >>> 14)) >>> 0) % bound;
  };
}
