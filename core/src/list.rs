//! Lists that are made for so many things.

use alloc::vec::Vec;

/// Whether lists get room for all that they are to have before it is put in. Where not, they grow: that
/// is less code, and the allocator of a page finds the room for it in place mostly.
const ROOMY: bool = cfg!(feature = "guests");

/// An empty list that so many are to be put into.
#[inline(always)]
pub(crate) fn list<T>(count: usize) -> Vec<T> {
    match ROOMY {
        true => Vec::with_capacity(count),
        false => Vec::new(),
    }
}
