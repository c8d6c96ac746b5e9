//! The sync machine: keeps a replica in step with its peers, without I/O.
//!
//! It is the anti-entropy of epidemic protocols (Demers et al. 1987): pushes spread fresh changes, and
//! pulls repair what pushes missed. It departs from them in the unit that travels: each push and each
//! answer is a delta interval. The receiver applies one only if it covers the interval's begin, so a
//! replica always shows a causal cut.
//!
//! # The contract
//! The machine opens no socket, reads no clock and draws no random number. The program around it
//! 1. hands in each event with its time, by [`SyncMachine::handle`]: links that open and close, frames
//!    that arrived, local changes, ticks;
//! 2. makes durable what changed in the replica ([`Replica::since`]), if it stores the replica;
//! 3. calls [`SyncMachine::poll`] until that returns `None`, and carries out each [`Output`];
//! 4. calls `handle` with [`Input::Tick`] no later than needed after [`SyncMachine::next_deadline`].
//!
//! In a space with members it also calls [`SyncMachine::tend`] about once a second. A program with many links says
//! before a round which of them are [busy](SyncMachine::note_busy), so that no queue of frames grows behind a link.
//!
//! Step 2 before step 3 makes "persist before publish" hold, also for whole batches. A program may hand in
//! any number of inputs, then store the replica once, and then take the outputs. [The guide](crate#the-loop)
//! has this loop as a program.
//!
//! - One machine serves one replica of one space. Each call of `handle` gets that replica.
//! - A [`Link`] number is used once in a process. Both ends open a link, and each sends a hello.
//! - Links may lose, repeat, delay and reorder frames. A frame arrives whole or not at all.
//! - `now` never goes back between calls. A late tick delays work, and breaks nothing.
//! - An [`Output::Refused`] with a link means that its peer broke the protocol: close the link.
//!
//! # How it works
//! 1. **Hello** (`sync/hello.rs`). Both ends name their program, their writer and their abilities, and send
//!    digests of what they hold.
//! 2. **Push** (`sync/push.rs`). Some milliseconds after a local change the machine pushes it, to each link
//!    or by broadcast. A push that builds on something missing waits, within bounds, while the machine asks
//!    its source. Pages get **rounds** in place of pushes (`sync/rounds.rs`, `sync/follow.rs`): all that changed,
//!    of all writers, since what their link has carried.
//! 3. **Digest** (`sync/digests.rs`, `sync/compares.rs`). At intervals each link carries the digest again.
//!    Where digests differ, the machine that noticed it pulls.
//! 4. **Pull** (`sync/pull.rs`, `sync/serve.rs`). The request carries the version vector (Parker et al.
//!    1983), and the answer holds just what was missing. A large answer comes in chunks. The receiver
//!    requests each chunk, stages it, and merges all of them once the last one is there.
//!    One pull is open at a time. A pull without an answer is laid aside while other peers wait.
//!
//! The other files serve one layer each:
//!
//! | files | job |
//! |---|---|
//! | `sync/forks.rs`, `sync/origins.rs` | heal forks; say which link a fault came by |
//! | `sync/members.rs`, `sync/earlier.rs` | admit guests, fence silent ones, and carry out a rejoin |
//! | `sync/levels.rs` | ask members how far a write is held, and answer reads at a level |
//! | `sync/wants.rs` | ask members for rights, and give them |
//! | `sync/time.rs` | tell guests the members' time, by which they judge expiries |
//! | `sync/scope.rs`, `sync/rights.rs`, `sync/own.rs`, `sync/shares.rs` | bound what a peer of limited rights may do |
//! | `sync/session.rs` | the state of a link |
//! | `sync/config.rs` | the machine's settings |

