//! A number for each writer, by local number: of all writers, or of those few that differ.
//!
//! A space may have tens of thousands of writers, and a message of few changes names few of them. So to
//! build it must not take room or time for each writer.

#[cfg(feature = "members")]
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The entry of a writer in a list that ascends by number, such as its clock. 0 if it is not there.
pub(crate) fn of(seen: &[(u32, u64)], writer: u32) -> u64 {
    match seen.binary_search_by_key(&writer, |entry| entry.0) {
        Ok(at) => seen[at].1,
        Err(_) => 0,
    }
}

/// A number for each writer.
pub(crate) trait Sheet<T: Copy> {
    /// Another sheet of the same kind.
    type Like<U: Copy + 'static>: Sheet<U>;
    /// Another sheet of the same kind, for so many writers, with the same number for all of them.
    fn like<U: Copy + 'static>(&self, writers: usize, each: U) -> Self::Like<U>;
    /// The number of one writer.
    fn at(&self, writer: u32) -> T;
    /// Sets the number of one writer.
    fn set(&mut self, writer: u32, number: T);
    /// How many writers have numbers, where there are so many writers in all.
    #[cfg(feature = "members")]
    fn writers(&self, all: usize) -> u32;
    /// The writers whose numbers were set, ascending. `None` for a kind that does not store which ones were.
    fn few(&self) -> Option<Vec<u32>>;
}

impl<T: Copy> Sheet<T> for Vec<T> {
    type Like<U: Copy + 'static> = Vec<U>;

    #[inline(always)]
    fn like<U: Copy + 'static>(&self, writers: usize, each: U) -> Vec<U> {
        alloc::vec![each; writers]
    }

    #[inline(always)]
    fn at(&self, writer: u32) -> T {
        self[writer as usize]
    }

    #[inline(always)]
    fn set(&mut self, writer: u32, number: T) {
        self[writer as usize] = number;
    }

    #[cfg(feature = "members")]
    #[inline(always)]
    fn writers(&self, _: usize) -> u32 {
        self.len() as u32
    }

    #[inline(always)]
    fn few(&self) -> Option<Vec<u32>> {
        None
    }
}

/// A sheet in which few numbers differ from the others.
#[cfg(feature = "members")]
pub(crate) struct Few<'a, T> {
    others: Others<'a, T>,
    few: BTreeMap<u32, T>,
}

/// The numbers of the writers that were not set.
#[cfg(feature = "members")]
enum Others<'a, T> {
    Each(T),
    As(&'a [T]),
}

#[cfg(feature = "members")]
impl<'a, T: Copy> Few<'a, T> {
    /// A sheet with the same number for all writers.
    pub(crate) fn each(number: T) -> Few<'a, T> {
        let (others, few) = (Others::Each(number), BTreeMap::new());
        Few { others, few }
    }

    /// A sheet with the same numbers as these.
    pub(crate) fn as_in(numbers: &'a [T]) -> Few<'a, T> {
        let (others, few) = (Others::As(numbers), BTreeMap::new());
        Few { others, few }
    }
}

#[cfg(feature = "members")]
impl<'a, T: Copy> Sheet<T> for Few<'a, T> {
    type Like<U: Copy + 'static> = Few<'static, U>;

    fn like<U: Copy + 'static>(&self, _: usize, each: U) -> Few<'static, U> {
        Few::each(each)
    }

    fn at(&self, writer: u32) -> T {
        match (self.few.get(&writer), &self.others) {
            (Some(number), _) => *number,
            (None, Others::Each(number)) => *number,
            (None, Others::As(numbers)) => numbers[writer as usize],
        }
    }

    fn set(&mut self, writer: u32, number: T) {
        self.few.insert(writer, number);
    }

    fn writers(&self, all: usize) -> u32 {
        all as u32
    }

    fn few(&self) -> Option<Vec<u32>> {
        Some(self.few.keys().copied().collect())
    }
}
