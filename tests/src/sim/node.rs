//! Replicas: their processes, their inputs, and their outputs.

use super::place::Place;
use super::{Carrier, Cause, Disk, EPOCH_MS, Event, Mesh, Scenario, text};
use std::collections::BTreeMap;
use tallymesh_core::{
    Encode, Error, Input, Link, LinkError, Mark, Message, Millis, Output, Owner, Replica, Space,
    SyncConfig, SyncMachine, WriterId,
};

/// Most backups of a disk.
const BACKUPS_MAX: usize = 6;
/// Flushes of 1000 that write the disk anew.
const COMPACTS: u64 = 2;
/// How long after its start a member that follows the start before waits for links to all members that may know
/// more of that one, in milliseconds.
const FOLLOW_MS: Millis = 500;

/// A replica, and the state that survives its process.
#[derive(Clone)]
pub struct Node<V> {
    /// Its owner in the configuration, if it may be a member.
    pub owner: Option<Owner>,
    /// The owner under which its writers are minted.
    pub key: Owner,
    /// Whether it has a disk.
    pub durable: bool,
    /// Whether its process runs.
    pub alive: bool,
    /// The replica.
    pub replica: Replica,
    /// Its sync machine.
    pub sync: SyncMachine,
    /// The change mark up to which the disk has its changes.
    pub mark: Mark,
    /// The disk.
    pub disk: Disk<V>,
    /// When its process began.
    pub started: Millis,
    /// How much its wall clock is ahead of the slowest possible one, in milliseconds.
    pub ahead: u64,
    /// The nonce of its present writer.
    pub nonce: [u8; 16],
    /// The writers of its original, if it runs on a copy of a disk and stands aside.
    pub aside: Option<Vec<WriterId>>,
    /// Where its process runs.
    pub(super) place: Place,
    /// Whether it never starts again.
    pub(super) gone: bool,
    pub(super) backups: Vec<Disk<V>>,
    /// The number of the process. Events of an earlier process have no effect.
    pub(super) epoch: u32,
    pub(super) flush_pending: bool,
    /// The earliest look that is scheduled.
    pub(super) look_at: Option<Millis>,
    /// The earliest tick that is scheduled.
    pub(super) tick_at: Option<Millis>,
}

impl<V> Node<V> {
    /// Whether it never starts again.
    pub fn is_gone(&self) -> bool {
        self.gone
    }
}

impl<S: Scenario> Mesh<S> {
    /// Adds a running replica without links. With an owner, it is to be a member.
    ///
    /// # Errors
    /// A failure of the scenario.
    pub fn add_node(&mut self, owner: Option<Owner>, key: Owner) -> Result<usize, String> {
        let writer = WriterId::from_bytes([0; 16]);
        let ahead = self.random.below(self.settings.trouble.skew_ms + 1);
        self.nodes.push(Node {
            owner,
            key,
            durable: true,
            alive: false,
            replica: Replica::new(Space::default(), writer),
            sync: SyncMachine::new(SyncConfig::default(), 0),
            mark: Mark::default(),
            disk: Disk::default(),
            started: self.now,
            ahead,
            nonce: [0; 16],
            aside: None,
            place: Place::default(),
            gone: false,
            backups: Vec::new(),
            epoch: 0,
            flush_pending: false,
            look_at: None,
            tick_at: None,
        });
        let at = self.nodes.len() - 1;
        self.start(at)?;
        Ok(at)
    }

    /// Adds replicas that are to be members, all linked with each other.
    ///
    /// # Errors
    /// A failure of the scenario.
    pub fn add_members(&mut self, count: usize) -> Result<(), String> {
        for at in 0..count {
            self.add_node(Some(super::owner(at)), super::owner(at))?;
            for other in 0..at {
                self.link(other, at);
            }
        }
        Ok(())
    }

