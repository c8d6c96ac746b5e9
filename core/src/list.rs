//! Lists that are made for so many things.

use crate::layers::GUESTS;
use alloc::vec::Vec;

/// An empty list with room for `count` values. In a page it grows instead: that is less code, and the
/// allocator of a page finds the room for it in place mostly.
#[inline(always)]
pub(crate) fn list<T>(count: usize) -> Vec<T> {
    match GUESTS {
        true => Vec::with_capacity(count),
        false => Vec::new(),
    }
}
