const DEADLINE_MS = 30_000;
const LOOK_MS = 20;

/** Waits until `look` gives something true, and returns it; fails after half a minute, if nothing else is said. */
export async function until(what, look, deadlineMs = DEADLINE_MS) {
  const end = performance.now() + deadlineMs;
  for (;;) {
    const seen = await look();
    if (seen) return seen;
    if (performance.now() > end) throw new Error(`waited ${deadlineMs} ms in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}