    /// Lets the first `members` replicas found a space, and waits until they are established.
    ///
    /// # Errors
    /// A failure of the scenario. Also if they are not established within half a minute.
    pub fn found(&mut self, members: usize) -> Result<(), String> {
        let owners: Vec<Owner> = (0..members).map(super::owner).collect();
        let (time, nonce) = (self.wall(0), self.nodes[0].nonce);
        let first = &mut self.nodes[0].replica;
        first.set_time(time);
        first
            .members_mut()
            .found(&owners[0], &nonce, time)
            .map_err(text)?;
        first.members_mut().force(&owners).map_err(text)?;
        self.changed(0)?;
        let established = |mesh: &Self| {
            let mut founders = mesh.nodes[..members].iter();
            founders.all(|it| it.replica.members().is_established())
        };
        match self.until(30_000, established)? {
            true => self.pass(2_000),
            false => Err("they don't all become members".into()),
        }
    }

    /// The time of a replica's wall clock, in milliseconds since 1970.
    pub fn wall(&self, at: usize) -> u64 {
        EPOCH_MS + self.now + self.nodes[at].ahead
    }

    /// Passes the time of its wall clock to a replica.
    pub fn set_time(&mut self, at: usize) {
        let time = self.wall(at);
        self.nodes[at].replica.set_time(time);
    }

    /// The running replicas, with their places.
    pub fn living(&self) -> impl Iterator<Item = (usize, &Node<S::Seen>)> {
        self.nodes.iter().enumerate().filter(|it| it.1.alive)
    }

    /// Whether the disk has the whole state of a replica. Only then may a client get an acknowledgement.
    pub fn is_written(&self, at: usize) -> bool {
        !self.nodes[at].flush_pending
    }

    /// Whether this process still runs.
    pub(super) fn lives(&self, at: usize, epoch: u32) -> bool {
        self.nodes[at].alive && self.nodes[at].epoch == epoch
    }

    /// Starts a process from the contents of the disk.
    ///
    /// # Errors
    /// A failure of the scenario.
    pub fn start(&mut self, at: usize) -> Result<(), String> {
        let nonce: [u8; 16] = self.random.bytes();
        let seed = self.random.next_u64();
        let (now, time) = (self.now, self.wall(at));
        let config = SyncConfig {
            owner: self.nodes[at].owner,
            ..self.settings.sync.clone()
        };
        let node = &mut self.nodes[at];
        let writer = WriterId::mint(&Space::default(), &node.key, &nonce);
        node.replica = Replica::new(Space::default(), writer);
        node.replica.set_time(time);
        node.sync = SyncMachine::new(config, seed);
        node.nonce = nonce;
        node.started = now;
        node.epoch += 1;
        (node.flush_pending, node.tick_at) = (false, None);
        S::begins(self, at);
        for (record, seen) in self.nodes[at].disk.records().to_vec() {
            let record = Message::decode_stored(&record).map_err(text)?;
            self.nodes[at].replica.restore(&record).map_err(text)?;
            S::restored(self, at, &seen)?;
        }
        let node = &mut self.nodes[at];
        if let Some(originals) = node.aside.clone() {
            node.replica.members_mut().stand_aside(originals);
        }
        let owner = node.owner.filter(|_| node.aside.is_none());
        let before = owner.and_then(|it| node.replica.members().only_start(&it));
        node.place.begin(writer, before);
        node.mark = match node.disk.records().is_empty() {
            true => Mark::default(),
            false => node.replica.mark(),
        };
        node.alive = true;
        let epoch = node.epoch;
        self.note(|| format!("{at} begins as {writer}"));
        S::writes_as(self, at, writer, nonce)?;
        S::started(self, at)?;
        if self.settings.tend_ms > 0 {
            self.schedule(self.now, Event::Tend(at, epoch));
        }
        self.open_links_of(at);
        Ok(())
    }

    /// Ends a process without notice. Changes that were not written are lost.
    pub fn crash(&mut self, at: usize) {
        if std::mem::replace(&mut self.nodes[at].alive, false) {
            self.note(|| format!("{at} ends"));
            self.judge_place(at, false);
            self.trace.reads(&self.nodes[at].replica);
            self.close_links_of(at, true);
            self.promises.retain(|it| it.0 != at);
            S::ended(self, at);
        }
    }

