//! Snapshots in parts: a whole state that a store writes bit by bit, while local writes and merges
//! go on, and takes back.

use super::{Replica, Walk};
use crate::error::{Error, Rule};
use crate::membership::admission::Forgotten;
use crate::message::Message;
use crate::state::delta::Entry;
use crate::state::join::Found;
use crate::state::vector::VersionVector;
use crate::writer_id::{Space, WriterId};
use alloc::vec::Vec;

/// How often the parts may double: then they are as large as any state.
const DOUBLINGS_MAX: u32 = 31;
/// Most counters for which memory is set aside before they are there: some 300 MB.
const ROOM_MAX: usize = 1 << 24;

/// A snapshot that is being written: where it stands. It belongs to the replica that
/// [began](Snapshot::begin) it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// `None` once it is finished or void.
    walk: Option<Walk>,
}

/// A part of a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// One of several; there are more.
    More(Message),
    /// The last one. The parts up to it are the state of the moment at which it was made.
    Last(Message),
    /// There is no part: the snapshot was finished before, or something happened that the parts
    /// made so far can't tell. They mean nothing then, and the snapshot is to be begun again.
    Void,
}

impl Snapshot {
    /// Begins a [`snapshot`](Replica::snapshot) of a replica that is made in parts, so that it holds up nothing
    /// for long. Between two parts anything may be done here.
    pub fn begin(replica: &Replica) -> Snapshot {
        Snapshot {
            walk: Some(Walk::new(replica, &VersionVector::default(), true)),
        }
    }

    /// The next part of a snapshot, of about `bytes_target` bytes as estimated before encoding.
    ///
    /// What changes meanwhile is told once more, in further walks over what is new, each with parts
    /// twice as large as the one before, so that it comes to an end however much is written. Only a
    /// collection, a state that takes the place of all that was held, another writer id, or a writer
    /// that was found forked makes a snapshot [`Void`](Part::Void). A [collection](crate::MembersMut::collect)
    /// is put off by giving it a mark of nothing.
    ///
    /// The parts are to be [restored](Restoring) in order, and after them what
    /// [`since`](Replica::since) gives from the [`mark`](Replica::mark) on that is made directly
    /// after the last part.
    pub fn step(&mut self, replica: &Replica, bytes_target: usize) -> Part {
        let walk = self.walk.take();
        let Some(walk) = walk.filter(|walk| !walk.is_void(replica)) else {
            return Part::Void;
        };
        let larger = 1 << walk.number().min(DOUBLINGS_MAX);
        let budget = bytes_target.max(1).saturating_mul(larger);
        let (mut message, next) = walk.step(replica, &VersionVector::default(), budget);
        self.walk = next;
        if self.walk.is_some() {
            return Part::More(message);
        }
        replica.tell_store(&mut message);
        Part::Last(message)
    }
}

/// A replica that takes the parts of a finished snapshot back, one by one.
///
/// It becomes a replica only with the last part: one that was not restored to the end is never seen.
pub struct Restoring {
    replica: Replica,
    /// Counters with more than rows, which are normalized when all is there.
    odd: Vec<u32>,
    /// Up to which clocks the parts tell of their writers, by local number.
    told: Vec<u64>,
}

impl Restoring {
    /// Begins with nothing. `writer` must be freshly [minted](WriterId::mint), as for
    /// [`Replica::new`].
    pub fn new(space: Space, writer: WriterId) -> Restoring {
        Restoring {
            replica: Replica::new(space, writer),
            odd: Vec::new(),
            told: Vec::from([0]),
        }
    }

    /// Sets memory aside for so many counters, which halves the time that it takes to take them back.
    /// More or fewer may come.
    pub fn with_room(mut self, counters: usize) -> Restoring {
        self.replica.state.keys.reserve(counters.min(ROOM_MAX));
        self
    }

    /// Takes the next part, which is not the last one. Whoever stores parts has to see to it that
    /// none is left out.
    ///
    /// # Errors
    /// [`Error::CountersFull`], as for [`Replica::restore`].
    pub fn take(mut self, part: &Message) -> Result<Restoring, Error> {
        let replica = &mut self.replica;
        replica.state.room_for_keys(&part.delta, true)?;
        let mut ignore = |_| ();
        let mut found = Found::new(true, &mut ignore);
        found.odd = self.odd;
        replica.install(part, &Forgotten::default(), &mut found)?;
        self.odd = found.odd;
        replica.idempotency.take_keyed(
            &mut replica.state,
            &mut replica.membership,
            part,
            &Forgotten::default(),
        );
        self.told.resize(replica.state.writers.len(), 0);
        for Entry { writer, hi, .. } in &part.delta.writers {
            let told =
                &mut self.told[replica.membership.number(&mut replica.state, *writer) as usize];
            *told = (*hi).max(*told);
        }
        Ok(self)
    }

    /// Takes the last part: the replica is as the one was that made it.
    ///
    /// # Errors
    /// [`Error::NotCovered`] if that is no last part, [`Error::Malformed`] if the parts are not of
    /// its snapshot, [`Error::CountersFull`].
    pub fn finish(self, last: &Message) -> Result<Replica, Error> {
        let mut replica = self.replica;
        replica.check_stored(last)?;
        let mut told = self.told.iter().zip(&replica.state.writers);
        if told.any(|(told, writer)| *told > last.hi(writer).unwrap_or(0)) {
            let rule = Rule::ChunkCovered;
            return Err(Error::Malformed { rule });
        }
        let mut ignore = |_| ();
        let mut found = Found::new(true, &mut ignore);
        found.odd = self.odd;
        replica.take_stored(last, found)?;
        Ok(replica)
    }
}
