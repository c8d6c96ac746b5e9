//! The hello: each end of a link names its writer, its abilities, and what it has.

use super::digests::NOTES_DUE;
use super::scope::{Scope, ScopeChecks};
use super::{Link, Millis, PeerHello, Session, SyncMachine};
use crate::bounds::AGENT_BYTES_MAX;
#[cfg(feature = "members")]
use crate::optional::Empty;
use crate::optional::{GUESTS, GuestPart, MEMBERS, MemberPart, Optional};
use crate::replica::Replica;
use crate::state::vector::VersionVector;
use crate::wire::{
    ANSWERS, Body, COPY, DEALS, Digests, GIVES, Hello, LACKS_MEMORY, LENDS, REMEMBERS,
    TAKES_NOTHING, TAKES_OWN, VERSION,
};
#[cfg(feature = "guests")]
use crate::wire::{FOLLOWS, TAKES_TIME};
use crate::writer_id::WriterId;
use alloc::string::String;
use alloc::vec::Vec;

/// Shortest interval in milliseconds between two times of [hurrying](SyncMachine::hurry).
const HURRY_MS: Millis = 250;

/// Most copies that wait for [`SyncMachine::take_copies`], and most writers of copies that are remembered.
const COPIES_MAX: usize = 256;

/// The capability to give rights, if this program has the feature `budgets`.
const GIVES_HERE: u64 = if cfg!(feature = "budgets") {
    GIVES | DEALS | LENDS
} else {
    0
};

/// The status of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// The link.
    pub link: Link,
    /// The peer's program, once the peer has sent its hello.
    pub agent: Option<String>,
    /// The writer at the other end, once the peer has sent its hello.
    pub writer: Option<WriterId>,
    /// When the last frame arrived.
    pub last_heard: Option<Millis>,
    /// Bytes of frames that arrived on the link.
    pub bytes_in: u64,
    /// Bytes of frames that were sent on the link.
    pub bytes_out: u64,
    /// Whether this replica is pulling from the peer.
    pub pulling: bool,
}

impl Session {
    /// Whether the peer runs on a copy of a member's data, and stands aside.
    pub(super) fn is_copy(&self) -> bool {
        self.hello.as_ref().is_some_and(|hello| *hello.copy)
    }
}

impl SyncMachine {
    /// The capability to take a member's time, if this program wants it.
    #[inline(always)]
    fn takes_time(&self) -> u64 {
        #[cfg(feature = "guests")]
        if self.config.takes_time {
            return TAKES_TIME;
        }
        0
    }

    /// The capability to follow rounds, if this program does.
    #[inline(always)]
    fn follows_rounds(&self) -> u64 {
        #[cfg(feature = "guests")]
        if self.config.follows {
            return FOLLOWS;
        }
        0
    }

    /// The status of each link.
    pub fn links(&self) -> impl Iterator<Item = LinkStatus> {
        self.peers.iter().map(|peer| LinkStatus {
            link: peer.link,
            agent: peer.hello.as_ref().and_then(|g| (*g.agent).clone()),
            writer: peer.hello.as_ref().map(|g| g.writer),
            last_heard: peer.traffic.last_heard,
            bytes_in: peer.traffic.bytes_in,
            bytes_out: peer.traffic.bytes_out,
            pulling: self.pulls.is_from(peer.link),
        })
    }

    /// Records that a peer runs on a copy of a member's data.
    fn note_copy(&mut self, link: Link, writer: WriterId) {
        if self.copies.len() < COPIES_MAX {
            self.copies.update(|it| it.push((link, writer)));
        }
        self.note_brief(writer);
    }

    /// Records that a guest is a process with a member's key. It may be one that stands aside, or one that has not
    /// announced itself.
    pub(super) fn note_brief(&mut self, writer: WriterId) {
        self.guests.update(|it| {
            if !it.brief.contains(&writer) {
                it.brief.push(writer);
            }
            if it.brief.len() > COPIES_MAX {
                it.brief.remove(0);
            }
        });
    }

    /// The links on which a peer said since the last call that it runs on a copy of a member's data and [stands
    /// aside](crate::MembersMut::stand_aside), each with the peer's writer.
    #[cfg(feature = "members")]
    pub fn take_copies(&mut self) -> Vec<(Link, WriterId)> {
        self.copies.take()
    }

    #[inline(never)]
    pub(super) fn peer(&self, link: Link) -> Option<&Session> {
        match MEMBERS {
            true => Some(&self.peers[self.place(link).ok()?]),
            false => self.peers.iter().find(|peer| peer.link == link),
        }
    }

    #[inline(never)]
    pub(super) fn peer_mut(&mut self, link: Link) -> Option<&mut Session> {
        match MEMBERS {
            true => self.place(link).ok().map(|at| &mut self.peers[at]),
            false => self.peers.iter_mut().find(|peer| peer.link == link),
        }
    }

    /// The index of a link's peer, or the index at which it would be inserted.
    pub(super) fn place(&self, link: Link) -> Result<usize, usize> {
        self.peers.binary_search_by_key(&link, |peer| peer.link)
    }

