//! The commit gate: the changes on their way to the store, and everything that waits for them.
//!
//! Commits are numbered. One is in flight at a time, and all changes made meanwhile share the next
//! one. An answer or a frame carries the number of the commit that has all changes made before it,
//! and leaves once that commit is durable. An answer that the durability setting does not hold back
//! has number 0.
//!
//! # Guarantees
//! Tests hold them, on a store that stops in the middle of a commit: the last row in
//! `driver/tests/requests.rs`, the others in `sockets/tests.rs` of the Redis face, where a driver
//! has clients of all kinds.
//!
//! | guarantee | test |
//! |---|---|
//! | **Persist before publish.** A frame for peers leaves after a durable commit with each change that it shows. This holds with [`Durability::Always`] and [`Durability::Interval`]. So no peer ever sees a change that a crash could undo. | `nothing_leaves_before_the_commit_that_it_tells_of`, `with_an_interval_only_peers_wait_for_the_commit` |
//! | **Persist before acknowledge.** With [`Durability::Always`] the same holds for each answer and event. It holds for reads, too: they may show a change whose commit is not durable yet. | `nothing_leaves_before_the_commit_that_it_tells_of` |
//! | A level counts durable changes, whatever the durability setting is. | `a_level_is_told_once_it_is_durable_here` |
//! | After a failed commit nothing that depends on it leaves, and the node ends. | `after_a_failed_commit_nothing_leaves_and_the_node_ends` |
//! | A stop makes all changes durable, and sends what waits for them. | `a_stop_waits_for_all_commits` |
//! | A read needs no commit of its own. A refused write that changed nothing gives the store nothing. | `only_a_write_leads_to_a_commit`, `a_refused_write_that_changed_nothing_costs_the_store_nothing` |
//!
//! # What the caller must do
//! A change and its [`touch`](CommitGate::touch) come before the [`answer`](CommitGate::answer) or
//! the frame that shows it, in either order. An answer that is queued before the touch has the
//! number of an older commit, and leaves too early. A touch without a change costs no write to the
//! disk.

use super::Release;
use crate::driver::Spaces;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tallymesh_core::{Encode, Message, Output, Part, Replica, Snapshot};
use tallymesh_node_ground::model::SpaceId;
use tallymesh_node_store::{Durability, Kind, Record, StoreError, Worker};

/// With [`Durability::Interval`]: how soon after a commit the next one is made, if something waits
/// to be sent to peers. A lower value sends changes to them sooner, and costs more commits.
const PUBLISH: Duration = Duration::from_millis(5);

/// Bytes of one part of a snapshot. A higher value makes fewer commits, and delays requests
/// meanwhile.
const PART_BYTES: usize = 64 << 10;

/// Commits, and what waits for them.
pub struct CommitGate {
    /// `None` with [`Durability::Memory`].
    worker: Option<Worker>,
    durability: Durability,
    /// The number of the newest commit.
    made: u64,
    /// The highest number up to which every commit is durable.
    durable: u64,
    /// The worker's number of the commit that is being made durable.
    in_flight: Option<u64>,
    /// Whether something may have changed since the newest commit.
    dirty: bool,
    /// When the newest commit was made.
    last: Instant,
    answers: VecDeque<(u64, Release)>,
    /// Answers that report durability, whatever the node's durability setting is.
    promises: VecDeque<(u64, Release)>,
    outputs: VecDeque<(u64, SpaceId, Output)>,
    snapshot: Option<(SpaceId, Snapshot)>,
}

impl CommitGate {
    pub(super) fn new(worker: Option<Worker>, durability: Durability) -> CommitGate {
        CommitGate {
            worker,
            durability,
            made: 0,
            durable: 0,
            in_flight: None,
            dirty: false,
            last: Instant::now(),
            answers: VecDeque::new(),
            promises: VecDeque::new(),
            outputs: VecDeque::new(),
            snapshot: None,
        }
    }