    /// Ends a process, and starts another one some time later.
    pub fn restart(&mut self, at: usize, (least, most): (Millis, Millis)) {
        if self.nodes[at].alive {
            self.counts.restarts += 1;
            self.crash(at);
            self.schedule_within(least, most, Event::Start(at));
        }
    }

    /// Ends a process for good, and all its links.
    pub fn remove(&mut self, at: usize) {
        self.unlink_all(at);
        self.crash(at);
        self.nodes[at].gone = true;
    }

    /// Copies a running process. The copy has the memory and the disk of the original. It gets links of its
    /// own to all peers of the original.
    ///
    /// # Errors
    /// A failure of the scenario.
    pub fn copy(&mut self, at: usize) -> Result<usize, String> {
        let mut copy = self.nodes[at].clone();
        (copy.flush_pending, copy.look_at, copy.tick_at) = (false, None, None);
        let (second, epoch) = (self.nodes.len(), copy.epoch);
        let links: Vec<Link> = copy.sync.links().map(|it| it.link).collect();
        self.nodes.push(copy);
        for link in links {
            self.input(second, Input::Disconnected { link })?;
        }
        for other in self.linked_with(at) {
            self.link(other, second);
        }
        if self.settings.tend_ms > 0 {
            self.schedule(self.now, Event::Tend(second, epoch));
        }
        Ok(second)
    }

    /// Copies the disk of a running process, and starts one on the copy, which stands aside. It gets links of its
    /// own to all peers of the original.
    ///
    /// # Errors
    /// A failure of the scenario.
    pub fn copy_disk(&mut self, at: usize) -> Result<usize, String> {
        let mut copy = self.nodes[at].clone();
        (copy.alive, copy.look_at, copy.aside) = (false, None, Some(Vec::new()));
        copy.place.lose();
        let second = self.nodes.len();
        self.nodes.push(copy);
        self.start(second)?;
        let node = &mut self.nodes[second];
        let originals: Vec<WriterId> = node.replica.consistency().earlier_writers().collect();
        node.replica.members_mut().stand_aside(originals.clone());
        node.aside = Some(originals);
        for other in self.linked_with(at) {
            self.link(other, second);
        }
        Ok(second)
    }

    /// Lets a process on the copy of a disk take the place of the original, which is gone for good.
    pub fn adopt(&mut self, at: usize) {
        self.nodes[at].aside = None;
        self.nodes[at].replica.members_mut().adopt();
    }

    /// Puts a process back to an earlier image of its machine, memory and disk, and lets it run. It finds its
    /// links closed. The other ends notice this after some time.
    ///
    /// # Errors
    /// A failure of the scenario.
    pub fn resume(&mut self, at: usize, image: Node<S::Seen>) -> Result<(), String> {
        self.note(|| format!("{at} is put back to an image"));
        self.close_links_of(at, true);
        self.promises.retain(|it| it.0 != at);
        let epoch = self.nodes[at].epoch + 1;
        self.nodes[at] = Node {
            alive: true,
            epoch,
            flush_pending: false,
            look_at: None,
            tick_at: None,
            ..image
        };
        let links: Vec<Link> = self.nodes[at].sync.links().map(|it| it.link).collect();
        for link in links {
            self.input(at, Input::Disconnected { link })?;
        }
        if self.settings.tend_ms > 0 {
            self.schedule(self.now, Event::Tend(at, epoch));
        }
        self.open_links_of(at);
        Ok(())
    }

    /// Runs an event of the scenario once the disk has the whole state of a replica. It never runs if the
    /// process ends first. Call this before [`changed`](Mesh::changed).
    pub fn when_written(&mut self, at: usize, event: S::Event) {
        self.promises.push((at, event));
    }

    /// Notifies a replica that its client changed something.
    ///
    /// # Errors
    /// A failure of the scenario.
    pub fn changed(&mut self, at: usize) -> Result<(), String> {
        self.input(at, Input::Changed)
    }

