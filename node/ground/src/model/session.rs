//! What a session of a client made last, and the rights that its command lacked.

use tallymesh_core::{RightKind, WriterId};

/// The last transaction of a writer in one space that a session made. For a retry, it is the
/// transaction that was made before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastWrite {
    /// The space's number.
    pub space: usize,
    /// The writer that made it.
    pub writer: WriterId,
    /// The writer's clock at that time. A replica with this clock has all earlier ones.
    pub clock: u64,
}

/// The rights of which there were too few.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The budget, or the sequence of numbers.
    pub name: String,
    /// Rights or room; `None` for a sequence.
    pub kind: Option<RightKind>,
    /// The amount that this node needs.
    pub amount: u64,
}
