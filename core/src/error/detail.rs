//! The details that errors carry beside their codes.

/// The detail of an error beside its code.
///
/// The module that a page loads first shows codes only. There the detail is empty, so no code computes, moves
/// or drops it.
#[cfg(feature = "guests")]
pub type Detail<T> = T;

/// The detail of an error beside its code: nothing in this program, which shows codes only.
#[cfg(not(feature = "guests"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail<T>(core::marker::PhantomData<T>);

/// Makes the detail of an error.
#[cfg(feature = "guests")]
#[inline(always)]
pub(crate) fn detail<T>(value: T) -> Detail<T> {
    value
}

/// Makes the detail of an error, which is empty here.
#[cfg(not(feature = "guests"))]
#[inline(always)]
pub(crate) fn detail<T>(_: T) -> Detail<T> {
    Detail(core::marker::PhantomData)
}
