//! The received bytes of a session that were not executed yet.

use super::limits::IDLE_BYTES_MAX;

/// Received bytes, and how many of them were executed. They are one value, so that neither exists
/// without the other.
///
/// Always `from <= bytes.len()`. A session that executes these bytes moves the whole value out of
/// itself. Meanwhile it reports that no bytes wait, because the commands are under way.
#[derive(Default)]
pub(super) struct ReceivedBytes {
    bytes: Vec<u8>,
    /// The bytes before this offset were executed.
    from: usize,
}

impl ReceivedBytes {
    /// How many bytes wait.
    pub(super) fn len(&self) -> usize {
        self.rest().len()
    }

    /// Whether no bytes wait.
    pub(super) fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }

    /// The bytes that wait.
    pub(super) fn rest(&self) -> &[u8] {
        self.bytes.get(self.from..).unwrap_or_default()
    }

    /// Adds bytes behind the waiting ones.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Records that so many of the waiting bytes were executed, and returns memory.
    pub(super) fn executed(&mut self, count: usize) {
        self.from = self.from.saturating_add(count).min(self.bytes.len());
        if self.is_empty() {
            self.clear();
        } else if self.from > self.bytes.len() / 2 {
            // The bytes that move are fewer than those executed since the last move.
            self.bytes.drain(..self.from);
            self.from = 0;
        }
    }

    /// Drops all bytes.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.from = 0;
        self.bytes.shrink_to(IDLE_BYTES_MAX);
    }

    /// The memory in use, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_executed_waits_no_more_and_its_memory_comes_back() {
        let mut held = ReceivedBytes::default();
        held.append(b"one two three");
        held.executed(4);
        assert_eq!((held.rest(), held.len()), (&b"two three"[..], 9));
        // After the value was moved out, nothing is left that could disagree.
        let mut taken = std::mem::take(&mut held);
        assert_eq!((held.len(), held.rest()), (0, &b""[..]));
        taken.executed(4);
        assert_eq!((taken.rest(), taken.from), (&b"three"[..], 0), "moved");
        taken.append(&[b'x'; 3 * IDLE_BYTES_MAX]);
        taken.executed(usize::MAX);
        assert!(taken.is_empty() && taken.heap_bytes() <= IDLE_BYTES_MAX);
    }
}
