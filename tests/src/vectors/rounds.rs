//! Frames of rounds, and those that must be rejected.

use super::{Vector, digests, frame, full, refused, vector, with};
use tallymesh_core::wire::{Body, Followed, Position, Round};

/// The frames by which a node tells those that follow it what changed, and they tell it how far they are.
pub(super) fn rounds() -> Vec<Vector> {
    vec![
        vector(
            "round",
            "What changed between the sender's positions 299 and 300: the message one_add.",
            frame(Body::Round(Round {
                from: 299,
                to: 300,
                message: full(&with(0x11, &[("a", 5)])),
            })),
        ),
        vector(
            "position",
            "The sender is at position 300, with the digests of two_writers. All members have seen the first transaction of 11..",
            frame(Body::Position(Position {
                at: 300,
                pull: 0,
                digests: digests(),
                stable: with(0x11, &[("a", 1)]).vector(),
            })),
        ),
        vector(
            "followed",
            "The sender, a guest with 3 transactions of its own, has everything up to position 300.",
            frame(Body::Followed(Followed { at: 300, clock: 3 })),
        ),
    ]
}

/// Frames of rounds that must be rejected.
pub(super) fn refused_rounds() -> Vec<Vector> {
    let round = frame(Body::Round(Round {
        from: 299,
        to: 300,
        message: full(&with(0x11, &[("a", 5)])),
    }));
    // The head has twelve bytes, and the first position two.
    let with_length = |length: &[u8]| [&round[..14], length, &round[15..]].concat();
    let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    vec![
        refused(
            "round_without_length",
            "A round that ends where it begins.",
            "malformed",
            with_length(&[0]),
        ),
        refused(
            "round_too_far",
            "A round to a position over 2^64.",
            "malformed",
            with_length(&most),
        ),
    ]
}
