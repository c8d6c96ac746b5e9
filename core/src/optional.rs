//! Parts of a layer that a program may lack, and the null object in their place (Woolf 1998).
//!
//! [`Present`] stores a value. [`Absent`] stores nothing, always reads as the empty value, and absorbs
//! writes. Both are an [`Optional`], so code is written once, without a question which of them a program
//! has, and can't write what the program can't store. The features choose one of the two in this file:
//! [`GuestPart`] and [`MemberPart`]. The compiler drops the code for what is absent.
//!
//! # What each program leaves out
//! | program | features | absent |
//! |---|---|---|
//! | the page's first module | none | members at all: records of writers, keyed operations, retirement, rejoining |
//! | the page's second module | `guests` | what only a member does, below |
//! | a node | `members` | nothing |
//!
//! Both modules of a page lack what only a member does:
//!
//! | absent | because |
//! |---|---|
//! | detection of forks | a page has no disk that could be copied, and believes its peers about forks |
//! | status of links | no page asks for it |
//! | snapshots in parts | a page has no store |
//! | pacing of pushes, changes by epoch | a page writes little, and holds few counters |
//! | broadcast | a page has links only |
//! | the scope of peers, the idempotency log | a page is a member of no space, and limits nobody |
//! | details and texts of errors | a page shows codes only |

#![allow(dead_code, reason = "a program has one of the two")]

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;

/// Whether the program can take part in spaces with members, at least as their guest.
pub(crate) const GUESTS: bool = cfg!(feature = "guests");

/// Whether the program may be a member itself.
pub(crate) const MEMBERS: bool = cfg!(feature = "members");

/// A part that only programs with the feature `guests` have.
#[cfg(feature = "guests")]
pub(crate) type GuestPart<T> = Present<T>;
/// A part that only programs with the feature `guests` have.
#[cfg(not(feature = "guests"))]
pub(crate) type GuestPart<T> = Absent<T>;

/// A part that only programs with the feature `members` have.
#[cfg(feature = "members")]
pub(crate) type MemberPart<T> = Present<T>;
/// A part that only programs with the feature `members` have.
#[cfg(not(feature = "members"))]
pub(crate) type MemberPart<T> = Absent<T>;

/// A value that has an empty state.
pub(crate) trait Empty: Sized + 'static {
    /// The empty state.
    const EMPTY: Self;
    /// A reference to it, for a program that stores none.
    const NOTHING: &'static Self;
}

impl<T: 'static> Empty for Option<T> {
    const EMPTY: Option<T> = None;
    const NOTHING: &'static Option<T> = &None;
}

impl Empty for bool {
    const EMPTY: bool = false;
    const NOTHING: &'static bool = &false;
}

impl Empty for u64 {
    const EMPTY: u64 = 0;
    const NOTHING: &'static u64 = &0;
}

impl<T: 'static> Empty for Vec<T> {
    const EMPTY: Vec<T> = Vec::new();
    const NOTHING: &'static Vec<T> = &Vec::new();
}

/// A part that reads as its value, and is written by these methods only.
pub(crate) trait Optional<T: Empty>: Default + Deref<Target = T> {
    /// Whether the program stores it.
    const IS_PRESENT: bool;

    /// The value, to be changed. `None` if the part is absent.
    fn get_mut(&mut self) -> Option<&mut T>;

    /// The value of a part that a test knows to be present.
    #[cfg(test)]
    fn stored(&mut self) -> &mut T {
        self.get_mut().expect("the part is present")
    }

    /// Changes the value, and returns what `change` does. An absent part is not changed.
    #[inline(always)]
    fn update<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        let it = self.get_mut()?;
        Some(change(it))
    }

    /// Replaces the value. An absent part stays empty.
    #[inline(always)]
    fn set(&mut self, value: T) {
        if let Some(it) = self.get_mut() {
            *it = value;
        }
    }

    /// Takes the value, and leaves the empty one.
    #[inline(always)]
    fn take(&mut self) -> T {
        match self.get_mut() {
            Some(it) => core::mem::replace(it, T::EMPTY),
            None => T::EMPTY,
        }
    }
}

/// A part that the program has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Present<T>(T);

impl<T: Empty> Default for Present<T> {
    #[inline(always)]
    fn default() -> Present<T> {
        Present(T::EMPTY)
    }
}

impl<T> Deref for Present<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Empty> Optional<T> for Present<T> {
    const IS_PRESENT: bool = true;

    #[inline(always)]
    fn get_mut(&mut self) -> Option<&mut T> {
        Some(&mut self.0)
    }
}

impl<T: fmt::Debug> fmt::Debug for Present<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The null object: a part that the program lacks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Absent<T>(PhantomData<T>);

impl<T: Empty> Default for Absent<T> {
    #[inline(always)]
    fn default() -> Absent<T> {
        Absent(PhantomData)
    }
}

impl<T: Empty> Deref for Absent<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        T::NOTHING
    }
}

impl<T: Empty> Optional<T> for Absent<T> {
    const IS_PRESENT: bool = false;

    #[inline(always)]
    fn get_mut(&mut self) -> Option<&mut T> {
        None
    }
}

impl<T: Empty + fmt::Debug> fmt::Debug for Absent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(part: &mut impl Optional<Vec<u8>>) -> (Option<u8>, usize, Vec<u8>) {
        part.set(Vec::from([1, 2]));
        let popped = part.update(|it| it.pop()).flatten();
        (popped, part.len(), part.take())
    }

    #[test]
    fn a_part_keeps_what_is_written_and_an_absent_one_stays_empty() {
        let (mut present, mut absent) = (Present::default(), Absent::default());
        assert_eq!(write(&mut present), (Some(2), 1, Vec::from([1])));
        assert_eq!(write(&mut absent), (None, 0, Vec::new()));
        assert!(present.is_empty() && absent.is_empty());
        assert_eq!(size_of::<Absent<Vec<u8>>>(), 0);
    }
}
