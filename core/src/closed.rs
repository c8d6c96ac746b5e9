//! Fields that a small program leaves out.
//!
//! A program without the feature `guests` speaks in spaces without members only, and has no use for
//! them.

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

/// A field that a program without the feature `guests` leaves out.
///
/// The field is always empty there. The program neither stores, copies nor drops it, which spares a page
/// the code for that. A write to it panics there, so a constant guards each write.
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
