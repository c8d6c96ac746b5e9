/** Calls a listener; its error is reported as uncaught and stops nobody else. */
export function guarded(call: () => void): void {
  try {
    call();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