#[cfg(feature = "members")]
mod compares;
mod config;
mod digests;
mod earlier;
#[cfg(feature = "guests")]
mod follow;
mod forks;
mod hello;
#[cfg(feature = "members")]
mod levels;
mod members;
#[cfg(feature = "members")]
mod origins;
mod own;
mod pull;
mod push;
#[cfg(feature = "members")]
mod rights;
#[cfg(feature = "members")]
mod rounds;
mod scope;
mod serve;
mod session;
#[cfg(feature = "members")]
mod shares;
#[cfg(feature = "guests")]
mod time;
#[cfg(feature = "budgets")]
mod wants;

#[cfg(feature = "members")]
pub use crate::error::Share;
#[cfg(feature = "members")]
pub use crate::idempotency::Party;
pub use config::SyncConfig;
pub use hello::LinkStatus;
#[cfg(feature = "members")]
pub use levels::{Level, Question, Reach};
#[cfg(feature = "members")]
pub use origins::Accusation;
#[cfg(feature = "members")]
pub use rights::{PeerScope, Role};
#[cfg(feature = "budgets")]
pub use wants::{RequestId, RightsProgress};

use crate::error::{DecodeError, Error, LinkError, Rule, detail};
use crate::hash::SplitMix64;
#[cfg(feature = "members")]
use crate::message::records::Owner;
use crate::optional::{GUESTS, GuestPart, MEMBERS, MemberPart, Optional};
use crate::rejoin::Returned;
use crate::replica::{Mark, Replica};
use crate::state::keys::KeyId;
use crate::wire::{Body, Delta, Digests, Frame, Pull, Why};
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;
use digests::NOTES_DUE;
use scope::ScopeChecks;
use session::{PeerHello, Session};

/// Capacity of the list of changed counters that is kept between polls. It exceeds a push.
const CHANGED_KEPT: usize = 1 << 12;

/// The machine sends digests together on all links that are due within a millisecond for each so many links.
const LINKS_FOR_EACH_MS: Millis = 4;

/// A monotonic time in milliseconds, from any origin.
pub type Millis = u64;

/// A connection to a peer. The caller numbers links, and never uses a number again in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link(pub u32);

/// An event.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A link is open. If `broadcast` is set, pushes reach the peer by [`Output::Broadcast`], so they are not
    /// sent on the link as well.
    Connected {
        /// The link.
        link: Link,
        /// Whether the peer takes part in the broadcast.
        broadcast: bool,
    },
    /// A link is open to a peer with fewer rights than a member. The machine rejects anything beyond these
    /// rights, and no broadcast reaches this peer. It replaces `Connected`.
    #[cfg(feature = "members")]
    Limited {
        /// The link.
        link: Link,
        /// The public key that the peer has proved to be its own.
        owner: Owner,
        /// The owner's role.
        role: Role,
    },
    /// This writer has the same owner as the replica. It is the replica's present writer, an earlier one, or
    /// the writer of another program that sends through this one.
    ///
    /// The machine proves these writers to peers that accept only their peer's own records. Hand in the
    /// replica's own writer before anything else, and a fresh one before [`Input::Renew`].
    #[cfg(feature = "guests")]
    Own {
        /// The nonce with which it was [minted](WriterId::mint).
        writer: WriterId,
        /// The nonce with which it was [minted](WriterId::mint).
        nonce: [u8; 16],
    },
    /// A link is closed.
    Disconnected {
        /// The link.
        link: Link,
    },
    /// A frame arrived on a link.
    Frame {
        /// The link.
        link: Link,
        /// The frame's bytes.
        bytes: &'a [u8],
    },
    /// A frame arrived by broadcast.
    Broadcast {
        /// A link to the peer that passed it on. The machine asks this peer if something is missing.
        from: Option<Link>,
        /// The frame's bytes.
        bytes: &'a [u8],
    },
    /// Local transactions were made on the replica.
    Changed,
    /// The answer to [`Output::Renew`].
    Renew {
        /// A freshly [minted](WriterId::mint) id.
        writer: WriterId,
    },
    /// Time passed.
    Tick,
}

