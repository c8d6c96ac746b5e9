//! Sorting of numbers.

use core::cmp::Ordering;

/// Sorts numbers, of which no two are equal by `order`.
///
/// The standard library makes a copy of its sort for each order. In WebAssembly, which is
/// downloaded, there is this one: whatever is to be sorted there is sorted by its number.
#[cfg_attr(target_family = "wasm", inline(never))]
#[cfg_attr(not(target_family = "wasm"), inline(always))]
pub(crate) fn sort_by(numbers: &mut [u32], order: &dyn Fn(u32, u32) -> Ordering) {
    numbers.sort_unstable_by(|a, b| order(*a, *b));
}
