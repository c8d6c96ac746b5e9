// The network between pages and a node, which a test can take away: a proxy on loopback.
import { connect, createServer } from 'node:net';

/** Opens a way to an address such as a node's; returns its own address, and what cuts it, heals it, moves it and ends it. */
export async function gate(to) {
  const sockets = new Set();
  let whole = true;
  const server = createServer((near) => {
    if (!whole) return near.destroy();
    const { hostname, port } = new URL(to);
    const far = connect(Number(port), hostname);
    for (const [socket, other] of [[near, far], [far, near]]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cut = () => {
    whole = false;
    for (const socket of sockets) socket.destroy();
  };
  return {
    address: `http://127.0.0.1:${server.address().port}`,
    cut,
    heal: () => (whole = true),
    move: (address) => (to = address),
    stop: () => {
      cut();
      server.close();
    },
  };
}