/// The bytes of a frame. Links that get the same share them.
#[cfg(all(feature = "members", not(target_family = "wasm")))]
pub type FrameBytes = alloc::sync::Arc<[u8]>;
/// The bytes of a frame. A page has few links, and no room for the code that shares them.
#[cfg(not(all(feature = "members", not(target_family = "wasm"))))]
pub type FrameBytes = Vec<u8>;

/// An action for the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send these bytes on a link.
    Send {
        /// The link.
        link: Link,
        /// One frame.
        bytes: FrameBytes,
    },
    /// Broadcast these bytes.
    Broadcast {
        /// One frame.
        bytes: Vec<u8>,
    },
    /// A merge changed this counter.
    Changed {
        /// The counter.
        key_id: KeyId,
    },
    /// A message was merged.
    Merged {
        /// The link on which it arrived, if that is known.
        link: Option<Link>,
        /// How many shards were installed.
        shards: usize,
    },
    /// This replica can't go on under its writer id, because another process writes under it, or because the
    /// writer has retired. Mint a fresh id, and hand it in by [`Input::Renew`] at once. Until then,
    /// everything goes on under the old id. A member announces itself under the fresh id before the next
    /// [`Input::Tick`].
    Renew,
    /// The replica rejoined under the writer id that was handed in last. It made the operations again that no
    /// member had merged. Show the operations that could not be made again.
    Returned(Box<Returned>),
    /// The machine rejected a whole input: show the error. With a link, also close this link.
    Refused {
        /// The link to be closed, if a link's peer broke the protocol.
        close: Option<Link>,
        /// Why.
        error: Error,
    },
}

/// Keeps one replica in step with its peers: see the [module](self)'s contract.
#[derive(Clone)]
pub struct SyncMachine {
    config: SyncConfig,
    /// Spreads the timers.
    random: SplitMix64,
    session: u64,
    /// Ascending by link. A page has few links, and keeps them in the order in which they opened.
    peers: Vec<Session>,
    /// The counters that merges changed, possibly all of them. The poll returns them before the outputs.
    changed: Vec<KeyId>,
    outputs: Vec<Output>,
    /// The outputs that are being polled, in reverse order.
    polled: Vec<Output>,
    pulls: pull::Pulls,
    pushes: push::Pushes,
    #[cfg(feature = "members")]
    rounds: rounds::Rounds,
    serving: Vec<serve::Transfer>,
    /// When to announce what was pulled, and the link that it came from.
    announce: Option<(Millis, Option<Link>)>,
    /// When the next digest to a peer is due, or earlier.
    digest_due: Millis,
    /// Forked writers to announce to the peers.
    forked: MemberPart<Vec<WriterId>>,
    /// The copies of members' data that have sent a hello since [`take_copies`](SyncMachine::take_copies).
    copies: MemberPart<Vec<(Link, WriterId)>>,
    /// The own writer for which the machine has requested another id.
    asked_for_id: MemberPart<Option<WriterId>>,
    guests: GuestPart<members::Guests>,
    #[cfg(feature = "members")]
    compares: compares::Compares,
    #[cfg(feature = "members")]
    shares: shares::Shares,
    #[cfg(feature = "members")]
    levels: levels::Levels,
    #[cfg(feature = "members")]
    origins: origins::Origins,
    #[cfg(feature = "budgets")]
    wants: wants::Wants,
}

