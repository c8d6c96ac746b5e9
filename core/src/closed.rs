//! State that only spaces with members have.

use alloc::vec::Vec;
use core::fmt;
#[cfg(not(feature = "guests"))]
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

/// A value that has an empty state.
pub(crate) trait Empty: Sized + 'static {
    /// The empty state.
    const EMPTY: Self;
    /// A reference to it, for a program that stores none.
    #[cfg_attr(feature = "guests", allow(dead_code))]
    const NOTHING: &'static Self;
}

impl<T: 'static> Empty for Option<T> {
    const EMPTY: Option<T> = None;
    const NOTHING: &'static Option<T> = &None;
}

impl Empty for u64 {
    const EMPTY: u64 = 0;
    const NOTHING: &'static u64 = &0;
}

impl<T: 'static> Empty for Vec<T> {
    const EMPTY: Vec<T> = Vec::new();
    const NOTHING: &'static Vec<T> = &Vec::new();
}

/// What only spaces with members fill.
///
/// A program without them holds nothing of it: there it reads as empty, and is neither stored,
/// copied nor dropped, which spares a page the code for that. It must not be written there.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Closed<T>(
    #[cfg(feature = "guests")] T,
    #[cfg(not(feature = "guests"))] PhantomData<T>,
);

impl<T: Empty> Default for Closed<T> {
    fn default() -> Closed<T> {
        #[cfg(feature = "guests")]
        return Closed(T::EMPTY);
        #[cfg(not(feature = "guests"))]
        return Closed(PhantomData);
    }
}

#[cfg(feature = "guests")]
impl<T: Empty> Deref for Closed<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

#[cfg(feature = "guests")]
impl<T: Empty> DerefMut for Closed<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

#[cfg(not(feature = "guests"))]
impl<T: Empty> Deref for Closed<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        T::NOTHING
    }
}

#[cfg(not(feature = "guests"))]
impl<T: Empty> DerefMut for Closed<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        unreachable!("a program without members writes what only they have")
    }
}

impl<T: Empty + fmt::Debug> fmt::Debug for Closed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
