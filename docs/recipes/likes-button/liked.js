// Whether this browser likes something, as far as it remembers; one that allows no storage forgets.

/** Reads it. */
export function isLiked(key) {
  try {
    return localStorage.getItem(`liked:${key}`) === 'yes';
  } catch {
    return false;
  }
}

/**
 * Remembers it. To be called while the page is connected: a like that was counted offline is gone with its page, and
 * must not be remembered then.
 */
export function rememberLiked(key, liked) {
  try {
    if (liked) localStorage.setItem(`liked:${key}`, 'yes');
    else localStorage.removeItem(`liked:${key}`);
  } catch {
    // It counts all the same.
  }
}

/** What is told of the connection, by its state. */
export function told(state) {
  if (state === 'online') return 'Everybody sees this number.';
  return 'Not connected: what you like is kept in this page, and sent later.';
}
