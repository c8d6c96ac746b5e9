//! The frames of [rounds](crate::sync): changes since a position, where the sender is, and how far its peer has
//! followed.

use super::Digests;
use super::bytes::{Fail, Reader, put_varint};
use super::frame::{put_digests, read_digests};
use super::message::{put_rest, put_vector, read_told_of, read_vector};
use super::names::{Names, put_names, read_names};
use crate::error::Rule;
use crate::message::Message;
use crate::state::vector::VersionVector;
use alloc::vec::Vec;

/// Everything that any writer changed between two positions of the sender.
///
/// A position is a number of the sender's process. It grows with each round that has changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The position at which the round begins. The receiver needs everything up to there.
    pub from: u64,
    /// The position that the receiver has reached with the round.
    pub to: u64,
    /// How the table of the changes names writers.
    pub names: Names,
    /// The changes. Where a round was just read, short names are in the place of ids.
    pub message: Message,
}

/// Where the sender of rounds is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The position.
    pub at: u64,
    /// The number of the pull whose transfer has everything up to the position, or 0.
    pub pull: u32,
    /// The digests of the sender's state. A receiver with the same state has everything, too.
    pub digests: Digests,
    /// The clocks of members' writers up to which the sender may have dropped what all have seen. The receiver may
    /// drop the same once it has everything up to the position.
    pub stable: VersionVector,
}

/// How far a guest has followed the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The receiver's position up to which the sender has everything.
    pub at: u64,
    /// The sender's own clock.
    pub clock: u64,
}

pub(super) fn put_round(out: &mut Vec<u8>, round: &Round) {
    put_varint(out, round.from);
    put_varint(out, round.to - round.from);
    put_names(out, &round.names, &round.message.delta.writers);
    put_rest(out, &round.message);
}

pub(super) fn read_round(reader: &mut Reader<'_>) -> Result<Round, Fail> {
    let from = reader.varint();
    let Some(to) = from.checked_add(reader.varint()).filter(|to| *to > from) else {
        return Err(reader.malformed(Rule::Positions));
    };
    let (names, writers) = read_names(reader)?;
    let message = read_told_of(reader, writers)?;
    Ok(Round {
        from,
        to,
        names,
        message,
    })
}

pub(super) fn put_position(out: &mut Vec<u8>, position: &Position) {
    put_varint(out, position.at);
    put_varint(out, u64::from(position.pull));
    put_digests(out, &position.digests);
    put_vector(out, &position.stable);
}

pub(super) fn read_position(reader: &mut Reader<'_>) -> Result<Position, Fail> {
    Ok(Position {
        at: reader.varint(),
        pull: reader.varint32(),
        digests: read_digests(reader),
        stable: read_vector(reader)?,
    })
}

pub(super) fn put_followed(out: &mut Vec<u8>, followed: &Followed) {
    put_varint(out, followed.at);
    put_varint(out, followed.clock);
}

pub(super) fn read_followed(reader: &mut Reader<'_>) -> Followed {
    Followed {
        at: reader.varint(),
        clock: reader.varint(),
    }
}