    /// Records that something may have changed.
    pub fn touch(&mut self) {
        self.dirty = self.worker.is_some();
    }

    /// The number of the commit on which the present state depends.
    pub(super) fn commit_of_state(&self) -> u64 {
        self.made + u64::from(self.dirty)
    }

    /// The number of the commit for which an answer given now has to wait. If the data folder is
    /// lost no commit will be made, whatever the durability setting is.
    pub fn commit_of_answer(&self) -> u64 {
        match self.durability {
            Durability::Always => self.commit_of_state(),
            Durability::Interval(_) if self.worker.as_ref().is_some_and(Worker::is_lost) => {
                self.commit_of_state()
            }
            Durability::Interval(_) | Durability::Memory => 0,
        }
    }

    /// The highest number up to which every commit is durable.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// Queues an answer until its commit is durable. Reads wait, too, so that no client sees a
    /// change that a crash could still undo.
    pub(super) fn answer(&mut self, release: Release) {
        self.answers.push_back((self.commit_of_answer(), release));
    }

    /// Queues an answer until everything that is visible now is durable.
    pub(super) fn answer_when_durable(&mut self, release: Release) {
        self.promises.push_back((self.commit_of_state(), release));
    }

    /// Queues an output for peers until its commit is durable. It always depends on a commit that
    /// is not made yet. The fact that something was sent must itself be stored, in case this
    /// process ends before a peer receives it.
    pub(super) fn publish(&mut self, space: SpaceId, output: Output) {
        self.touch();
        self.outputs
            .push_back((self.commit_of_state(), space, output));
    }

    /// When the next commit is due.
    pub(super) fn due(&self) -> Option<Instant> {
        if self.in_flight.is_some() || self.worker.is_none() {
            return None; // The worker wakes the driver.
        }
        match self.durability {
            _ if self.snapshot.is_some() => Some(self.last),
            _ if !self.dirty => None,
            Durability::Interval(interval) if !self.is_awaited() => Some(self.last + interval),
            Durability::Interval(interval) => Some(self.last + interval.min(PUBLISH)),
            Durability::Always | Durability::Memory => Some(self.last),
        }
    }

    /// Whether something waits for the next commit that should not wait for long.
    fn is_awaited(&self) -> bool {
        !self.outputs.is_empty() || !self.promises.is_empty()
    }

    /// Checks how far the worker is. Makes the next commit if it is due, or if `at_once` is set.
    pub(super) fn commit(&mut self, spaces: &mut Spaces, at_once: bool) -> Result<(), StoreError> {
        self.land(spaces)?;
        if at_once {
            self.snapshot = None; // The next process that opens the store makes another one.
        }
        let now = Instant::now();
        let due = self.due().is_some_and(|due| due <= now);
        let dirty = self.dirty && self.in_flight.is_none();
        if !due && (!dirty || !at_once) {
            return Ok(());
        }
        let mut records = spaces.records();
        if !at_once {
            records.extend(self.part(spaces, &records));
        }
        self.made += u64::from(self.dirty);
        (self.dirty, self.last) = (false, now);
        match &self.worker {
            Some(worker) if !records.is_empty() => {
                self.in_flight = Some(worker.submit(records));
                self.land(spaces)?;
            }
            // Nothing had changed.
            _ => self.durable = self.made,
        }
        Ok(())
    }

    /// Records that the commit in flight has become durable, if it has.
    fn land(&mut self, spaces: &mut Spaces) -> Result<(), StoreError> {
        let (Some(number), Some(worker)) = (self.in_flight, &self.worker) else {
            return Ok(());
        };
        let durable = worker.durable().inspect_err(|error| {
            tracing::error!(%error, "the store failed, so this node stops");
        })?;
        if durable >= number {
            self.durable = self.made;
            self.in_flight = None;
            spaces.stored();
        }
        Ok(())
    }