impl SyncMachine {
    /// A machine with no links. `seed` is any random number. It names this process to its peers and spreads
    /// its timers.
    pub fn new(config: SyncConfig, seed: u64) -> SyncMachine {
        let mut sync = SyncMachine {
            config,
            random: SplitMix64::new(seed),
            session: 0,
            peers: Vec::new(),
            changed: Vec::new(),
            outputs: Vec::new(),
            polled: Vec::new(),
            pulls: pull::Pulls::default(),
            pushes: push::Pushes::new(Mark::default()),
            #[cfg(feature = "members")]
            rounds: rounds::Rounds::default(),
            serving: Vec::new(),
            announce: None,
            digest_due: Millis::MAX,
            forked: MemberPart::default(),
            copies: MemberPart::default(),
            asked_for_id: MemberPart::default(),
            guests: GuestPart::default(),
            #[cfg(feature = "members")]
            compares: compares::Compares::default(),
            #[cfg(feature = "members")]
            shares: shares::Shares::default(),
            #[cfg(feature = "members")]
            levels: levels::Levels::default(),
            #[cfg(feature = "members")]
            origins: origins::Origins::default(),
            #[cfg(feature = "budgets")]
            wants: wants::Wants::default(),
        };
        sync.session = sync.random.next_u64();
        sync
    }

    /// Handles an event at the time `now`.
    pub fn handle(&mut self, now: Millis, replica: &mut Replica, input: Input<'_>) {
        let open = GUESTS && replica.members().configuration().is_none();
        if self.guests.starts.is_none() || matches!(input, Input::Renew { .. }) {
            self.note_starts(replica);
        }
        self.begin_unsent(now, replica);
        match input {
            Input::Connected { link, broadcast } => {
                self.connected(now, replica, link, broadcast, None);
            }
            #[cfg(feature = "members")]
            Input::Limited { link, owner, role } => {
                self.shares.connected(link, owner);
                self.connected(now, replica, link, false, Some((owner, role)));
            }
            #[cfg(feature = "guests")]
            Input::Own { writer, nonce } => self.is_own(replica, writer, nonce),
            Input::Disconnected { link } => self.disconnected(now, replica, link),
            Input::Frame { link, bytes } => {
                let Some(peer) = self.peer_mut(link) else {
                    return;
                };
                peer.traffic.update(|it| {
                    it.bytes_in += bytes.len() as u64;
                    it.last_heard = Some(now);
                });
                if let Err(error) = self.frame(now, replica, link, bytes) {
                    self.refuse(replica, Some(link), true, error);
                }
            }
            Input::Broadcast { from, bytes } => {
                if MEMBERS && let Err(error) = self.broadcast(now, replica, from, bytes) {
                    self.refuse(replica, from, false, error);
                }
            }
            Input::Changed => self.local_change(now),
            Input::Renew { writer } => self.renew(now, replica, writer),
            Input::Tick => self.tick(now, replica),
        }
        if open && replica.members().configuration().is_some() {
            // Earlier pushes were made as in an open space, and members rejected them.
            self.pushes.restart();
            #[cfg(feature = "members")]
            self.end_rounds(now);
            self.local_change(now);
        }
        self.note_starts(replica); // so that a store has new starts and what they show in one record
        self.look_for_forks(now, replica);
        #[cfg(feature = "members")]
        self.look_at_questions(now, replica);
        #[cfg(feature = "budgets")]
        self.look_at_wants(now, replica);
        self.note_sent(replica);
    }

    /// The next action, or `None` if there is none.
    pub fn poll(&mut self) -> Option<Output> {
        if let Some(key_id) = self.changed.pop() {
            return Some(Output::Changed { key_id });
        }
        if self.changed.capacity() > CHANGED_KEPT {
            self.changed = Vec::new();
        }
        if self.polled.is_empty() {
            core::mem::swap(&mut self.polled, &mut self.outputs);
            self.polled.reverse();
        }
        self.polled.pop()
    }

    /// When [`Input::Tick`] is due, or `None` if nothing waits.
    pub fn next_deadline(&self) -> Option<Millis> {
        let mut due = self.next_digest();
        let others = [
            self.announce.map(|(at, _)| at),
            self.return_due(),
            self.pushes.due(),
            #[cfg(feature = "members")]
            self.rounds.due(),
            self.pulls
                .deadline(Millis::from(self.config.pull_timeout_ms)),
            #[cfg(feature = "members")]
            self.compares.due(),
            #[cfg(feature = "members")]
            self.levels.due(),
            #[cfg(feature = "budgets")]
            self.wants.due(),
        ];
        for at in others {
            due = due.min(at.unwrap_or(Millis::MAX));
        }
        (due != Millis::MAX).then_some(due)
    }

