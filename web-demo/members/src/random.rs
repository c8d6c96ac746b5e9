/// SplitMix64 (Steele, Lea, Flood 2014): a generator whose whole state is one number.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `from` to `to`, both included.
    pub(crate) fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.next_u64() % (to - from + 1)
    }

    pub(crate) fn bytes(&mut self) -> [u8; 16] {
        core::array::from_fn(|_| self.next_u64() as u8)
    }
}