    pub(super) fn connected(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        broadcast: bool,
        scope: Option<Scope>,
    ) {
        if self.peer(link).is_some() {
            return;
        }
        let next_digest = self.later(now);
        let mut peer = Session {
            link,
            broadcast,
            hello: None,
            next_digest,
            traffic: MemberPart::default(),
            rests: false,
            level: false,
            forgotten: false,
            asked_memory: false,
            published: replica.rejoin.sent_upto(),
            whole: MemberPart::default(),
            all: false,
            heal: MemberPart::default(),
            owner: MemberPart::default(),
            scope: MemberPart::default(),
            proved: MemberPart::default(),
            #[cfg(feature = "members")]
            proofs: Empty::EMPTY,
            delayed: MemberPart::default(),
            taken: GuestPart::default(),
            compared: GuestPart::default(),
            #[cfg(feature = "guests")]
            following: GuestPart::default(),
            #[cfg(feature = "members")]
            sent: super::rounds::Sent::default(),
        };
        let takes = SyncMachine::capabilities_of(scope.as_ref());
        peer.scope.set(scope);
        match MEMBERS {
            true => {
                let at = self.place(link).unwrap_or_else(|at| at);
                self.peers.insert(at, peer);
            }
            false => self.peers.push(peer),
        }
        let [low, high] = [self.random.next_u64(), self.random.next_u64()].map(u128::from);
        let nonce = (high << 64 | low).to_le_bytes();
        let agent = match self.config.agent.as_str() {
            agent if agent.len() <= AGENT_BYTES_MAX => agent,
            _ => "",
        };
        let hello = Hello {
            version_min: VERSION,
            version_max: VERSION,
            capabilities: match self.config.owner {
                Some(_) if MEMBERS && replica.membership.remembers_all() => {
                    REMEMBERS | ANSWERS | GIVES_HERE
                }
                Some(_) if MEMBERS => REMEMBERS | LACKS_MEMORY | ANSWERS | GIVES_HERE,
                _ => 0,
            } | takes
                | if replica.stands_aside() { COPY } else { 0 }
                | self.takes_time()
                | self.follows_rounds(),
            session: self.session,
            agent: agent.into(),
            nonce,
            proof: Vec::new(),
            digests: SyncMachine::digests(replica),
            writer: replica.writer(),
            clock: replica.clock(),
        };
        self.send(replica, link, Body::Hello(hello));
    }

    pub(super) fn receive_hello(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        hello: Hello,
    ) {
        let session = hello.session;
        let is_copy = MEMBERS && hello.capabilities & COPY > 0;
        if is_copy {
            self.note_copy(link, hello.writer);
        }
        if let Some(peer) = self.peer_mut(link) {
            // A limited peer is asked for nothing, and receives nothing that only members need.
            let trusted = peer.scope.is_none();
            let mut theirs = PeerHello {
                session,
                agent: MemberPart::default(),
                writer: hello.writer,
                clock: GuestPart::default(),
                takes: GuestPart::default(),
                remembers: GUESTS && trusted && hello.capabilities & REMEMBERS > 0,
                lacks: GUESTS && trusted && hello.capabilities & LACKS_MEMORY > 0,
                #[cfg(feature = "members")]
                answers: trusted && hello.capabilities & ANSWERS > 0,
                #[cfg(feature = "budgets")]
                gives: if trusted { hello.capabilities } else { 0 } & (GIVES | DEALS | LENDS),
                copy: MemberPart::default(),
                #[cfg(feature = "members")]
                follows: hello.capabilities & FOLLOWS > 0,
                #[cfg(feature = "members")]
                is_fresh: false,
                #[cfg(feature = "members")]
                time_due: (hello.capabilities & TAKES_TIME > 0).then_some(now),
            };
            theirs.copy.set(is_copy);
            let takes = hello.capabilities & (TAKES_OWN | TAKES_NOTHING);
            theirs.clock.set(hello.clock);
            theirs.takes.set(takes);
            theirs.agent.update(|it| *it = Some(hello.agent));
            peer.hello = Some(theirs);
            if NOTES_DUE {
                let due = peer.next_digest;
                self.digest_due = self.digest_due.min(due);
            }
        }
        self.begin_unsent(now, replica);
        if GUESTS {
            replica.rejoin.note_earlier_told(&replica.state);
            // If it leads to no member, a member's next tend sets it again.
            replica.rejoin.bundle_adds(false);
        }
        #[cfg(feature = "members")]
        self.levels.ask_soon(now);
        #[cfg(feature = "members")]
        self.tell_time(now, replica, link);
        self.admit_peer(now, replica, link);
        self.prove(replica, link);
        self.doubt(now, replica, link);
        if !self.is_limited(link) && self.pulls.resume(link, session) {
            self.want(now, replica, link);
        }
        #[cfg(feature = "members")]
        if self
            .compares
            .put_off(now, replica, link, hello.digests, false)
        {
            return;
        }
        self.compare(now, replica, link, &hello.digests);
    }

    /// The writer at the other end of a link. A peer with limited rights must have proved it.
    pub(super) fn writer_of(&self, link: Link) -> Option<WriterId> {
        let peer = self.peer(link).filter(|_| GUESTS)?;
        let writer = peer.hello.as_ref()?.writer;
        let known = peer.scope.is_none() || peer.proved.contains(&writer);
        known.then_some(writer)
    }

