//! SHA-256 (FIPS 180-4) for browsers: in loops, and with computed constants. A table of the constants would
//! be a quarter of a kilobyte that no compression makes smaller.

/// Adds blocks to the state.
pub(crate) fn compress256(state: &mut [u32; 8], blocks: &[[u8; 64]]) {
    let constants = constants();
    for block in blocks {
        let mut words = [0; 64];
        for (word, bytes) in words.iter_mut().zip(block.as_chunks().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        // The eight words of the state step down: each one becomes the next.
        let mut steps = [0; 72];
        steps[64..].copy_from_slice(state);
        for at in 0..64 {
            if at >= 16 {
                let (far, near) = (words[at - 15], words[at - 2]);
                words[at] = spread(far, 7, 18, far >> 3)
                    .wrapping_add(spread(near, 17, 19, near >> 10))
                    .wrapping_add(words[at - 16])
                    .wrapping_add(words[at - 7]);
            }
            let [next, a, b, c, d, e, f, g, h] = &mut steps[63 - at..][..9] else {
                continue; // there are nine
            };
            let first = spread(*e, 6, 11, e.rotate_right(25))
                .wrapping_add((*e & *f) ^ (!*e & *g))
                .wrapping_add(*h)
                .wrapping_add(constants[at])
                .wrapping_add(words[at]);
            *d = d.wrapping_add(first);
            *next = spread(*a, 2, 13, a.rotate_right(22))
                .wrapping_add((*a & *b) ^ (*a & *c) ^ (*b & *c))
                .wrapping_add(first);
        }
        for (word, more) in state.iter_mut().zip(steps) {
            *word = word.wrapping_add(more);
        }
    }
}

fn spread(word: u32, one: u32, two: u32, rest: u32) -> u32 {
    word.rotate_right(one) ^ word.rotate_right(two) ^ rest
}

/// The first 32 bits behind the point of the cube roots of the first 64 primes.
fn constants() -> [u32; 64] {
    let mut constants = [0; 64];
    let mut number = 1u32;
    for constant in &mut constants {
        let mut divisor = 0;
        while divisor != number {
            number = number.wrapping_add(1);
            divisor = 2;
            while !number.is_multiple_of(divisor) {
                divisor = divisor.wrapping_add(1);
            }
        }
        // Newton's method: twenty steps are more than are needed, and 53 bits are more than these 35.
        let prime = f64::from(number);
        let mut root = prime;
        for _ in 0..20 {
            root -= (root - prime / (root * root)) / 3.0;
        }
        *constant = (root * 4_294_967_296.0) as u64 as u32;
    }
    constants
}
