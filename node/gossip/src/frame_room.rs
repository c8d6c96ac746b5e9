//! The memory for large frames in transfer over libp2p, and the share of each peer.
//!
//! One ticket, or one peer without a ticket, may use a quarter of it. All guests together may use
//! half, and all newcomers a sixteenth. So frames that are sent slowly on purpose leave room for
//! those of members.

use super::connection_policy::{Class, Classes};
use libp2p::PeerId;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tallymesh_node_engine::access::TicketId;

/// The ticket or the peer that a large frame is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Payer {
    Ticket(TicketId),
    Peer(PeerId),
}

/// The memory, shared by all connections.
#[derive(Clone)]
pub(super) struct FrameRoom {
    /// Its size in bytes.
    all: usize,
    /// The smallest share, in which a whole frame fits.
    least: usize,
    classes: Classes,
    taken: Arc<Mutex<Taken>>,
    /// The peer whose connection is being made.
    arriving: Arc<Mutex<Option<PeerId>>>,
}

/// The bytes in use.
#[derive(Default)]
struct Taken {
    all: usize,
    guests: usize,
    newcomers: usize,
    payers: HashMap<Payer, usize>,
}

/// The bytes of one large frame, which are released when this is dropped.
#[derive(Debug)]
pub(super) struct Room {
    of: FrameRoom,
    class: Class,
    payer: Payer,
    bytes: usize,
}

impl fmt::Debug for FrameRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameRoom").finish_non_exhaustive()
    }
}

impl FrameRoom {
    /// `all` bytes of memory, and the longest frame.
    pub(super) fn new(all: usize, frame_bytes_max: usize, classes: Classes) -> FrameRoom {
        FrameRoom {
            all,
            least: frame_bytes_max,
            classes,
            taken: Arc::default(),
            arriving: Arc::default(),
        }
    }

    /// The peer whose connection is being made, if there is one.
    pub(super) fn arriving(&self) -> Option<PeerId> {
        *self.arriving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the peer whose connection is being made; `None` after that.
    pub(super) fn arrives(&self, peer: Option<PeerId>) {
        *self.arriving.lock().unwrap_or_else(PoisonError::into_inner) = peer;
    }

    /// The room of a large frame from a peer, which is still empty.
    pub(super) fn of(&self, peer: PeerId) -> Room {
        let class = (self.classes)(&peer);
        Room {
            of: self.clone(),
            class,
            payer: match class {
                Class::Guest(ticket) => Payer::Ticket(ticket),
                Class::Newcomer | Class::Trusted => Payer::Peer(peer),
            },
            bytes: 0,
        }
    }

    /// A part of the memory, but at least the size of a whole frame.
    fn part(&self, divisor: usize) -> usize {
        (self.all / divisor).max(self.least).min(self.all)
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // No code panics while it has the lock.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room {
    /// Takes more bytes. Returns false if the peer may not have them.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let of = &self.of;
        let mut taken = of.taken();
        let own = taken.payers.get(&self.payer).copied().unwrap_or(0);
        let of_class = match self.class {
            Class::Newcomer => taken.newcomers.saturating_add(bytes) <= of.part(16),
            Class::Guest(_) => taken.guests.saturating_add(bytes) <= of.part(2),
            Class::Trusted => true,
        };
        let fits = of_class
            && own.saturating_add(bytes) <= of.part(4)
            && taken.all.saturating_add(bytes) <= of.all;
        if fits {
            taken.change(self.class, self.payer, |sum| sum + bytes);
            self.bytes += bytes;
        }
        fits
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut taken = self.of.taken();
        taken.change(self.class, self.payer, |sum| sum - self.bytes);
    }
}

impl Taken {
    /// Changes all sums in which these bytes count.
    fn change(&mut self, class: Class, payer: Payer, to: impl Fn(usize) -> usize) {
        self.all = to(self.all);
        match class {
            Class::Newcomer => self.newcomers = to(self.newcomers),
            Class::Guest(_) => self.guests = to(self.guests),
            Class::Trusted => {}
        }
        let own = self.payers.entry(payer).or_default();
        *own = to(*own);
        if *own == 0 {
            self.payers.remove(&payer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// A room of 16 MiB for frames of at most 1 MiB, and peers of each class.
    fn room(ticket_of: &[(PeerId, u8)], members: &[PeerId]) -> FrameRoom {
        let (ticket_of, members) = (ticket_of.to_vec(), members.to_vec());
        let classes: Classes = Arc::new(move |peer: &PeerId| {
            let guest = ticket_of.iter().find(|(guest, _)| guest == peer);
            match guest {
                Some((_, ticket)) => Class::Guest(TicketId::new([*ticket; 16])),
                None if members.contains(peer) => Class::Trusted,
                None => Class::Newcomer,
            }
        });
        FrameRoom::new(16 * MIB, MIB, classes)
    }

    /// Takes one MiB at a time for a peer until that is refused.
    fn fill(room: &FrameRoom, peer: PeerId) -> Vec<Room> {
        let mut held = Vec::new();
        loop {
            let mut one = room.of(peer);
            if !one.grow(MIB) {
                return held;
            }
            held.push(one);
        }
    }

    #[test]
    fn slow_frames_of_others_leave_room_for_members() {
        let peers: Vec<PeerId> = (0..10).map(|_| PeerId::random()).collect();
        let guests = [(peers[0], 1), (peers[1], 1), (peers[2], 2), (peers[3], 3)];
        let room = room(&guests, &peers[4..6]);
        let newcomers: Vec<_> = peers[6..].iter().map(|peer| fill(&room, *peer)).collect();
        assert_eq!(newcomers.iter().map(Vec::len).sum::<usize>(), 1, "a frame");
        let one = fill(&room, peers[0]);
        assert_eq!(one.len(), 4, "a quarter");
        assert_eq!(fill(&room, peers[1]).len(), 0, "by the same ticket");
        let two = fill(&room, peers[2]);
        assert_eq!(two.len(), 4);
        assert_eq!(fill(&room, peers[3]).len(), 0, "half for all guests");
        let member = fill(&room, peers[4]);
        assert_eq!(member.len(), 4, "a quarter");
        let other = fill(&room, peers[5]);
        assert_eq!(other.len(), 3, "all of it");
        drop((one, two, member, other, newcomers));
        assert_eq!(room.taken().all, 0);
        assert!(room.taken().payers.is_empty());
        assert_eq!(fill(&room, peers[4]).len(), 4, "there is room again");
    }

    #[test]
    fn a_frame_finds_room_where_a_share_is_less_than_one() {
        let peer = PeerId::random();
        let classes: Classes = Arc::new(|_| Class::Newcomer);
        let room = FrameRoom::new(3 * MIB, 2 * MIB, classes.clone());
        assert!(room.of(peer).grow(2 * MIB));
        assert!(!room.of(peer).grow(2 * MIB + 1));
        let none = FrameRoom::new(0, 2 * MIB, classes);
        assert!(!none.of(peer).grow(1));
    }
}
