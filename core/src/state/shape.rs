//! The parts of the state that a small program leaves out.
//!
//! The constants replace conditional compilation: the compiler checks both variants, and drops the one
//! that cannot be reached. A [`Closed`](crate::closed::Closed) field is empty where its constant is false.

/// Whether writers may end. Then local numbers pass from one writer to another, and a slot may have records
/// of an absorbed writer and of withdrawals.
pub(super) const MEMBERS: bool = cfg!(feature = "guests");

/// Whether a merge notes each fork: one clock of one writer with two contents. The greater content stays
/// in either case.
pub(super) const FORKS: bool = cfg!(feature = "members");

/// Whether changes are noted for each counter and for groups of pages. Otherwise each page notes its last
/// change only.
pub(super) const PACED: bool = cfg!(feature = "members");
