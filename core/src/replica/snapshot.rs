//! Snapshots in parts: a store writes a whole state bit by bit while local writes and merges go on, and reads
//! it back.

use super::{Replica, Scan};
use crate::error::{DecodeError, Error, Rule};
use crate::membership::admission::Forgotten;
use crate::message::Message;
use crate::state::delta::Entry;
use crate::state::join::Found;
use crate::state::vector::VersionVector;
use crate::writer_id::{Space, WriterId};
use alloc::vec::Vec;

/// Maximum number of doublings of the parts. Then a part is as large as any state.
const DOUBLINGS_MAX: u32 = 31;
/// Maximum number of counters for which memory is reserved in advance: some 300 MB.
const ROOM_MAX: usize = 1 << 24;

/// The progress of a snapshot that is being written. It belongs to the replica that [began](Snapshot::begin)
/// it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// `None` once it is finished or void.
    scan: Option<Scan>,
}

/// A part of a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// One of several parts. More follow.
    More(Message),
    /// The last part. All parts together are the state at the moment when this part was made.
    Last(Message),
    /// There is no part. The snapshot was finished before, or something has happened that the parts so far
    /// can't express. Then these parts mean nothing, and the snapshot has to begin again.
    Void,
}

impl Snapshot {
    /// Begins a [`snapshot`](Replica::snapshot) of a replica in parts, so that it blocks nothing for long.
    /// Between two parts, any operation is allowed.
    pub fn begin(replica: &Replica) -> Snapshot {
        Snapshot {
            scan: Some(Scan::new(replica, &VersionVector::default(), true)),
        }
    }

    /// The next part of a snapshot, of about `bytes_target` bytes as estimated before encoding.
    ///
    /// Further scans send everything that changes meanwhile. Each of them has parts twice as large as the one
    /// before. So the snapshot ends, however much is written.
    ///
    /// Four events make a snapshot [`Void`](Part::Void): a collection, a state that replaces everything,
    /// another writer id, and a writer that was found forked. To put a
    /// [collection](crate::MembersMut::collect) off, pass it an empty mark.
    ///
    /// [Restore](Restoring) the parts in order. After them, restore the messages that
    /// [`since`](Replica::since) returns from the [`mark`](Replica::mark) made directly after the last part.
    pub fn step(&mut self, replica: &Replica, bytes_target: usize) -> Part {
        let scan = self.scan.take();
        let Some(scan) = scan.filter(|scan| !scan.is_void(replica)) else {
            return Part::Void;
        };
        let larger = 1 << scan.number().min(DOUBLINGS_MAX);
        let budget = bytes_target.max(1).saturating_mul(larger);
        let (mut message, next) = scan.step(replica, &VersionVector::default(), budget);
        self.scan = next;
        if self.scan.is_some() {
            return Part::More(message);
        }
        replica.add_stored_records(&mut message);
        Part::Last(message)
    }
}

/// A replica that reads the parts of a finished snapshot back, one by one.
///
/// It becomes a replica only with the last part, so an incomplete one is never visible.
pub struct Restoring {
    replica: Replica,
    /// Counters with more than plain shards. They are normalized once all parts are there.
    odd: Vec<u32>,
    /// The clocks up to which the parts have their writers, by local number.
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

    /// Reserves memory for `counters` counters, which halves the time to read them back. There may be more or
    /// fewer.
    pub fn with_room(mut self, counters: usize) -> Restoring {
        self.replica.state.reserve_keys(counters.min(ROOM_MAX));
        self
    }

    /// Reads the next part, which is not the last one. The caller must not leave out a part.
    ///
    /// # Errors
    /// [`WriteError::CountersFull`](crate::WriteError::CountersFull), as for [`Replica::restore`].
    pub fn take(mut self, part: &Message) -> Result<Restoring, Error> {
        let replica = &mut self.replica;
        replica.state.room_for_keys(&part.delta, true)?;
        let mut ignore = |_| ();
        let mut found = Found::new(true, &mut ignore);
        found.odd = self.odd;
        replica.install(part, &Forgotten::default(), &mut found)?;
        self.odd = found.odd;
        replica.idempotency.merge_keyed(
            &mut replica.state,
            &mut replica.membership,
            part,
            &Forgotten::default(),
        );
        self.told.resize(replica.state.ids().len(), 0);
        for Entry { writer, hi, .. } in &part.delta.writers {
            let told =
                &mut self.told[replica.membership.number(&mut replica.state, *writer) as usize];
            *told = (*hi).max(*told);
        }
        Ok(self)
    }

    /// Reads the last part. The result is the replica that made the parts.
    ///
    /// # Errors
    /// [`MergeError::NotCovered`](crate::MergeError::NotCovered) if the message is not a last part,
    /// [`DecodeError::Malformed`] if the parts do not belong to its snapshot,
    /// [`WriteError::CountersFull`](crate::WriteError::CountersFull).
    pub fn finish(self, last: &Message) -> Result<Replica, Error> {
        let mut replica = self.replica;
        replica.check_stored(last)?;
        let mut told = self.told.iter().zip(replica.state.ids());
        if told.any(|(told, writer)| *told > last.hi(writer).unwrap_or(0)) {
            let rule = Rule::ChunkCovered;
            return Err(DecodeError::Malformed { rule }.into());
        }
        let mut ignore = |_| ();
        let mut found = Found::new(true, &mut ignore);
        found.odd = self.odd;
        replica.apply_stored(last, found)?;
        Ok(replica)
    }
}
