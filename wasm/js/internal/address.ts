/** Where something is at a node, if there is such a place: `path`, unless the address has a path of its own. */
export function address(given: string | URL, path: string): string | undefined {
  let url: URL;
  try {
    url = new URL(given);
  } catch {
    return undefined;
  }
  if (!/^(http|ws)s?:$/.test(url.protocol)) return undefined;
  url.protocol = url.protocol.replace('ws', 'http');
  if (url.pathname === '/') url.pathname = path;
  url.hash = '';
  return url.href;
}