    /// The next part of a snapshot, if the store requests one. It follows the records of the same
    /// commit, so it belongs to the state after them.
    fn part(&mut self, spaces: &mut Spaces, records: &[Record]) -> Option<Record> {
        let (space, mut snapshot, begun) = match self.snapshot.take() {
            Some((space, snapshot)) => (space, snapshot, true),
            None => {
                let name = self.worker.as_ref()?.wants_snapshot()?;
                let space = spaces.find(name.as_str())?;
                (space, spaces.begin_snapshot(space), false)
            }
        };
        let name = spaces[space.0].name().clone();
        let replaced = |record: &Record| record.space == name && record.kind == Kind::Whole;
        if records.iter().any(replaced) {
            return None; // It stands for all there is.
        }
        let replica = &spaces[space.0].replica;
        let (kind, message) = step(replica, &mut snapshot, (begun, PART_BYTES))?;
        if matches!(kind, Kind::First | Kind::Part) {
            self.snapshot = Some((space, snapshot));
        }
        Some(Record {
            space: name,
            kind,
            bytes: message.encode_stored(),
        })
    }

    /// Sends the answers whose commit is durable.
    pub(super) fn release(&mut self) {
        for answers in [&mut self.answers, &mut self.promises] {
            while answers.front().is_some_and(|it| it.0 <= self.durable) {
                if let Some((_, release)) = answers.pop_front() {
                    release();
                }
            }
        }
    }

    /// The next output for peers whose commit is durable.
    pub(super) fn next_output(&mut self) -> Option<(SpaceId, Output)> {
        self.outputs.front().filter(|it| it.0 <= self.durable)?;
        self.outputs
            .pop_front()
            .map(|(_, space, output)| (space, output))
    }

    /// Drops everything that waits for a commit, so that no answer and no frame is sent.
    pub(super) fn forget_waiting(&mut self) {
        self.answers.clear();
        self.promises.clear();
        self.outputs.clear();
    }

    /// Whether all changes are durable.
    pub(super) fn is_done(&self) -> bool {
        self.in_flight.is_none() && !self.dirty
    }
}

/// The next part of a snapshot, of about so many bytes; `begun` if it is not the first.
///
/// If the parts of a snapshot have become void, it begins again at once. The store requests no
/// other snapshot while it waits for the end of one.
fn step(
    replica: &Replica,
    snapshot: &mut Snapshot,
    (mut begun, bytes): (bool, usize),
) -> Option<(Kind, Message)> {
    let mut part = snapshot.step(replica, bytes);
    if begun && part == Part::Void {
        (*snapshot, begun) = (Snapshot::begin(replica), false);
        part = snapshot.step(replica, bytes);
    }
    Some(match part {
        Part::More(message) if begun => (Kind::Part, message),
        Part::More(message) => (Kind::First, message),
        Part::Last(message) if begun => (Kind::Last, message),
        Part::Last(message) => (Kind::Whole, message),
        Part::Void => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallymesh_core::{Space, WriterId};

    #[test]
    fn a_snapshot_that_came_to_nothing_begins_again_at_once() {
        let mut replica = Replica::new(Space::default(), WriterId::from_bytes([1; 16]));
        for at in 0..500 {
            replica.add(&format!("key {at}"), 1).expect("room");
        }
        let mut snapshot = Snapshot::begin(&replica);
        let mut next =
            |replica: &Replica, begun| step(replica, &mut snapshot, (begun, 100)).map(|it| it.0);
        assert_eq!(next(&replica, false), Some(Kind::First));
        assert_eq!(next(&replica, true), Some(Kind::Part));
        // The parts made so far can't express a new writer.
        assert!(replica.forks_mut().renew(WriterId::from_bytes([2; 16])));
        assert_eq!(next(&replica, true), Some(Kind::First));
        assert_eq!(next(&replica, true), Some(Kind::Part));
    }
}
