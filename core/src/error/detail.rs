//! The details that errors carry beside their codes.

/// The detail of an error beside its code. The module that a page loads first shows codes only: there it is
/// nothing, so that nothing is put together, moved or dropped for it.
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

/// Makes the detail of an error, of which nothing is left.
#[cfg(not(feature = "guests"))]
#[inline(always)]
pub(crate) fn detail<T>(_: T) -> Detail<T> {
    Detail(core::marker::PhantomData)
}