    fn disconnected(&mut self, now: Millis, replica: &Replica, link: Link) {
        let until = now + Millis::from(self.config.resume_ms);
        let resumes = !self.is_limited(link);
        self.pulls.gone(link, resumes.then_some(until));
        #[cfg(feature = "members")]
        self.note_gone(now, replica, link);
        let at = self.peers.iter().position(|peer| peer.link == link);
        if let Some(at) = at {
            self.peers.remove(at);
            self.note_digest_due();
        }
        #[cfg(feature = "members")]
        self.compares.gone(link);
        #[cfg(feature = "members")]
        self.shares.gone(link);
        #[cfg(feature = "members")]
        self.levels.gone(link);
        #[cfg(feature = "budgets")]
        self.wants.gone(link);
        self.pull_next(now, replica);
    }

    fn frame(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let frame = Frame::decode(bytes)?;
        if frame.space != *replica.space() {
            return Err(LinkError::WrongSpace.into());
        }
        let has_hello = self.peer(link).is_some_and(|peer| peer.hello.is_some());
        if has_hello == matches!(frame.body, Body::Hello(_)) {
            return Err(LinkError::Handshake.into());
        }
        #[cfg(feature = "members")]
        self.denied(replica, link, &frame.body);
        if !self.may_say(replica, link, &frame.body)? {
            return Ok(());
        }
        #[cfg(feature = "members")]
        self.compares.outdate(link, &frame.body);
        match frame.body {
            Body::Hello(hello) => {
                self.receive_hello(now, replica, link, hello);
                Ok(())
            }
            Body::Digest(digests) => {
                #[cfg(feature = "members")]
                if self.compares.put_off(now, replica, link, digests, true) {
                    return Ok(());
                }
                self.digest_came(now, replica, link, &digests);
                Ok(())
            }
            Body::Contents {
                why,
                vector,
                writers,
            } => {
                self.contents(now, replica, link, (why, vector, &writers));
                Ok(())
            }
            Body::Writer(_) | Body::Return { .. } | Body::Ended { .. } | Body::Own { .. }
                if !GUESTS =>
            {
                Ok(())
            }
            Body::Writer(writer) => {
                self.set_writer(link, writer);
                self.admit_peer(now, replica, link);
                self.pull_again(now, replica, link);
                Ok(())
            }
            Body::Own { writer, nonce } => self.proof(now, replica, link, writer, nonce),
            Body::Return {
                writer,
                intro,
                owner,
            } => {
                self.end_writer(now, replica, link, (writer, intro, owner));
                Ok(())
            }
            Body::Ended { writer, last } => {
                self.ended(now, replica, link, (writer, last));
                Ok(())
            }
            Body::Pull(pull) => {
                self.serve(now, replica, link, &pull);
                Ok(())
            }
            Body::More { id, chunk } => {
                self.asks_on(now, replica, link, (id, chunk));
                Ok(())
            }
            #[cfg(feature = "members")]
            Body::Ask(ask) => {
                self.asked(now, replica, link, ask);
                Ok(())
            }
            #[cfg(feature = "members")]
            Body::Answer(answer) => {
                self.answered(now, replica, link, &answer);
                Ok(())
            }
            #[cfg(feature = "budgets")]
            Body::Want(_) | Body::Draw(_) => {
                self.asked_for(now, replica, link, frame.body);
                Ok(())
            }
            #[cfg(feature = "guests")]
            Body::Time(unix_ms) => {
                self.time_came(now, link, unix_ms);
                Ok(())
            }
            #[cfg(feature = "guests")]
            Body::Round(round) => self.round_came(now, replica, link, round),
            #[cfg(feature = "guests")]
            Body::Position(position) => {
                self.position_came(now, replica, link, &position);
                Ok(())
            }
            #[cfg(feature = "guests")]
            Body::Followed(_followed) => {
                #[cfg(feature = "members")]
                self.followed_came(replica, link, _followed);
                Ok(())
            }
            Body::Delta(delta) => self.delta(now, replica, link, delta, bytes.len()),
            Body::Push(message) => self.pushed(now, replica, Some(link), false, message, bytes),
        }
    }

