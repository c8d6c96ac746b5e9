// What every runtime is asked to do with the package. It is copied into each project, and knows no runtime.

const DEADLINE_MS = 30_000;

/**
 * Counts with two replicas here, and with a node over WebSocket; tells what came of it. `options` are for
 * `open` and `connect`. Both are connected, because a node takes of a page what its own writer made and no more.
 */
export async function run({ connect, open, TallymeshError }, { node, key, ...options }) {
  const here = await open(options);
  const there = await open(options);
  here.add('likes');
  there.add('likes', 41n);
  here.merge(there.delta());
  const likes = here.get('likes');
  let refused;
  try {
    here.add('');
  } catch (error) {
    refused = error instanceof TallymeshError && error.code;
  }

  here.add(key, 5);
  // This takes the second module.
  const headers = { 'tallymesh-token': await here.token() };
  const connections = [here, there].map((replica) => connect(replica, node, options));
  await Promise.all(connections.map(online));
  // The node answers once it has seen what the token names.
  const answer = await fetch(`${node}/v1/spaces/default/counters/${key}`, { headers });
  const { value } = await answer.json();
  for (const connection of connections) connection.close();
  return { likes: `${typeof likes} ${likes}`, refused, atNode: value };
}

function online(connection) {
  return new Promise((resolve, reject) => {
    const late = () => reject(connection.error ?? new Error(`not online after ${DEADLINE_MS} ms`));
    const timer = setTimeout(late, DEADLINE_MS);
    connection.subscribe((state) => {
      if (state !== 'online') return;
      clearTimeout(timer);
      resolve();
    });
  });
}
