//! The common parts of the tests of membership: a space of two members and a guest, and records by hand.

use super::Membership;
use super::writer_state::WriterState;
use crate::indexed_state::State;
use crate::message::records::{
    Ack, Admit, Announce, Configuration, Fence, Leave, MembershipRecord, Owner, Retired, Statement,
};
use crate::optional::Optional;
use crate::replica::Replica;
use crate::replica::collect::tests::space;
use crate::state::page::OWN;
use crate::state::slot::Stamp;
use crate::writer_id::{Space, WriterId};
use alloc::boxed::Box;
use alloc::vec::Vec;

pub(super) const OWNERS: [Owner; 2] = [[1; 32], [2; 32]];
pub(super) const NONCE: [u8; 16] = [7; 16];

pub(super) fn by(writer: u32, clock: u64) -> Stamp {
    Stamp { writer, clock }
}

pub(super) fn admit(turn: u64, by: Stamp) -> Option<Admit> {
    Some(Admit { turn, by })
}

pub(super) fn ack(seen: &[(u32, u64)]) -> Option<Box<Ack>> {
    Some(Box::new(Ack {
        clock: 1,
        want: 0,
        seen: seen.to_vec(),
    }))
}

pub(super) fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

/// A member of two, and the local numbers of the other one and of its own guest.
pub(super) fn member() -> (Replica, u32, u32) {
    let [one, two, tab] = space();
    let number = |of: &Replica| one.state.number_of(&of.writer()).unwrap();
    let (other, guest) = (number(&two), number(&tab));
    (one, other, guest)
}

pub(super) fn writer_state(replica: &mut Replica, number: u32) -> &mut WriterState {
    &mut replica.membership.table_mut().stored().writer_states[number as usize]
}

pub(super) fn left(clock: u64) -> Option<Leave> {
    Some(Leave {
        clock,
        successor: OWN,
    })
}

pub(super) fn dead(by: Stamp) -> Option<Fence> {
    let (turn, successor) = (0, OWN);
    Some(Fence {
        turn,
        by,
        successor,
    })
}

pub(super) fn absorbed() -> Option<Retired> {
    let (to, upto) = (by(OWN, 1), 1);
    Some(Retired { to, upto })
}

/// A state and its membership, of a space that the owner 0 has founded.
pub(super) fn founded() -> (State, Membership) {
    let mut state = State::new(Space::default(), id(1));
    let mut membership = Membership::new();
    membership.found(&mut state, &OWNERS[0], &NONCE, 1).unwrap();
    (state, membership)
}

/// A record about a writer, as it arrives in a message.
pub(super) fn take(
    (state, membership): &mut (State, Membership),
    writer: u32,
    statement: Statement,
) -> bool {
    membership.merge_record(state, &MembershipRecord { writer, statement })
}

/// Adds a member with an incarnation that has this many transactions. Returns its local number.
pub(super) fn second_member(space: &mut (State, Membership), clock: u64) -> u32 {
    let number = space.1.number(&mut space.0, id(2));
    let announce = Announce {
        clock: 1,
        owner: OWNERS[1],
        nonce: NONCE,
        generation: 1,
    };
    take(space, number, Statement::Announce(Box::new(announce)));
    let both = Configuration {
        number: 2,
        members: Vec::from(OWNERS),
        ..space.1.configuration().unwrap().clone()
    };
    assert!(space.1.merge_configuration(&space.0, by(OWN, 1), &both));
    space.0.advance(number as usize, clock);
    number
}