    fn broadcast(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        from: Option<Link>,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let frame = Frame::decode(bytes)?;
        if frame.space != *replica.space() {
            return Err(LinkError::WrongSpace.into());
        }
        match frame.body {
            Body::Push(message) => {
                if let Some(link) = from {
                    self.may_tell(replica, link, &message)?;
                }
                self.pushed(now, replica, from, true, message, bytes)
            }
            _ => Err(DecodeError::Malformed {
                rule: detail(Rule::OnlyPushes),
            }
            .into()),
        }
    }

    fn tick(&mut self, now: Millis, replica: &mut Replica) {
        self.push_changes(now, replica);
        #[cfg(feature = "members")]
        self.send_rounds(now, replica);
        self.ask_for_lacking(now, replica);
        #[cfg(feature = "members")]
        self.compare_all(now, replica);
        let told = self.announce.take_if(|(at, _)| *at <= now);
        if told.is_some() {
            self.push_forked(replica);
        }
        if !NOTES_DUE || told.is_some() || self.digest_due <= now {
            self.send_digests(now, replica, told);
        }
        self.ask_to_end(now, replica);
        self.pulls
            .time_out(now, Millis::from(self.config.resume_ms));
        self.pull_next(now, replica);
    }

    /// Announces to the peers soon that this replica has something new.
    fn announce_soon(&mut self, now: Millis, teller: Option<Link>) {
        let due = now + Millis::from(self.config.push_delay_ms);
        self.announce = Some(match self.announce {
            None => (due, teller),
            // Two sources: each may lack what the other one sent.
            Some((at, before)) => (at, before.filter(|link| Some(*link) == teller)),
        });
    }

    /// Whether a peer stores operations made under idempotency keys, as nodes do.
    fn keeps_keys(&self, link: Link) -> bool {
        let hello = self.peer(link).and_then(|peer| peer.hello.as_ref());
        MEMBERS && hello.is_some_and(|it| it.remembers) && !self.is_limited(link)
    }

    /// Withdraws duplicates under one idempotency key that the last merge revealed.
    fn withdraw(&mut self, now: Millis, replica: &mut Replica) {
        let changes = &mut self.changed;
        let mut changed = |key_id, _| changes.push(key_id);
        // A writer at its last clock withdraws nothing. Other members do it.
        if MEMBERS
            && replica.idempotency.withdraw(
                &mut replica.state,
                &mut replica.membership,
                &mut changed,
            ) == Ok(true)
        {
            self.local_change(now);
        }
    }

    fn send(&mut self, replica: &Replica, link: Link, body: Body) {
        self.send_bytes(link, crate::wire::encode(replica.space(), &body));
    }

    fn send_bytes(&mut self, link: Link, bytes: impl Into<FrameBytes>) {
        if let Some(peer) = self.peer_mut(link) {
            let bytes = bytes.into();
            peer.traffic.update(|it| it.bytes_out += bytes.len() as u64);
            self.outputs.push(Output::Send { link, bytes });
        }
    }

    fn open_sessions(&self) -> impl Iterator<Item = &Session> {
        self.peers.iter().filter(|peer| peer.hello.is_some())
    }

    /// A time about one interval from now: between a half and one and a half.
    fn later(&mut self, now: Millis) -> Millis {
        let interval = Millis::from(self.config.interval_ms).max(1);
        now + interval / 2 + self.random.next_u64() % interval
    }
}