    /// Handles what a peer has, and made durable before it sent this. If the peer is a member, own
    /// transactions in it need not be made again. If the peer is sponsored here, it has received all of it.
    pub(super) fn note_peer_vector(
        &self,
        replica: &mut Replica,
        link: Link,
        vector: &VersionVector,
    ) {
        let Some(writer) = self.writer_of(link).filter(|_| GUESTS) else {
            return;
        };
        if self.is_held_to(link) {
            return self.note_received_by_limited(replica, link, &writer, vector);
        }
        if MEMBERS && replica.state.vector().covers(vector) {
            let clock = vector.get(&replica.writer());
            replica.membership.note_told(&replica.state, &writer, clock);
        }
        if replica.members().is_sure_member(&writer) {
            let held = vector.get(&replica.writer());
            replica
                .rejoin
                .confirm(&replica.state, &mut replica.membership, held);
            let held = |writer: &WriterId| vector.get(writer);
            replica.rejoin.earlier_held(&replica.membership, held);
        } else if replica.members().is_member() {
            replica
                .membership
                .note_seen(&replica.state, &writer, vector);
        }
    }

    /// Sends this replica's digest now to those who need it while an acknowledgement that others wait for is
    /// delayed by sponsored guests:
    /// - The guests that have not acknowledged everything. [They answer](SyncMachine::digest_came).
    /// - Once, a member's start that the acknowledgement delays. The digest shows that this member knows of the
    ///   start, which is enough for its [vote](crate::membership::votes).
    pub(super) fn hurry(&mut self, now: Millis, replica: &Replica) {
        if self.guests.hurry_due > now || !replica.members().is_held_up() {
            return;
        }
        self.guests.update(|it| it.hurry_due = now + HURRY_MS);
        for peer in &mut self.peers {
            let Some(writer) = peer.hello.as_ref().map(|it| it.writer) else {
                continue;
            };
            let guest = replica.members().is_sponsored(&writer);
            let delayed = !*peer.delayed && replica.members().delays_start(&writer);
            peer.delayed.update(|it| *it |= delayed);
            if delayed || guest && !replica.members().progress(&writer).1 {
                peer.next_digest = now;
                self.digest_due = now;
            }
        }
    }

    /// Handles a peer's digest. A guest answers a member that has the same state with its own digest, and so
    /// acknowledges everything. Others may wait for the member, and the member for this digest.
    pub(super) fn digest_came(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        theirs: &Digests,
    ) {
        self.compare(now, replica, link, theirs);
        let answers = GUESTS
            && replica.members().configuration().is_some()
            && !replica.members().is_member()
            && theirs.vector == replica.digest()
            && self.leads_to_member(replica, link);
        if let Some(peer) = self.peer_mut(link).filter(|_| answers) {
            peer.next_digest = now;
            if NOTES_DUE {
                self.digest_due = now;
            }
        }
    }

    /// Sets the writer under which a link's peer writes.
    pub(super) fn set_writer(&mut self, link: Link, writer: WriterId) {
        if !GUESTS {
            return;
        }
        let Some(peer) = self.peer_mut(link) else {
            return;
        };
        if let Some(hello) = &mut peer.hello {
            hello.clock.set(0);
        }
        if let Some(hello) = peer.hello.as_mut().filter(|it| it.writer != writer) {
            hello.writer = writer;
            #[cfg(feature = "members")]
            (hello.is_fresh = true);
            let is_copy = *hello.copy;
            (peer.rests, peer.forgotten) = (false, false);
            peer.delayed.set(false);
            if is_copy {
                self.note_copy(link, writer);
            }
        }
    }

    /// Admits the writer at the other end of a link, if it is known.
    pub(super) fn admit_peer(&mut self, now: Millis, replica: &mut Replica, link: Link) {
        let Some(writer) = self.writer_of(link) else {
            return;
        };
        let hello = self.peer(link).and_then(|peer| peer.hello.as_ref());
        let clock = hello.map_or(0, |it| *it.clock);
        // Most pages only look, so a page is admitted with its first transaction.
        #[cfg(feature = "members")]
        if clock == 0 && self.follows(link) {
            return;
        }
        self.admit(now, replica, link, writer, clock);
    }

    /// Admits a page that took a fresh writer and begins again from everything here, because it will make transactions
    /// again.
    #[cfg(feature = "members")]
    pub(super) fn admit_again(&mut self, now: Millis, replica: &mut Replica, link: Link) {
        let hello = self.peer(link).and_then(|peer| peer.hello.as_ref());
        let is_fresh = hello.is_some_and(|it| it.is_fresh);
        if let Some(writer) = self.writer_of(link).filter(|_| is_fresh) {
            self.admit(now, replica, link, writer, 0);
        }
    }

    /// Records that this replica has all that a peer had.
    pub(super) fn is_level(&mut self, link: Link) {
        if GUESTS && let Some(peer) = self.peer_mut(link) {
            peer.level = true;
        }
    }
}
