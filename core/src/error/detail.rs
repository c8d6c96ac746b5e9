//! The details that errors carry beside their codes.

/// The detail of an error beside its code.
///
/// A page shows codes only. In both of its modules the detail is empty, so no code computes, moves or drops
/// it.
#[cfg(feature = "members")]
pub type Detail<T> = T;

/// The detail of an error beside its code: nothing in this program, which shows codes only.
#[cfg(not(feature = "members"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail<T>(core::marker::PhantomData<T>);

#[cfg(not(feature = "members"))]
impl<T> core::fmt::Display for Detail<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("?")
    }
}

/// Makes the detail of an error.
#[cfg(feature = "members")]
#[inline(always)]
pub(crate) fn detail<T>(value: T) -> Detail<T> {
    value
}

/// Makes the detail of an error, which is empty here.
#[cfg(not(feature = "members"))]
#[inline(always)]
pub(crate) fn detail<T>(_: T) -> Detail<T> {
    Detail(core::marker::PhantomData)
}