    /// Passes an input to a running replica.
    ///
    /// # Errors
    /// A failure of the scenario.
    pub fn input(&mut self, at: usize, input: Input<'_>) -> Result<(), String> {
        if !self.nodes[at].alive {
            return Ok(());
        }
        let cause = match &input {
            Input::Frame { bytes, .. } => Cause::Frame(bytes[3]),
            Input::Changed => Cause::Changed,
            _ => Cause::Other,
        };
        self.set_time(at);
        self.announce(at)?;
        S::before(self, at, cause);
        let now = self.now;
        let node = &mut self.nodes[at];
        node.sync.handle(now, &mut node.replica, input);
        S::handled(self, at, cause)?;
        let flush_ms = match self.troubled {
            true => self.settings.trouble.flush_ms,
            false => 0,
        };
        if flush_ms == 0 {
            return self.flush(at);
        }
        let node = &mut self.nodes[at];
        if !std::mem::replace(&mut node.flush_pending, true) {
            let flush = Event::Flush(at, node.epoch);
            self.schedule_within(0, flush_ms, flush);
        }
        Ok(())
    }

    /// Announces a member's start, as soon as its configuration names it.
    fn announce(&mut self, at: usize) -> Result<(), String> {
        let (now, time) = (self.now, self.wall(at));
        let node = &mut self.nodes[at];
        let Some(owner) = node
            .owner
            .filter(|_| !node.replica.members().is_announced() && !node.replica.stands_aside())
        else {
            return Ok(());
        };
        // The disk may be old, so a start waits until it has caught up.
        let late_ms = self.settings.late_ms;
        let late = late_ms.is_some_and(|ms| node.started + ms <= now);
        if !late && !node.sync.has_caught_up(&node.replica) {
            return Ok(());
        }
        let before = node.place.follows();
        let members = node.replica.members().configuration();
        let count = members.map_or(0, |it| it.members.len());
        let enough = (count - count / 2).min(count.saturating_sub(1));
        if before.is_some()
            && now < node.started + FOLLOW_MS
            && node.sync.linked_member_count(&node.replica) < enough
        {
            return Ok(());
        }
        if members.is_some_and(|it| it.has(&owner)) {
            node.replica
                .members_mut()
                .announce_after(&owner, &node.nonce, time, before)
                .map_err(text)?;
            self.counts.in_place += u64::from(node.replica.members().follows());
            node.sync.handle(now, &mut node.replica, Input::Changed);
        }
        Ok(())
    }

    /// A replica does its duties.
    pub(super) fn tend(&mut self, at: usize) -> Result<(), String> {
        self.set_time(at);
        self.announce(at)?;
        let (now, epoch) = (self.now, self.nodes[at].epoch);
        self.schedule(now + self.settings.tend_ms, Event::Tend(at, epoch));
        let node = &mut self.nodes[at];
        let tended = node.sync.tend(now, &mut node.replica, &node.mark);
        tended.map_err(|error| format!("{at} tends: {error}"))?;
        self.changed(at)
    }

    /// Writes the changes to the disk, and then executes the outputs of the sync machine.
    ///
    /// # Errors
    /// A failure of the scenario.
    pub fn flush(&mut self, at: usize) -> Result<(), String> {
        self.write_disk(at)?;
        let kept = self.promises.extract_if(.., |it| it.0 == at);
        let kept: Vec<S::Event> = kept.map(|it| it.1).collect();
        for event in kept {
            S::event(self, event)?;
        }
        let mut renews = false;
        while let Some(output) = self.nodes[at].sync.poll() {
            self.trace.output(at, &self.nodes[at].replica, &output);
            match output {
                Output::Send { link, bytes } => {
                    if S::sends(self, at, &bytes)? {
                        self.send(link, at, bytes.to_vec());
                    }
                }
                Output::Broadcast { bytes } => {
                    if S::sends(self, at, &bytes)? {
                        self.gossip(at, &bytes);
                    }
                }
                Output::Renew => renews = true,
                Output::Refused { close, error } => self.refused(at, close, &error)?,
                output => S::output(self, at, &output)?,
            }
        }
        if renews {
            self.renew(at)?;
        }
        let node = &mut self.nodes[at];
        if let Some(deadline) = node.sync.next_deadline() {
            let due = deadline.max(self.now + 1);
            if node.tick_at.is_none_or(|at| due < at) {
                node.tick_at = Some(due);
                let epoch = node.epoch;
                self.schedule(due, Event::Tick(at, epoch));
            }
        }
        self.look_at(self.now, at);
        Ok(())
    }

