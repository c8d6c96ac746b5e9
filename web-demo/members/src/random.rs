use tallymesh_core::SplitMix64;

/// The random choices of a story.
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(SplitMix64::new(seed))
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from `from` to `to`, both included.
    pub(crate) fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.next_u64() % (to - from + 1)
    }

    pub(crate) fn bytes(&mut self) -> [u8; 16] {
        core::array::from_fn(|_| self.next_u64() as u8)
    }
}
