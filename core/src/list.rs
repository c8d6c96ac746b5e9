//! Lists with room for a given number of values.

use crate::optional::GUESTS;
use alloc::vec::Vec;

/// Returns an empty list with room for `count` values.
///
/// In a page the list grows instead. Growing needs less code, and a page's allocator can mostly extend the
/// list in place.
#[inline(always)]
pub(crate) fn list<T>(count: usize) -> Vec<T> {
    match GUESTS {
        true => Vec::with_capacity(count),
        false => Vec::new(),
    }
}