    fn write_disk(&mut self, at: usize) -> Result<(), String> {
        let node = &mut self.nodes[at];
        node.flush_pending = false;
        if let Some(message) = node.replica.since(&mut node.mark) {
            let seen = S::written(self, at)?;
            self.check_equal_vectors(at)?;
            let node = &mut self.nodes[at];
            let record = message.encode_stored();
            self.trace.bytes(&record);
            if node.durable {
                node.disk.write(record, message.is_whole(), seen);
            }
        }
        self.judge_place(at, true);
        if self.random.chance(COMPACTS) && !self.nodes[at].disk.records().is_empty() {
            let node = &mut self.nodes[at];
            let whole = node.replica.snapshot().encode_stored();
            self.trace.bytes(&whole);
            node.disk.compact(whole);
        }
        Ok(())
    }

    /// Judges whether the next start in a replica's place may follow this one. `is_written` says whether the disk
    /// has the whole state.
    fn judge_place(&mut self, at: usize, is_written: bool) {
        let node = &mut self.nodes[at];
        let is_written = is_written && node.durable;
        node.place.judge(&node.replica, is_written);
    }

    /// Replicas with equal version vectors must show the same. Forks are the exception, so it does not hold where
    /// two replicas may go on from one disk.
    fn check_equal_vectors(&self, at: usize) -> Result<(), String> {
        if S::ANY_DISK {
            return Ok(());
        }
        let vector = self.nodes[at].replica.vector();
        let values = |replica: &Replica| -> BTreeMap<String, Option<i128>> {
            let counters = replica.counters();
            counters
                .map(|(_, key)| (key.into(), replica.value(key)))
                .collect()
        };
        let mut values_here = None;
        for (other, node) in self.living().filter(|it| it.0 != at) {
            if node.replica.vector() != vector {
                continue;
            }
            let here = values_here.get_or_insert_with(|| values(&self.nodes[at].replica));
            let there = values(&node.replica);
            if *here != there {
                return Err(format!(
                    "{at} shows {here:?}, and {other}, with the same vector, {there:?}"
                ));
            }
        }
        Ok(())
    }

    /// A replica goes on under a fresh writer.
    fn renew(&mut self, at: usize) -> Result<(), String> {
        self.counts.renewals += 1;
        let nonce: [u8; 16] = self.random.bytes();
        let writer = WriterId::mint(&Space::default(), &self.nodes[at].key, &nonce);
        self.note(|| format!("{at} goes on as {writer}"));
        let node = &mut self.nodes[at];
        node.nonce = nonce;
        // It mostly begins from a state of others, which may lack its vote.
        let led = node.place.lose() && node.sync.goes_on_from_own_state();
        let earlier = node.replica.writer();
        S::writes_as(self, at, writer, nonce)?;
        self.input(at, Input::Renew { writer })?;
        let node = &mut self.nodes[at];
        if let Some(owner) = node.owner.filter(|_| led) {
            let before = node.replica.members().only_start(&owner);
            node.place
                .go_on(writer, before.filter(|it| it.writer == earlier));
        }
        Ok(())
    }

    /// Datagrams may come before the hello or bring it twice. This is not a failure.
    fn refused(&mut self, at: usize, close: Option<Link>, error: &Error) -> Result<(), String> {
        self.note(|| format!("{at} refuses, closes {close:?}: {error}"));
        if let Some(link) = close {
            self.close(link.0, None);
        }
        match (error, self.settings.carrier) {
            (Error::Link(LinkError::Handshake), Carrier::Datagrams) => Ok(()),
            _ => S::refused(self, at, error),
        }
    }

    /// Stores a copy of a disk.
    pub(super) fn back_up(&mut self, at: usize) {
        let place = self.random.index(BACKUPS_MAX);
        let node = &mut self.nodes[at];
        let backup = node.disk.clone();
        match node.backups.get_mut(place) {
            Some(old) => *old = backup,
            None => node.backups.push(backup),
        }
    }
}
