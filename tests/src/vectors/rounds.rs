//! Frames of rounds, and those that must be rejected.

use super::{Vector, digests, frame, full, refused, vector, with};
use tallymesh_core::wire::{Body, Followed, Names, Position, Round};
use tallymesh_core::{Message, WriterId};

/// A round with the message one_add.
fn round(names: impl Fn(&Message) -> Names) -> Vec<u8> {
    let message = full(&with(0x11, &[("a", 5)]));
    frame(Body::Round(Round {
        from: 299,
        to: 300,
        names: names(&message),
        message,
    }))
}

/// Names its writer by the first bits.
fn short(message: &Message) -> Names {
    let only = WriterId::from_bytes([0x11; 16]);
    Names::of(message, 2, |_, _| Some(only), |_| true)
}

/// The frames by which a node tells those that follow it what changed, and they tell it how far they are.
pub(super) fn rounds() -> Vec<Vector> {
    vec![
        vector(
            "round",
            "What changed between the sender's positions 299 and 300: the message one_add.",
            round(|_| Names::default()),
        ),
        vector(
            "round_of_known",
            "The same where the receiver knows the writer: of two writers, its name has the 8 bits 11.",
            round(short),
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
    let round = round(short);
    // The head has twelve bytes, and the first position two. Then come the length, the bits of names, the check, how
    // many writers there are, and twice the name of the only one, with its two clocks.
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
        refused(
            "round_of_long_names",
            "A round with names of 63 bits.",
            "malformed",
            [&round[..15], &[63], &round[16..]].concat(),
        ),
        refused(
            "round_of_no_names",
            "A round with short names, of which there are none.",
            "malformed",
            [&round[..24], &[1, 1], &[0x11; 16], &round[26..]].concat(),
        ),
        refused(
            "round_name_too_great",
            "A round with a name of 8 bits that takes 9.",
            "malformed",
            [&round[..25], &[0x80, 0x04], &round[26..]].concat(),
        ),
        refused(
            "round_names_alike",
            "A round with a name of 8 bits, and in full the id of another writer with this name.",
            "malformed",
            [
                &round[..24],
                &[2],
                &round[25..28],
                &[1],
                &[0x11; 15],
                &[0x12, 0, 1],
                &round[28..],
            ]
            .concat(),
        ),
    ]
}
