//! Spaces with members: who is at the other end, who is waited for, and who has to come back.
//!
//! A member admits whoever greets it and has written nothing yet, and gives up whoever it admitted
//! and has not heard for a lease. Who is told that its writer can't go on asks a member to end it,
//! waits until it is certain what of it counts, takes the whole state, and makes the rest again.

use super::{Body, Link, Millis, Output, Sync};
use crate::MEMBERS;
use crate::closed::Empty;
use crate::delta::Message;
use crate::error::Error;
use crate::replica::{Mark, Replica};
use crate::vector::VersionVector;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// How often collection waits for transfers that are under way.
const PATIENCE: u32 = 60;
/// How often a replica that has to come back asks again, in milliseconds.
const ASK_AGAIN_MS: Millis = 1_000;

/// What is known of those at the other ends.
#[derive(Clone)]
pub(super) struct Guests {
    /// Attached writers that no link leads to, and since when.
    silent: Vec<(WriterId, Millis)>,
    /// Those who asked to be ended, and are to be told what counts.
    leaving: Vec<(Link, WriterId)>,
    /// How often collection was put off.
    put_off: u32,
    coming_back: Option<ComingBack>,
}

impl Empty for Guests {
    const EMPTY: Guests = Guests {
        silent: Vec::new(),
        leaving: Vec::new(),
        put_off: 0,
        coming_back: None,
    };
    const NOTHING: &'static Guests = &Guests::EMPTY;
}

/// How far a replica that has to come back has got.
#[derive(Clone)]
struct ComingBack {
    /// By whom.
    link: Link,
    /// When it asks again.
    due: Millis,
    /// The last own clock that counts.
    upto: Option<u64>,
    /// The whole state in chunks, and the last chunk.
    state: Option<(Vec<Vec<u8>>, Message)>,
}

/// Whose changes a push carries: it alone is newer.
pub(super) fn origin(message: &Message) -> Option<WriterId> {
    if !MEMBERS {
        return None;
    }
    let mut newer = message.writers.iter().filter(|entry| entry.hi > entry.lo);
    newer.next().map(|entry| entry.writer)
}

impl Sync {
    /// The writer at the other end of a link.
    pub(super) fn writer_of(&self, link: Link) -> Option<WriterId> {
        let greeting = self.peer(link)?.greeting.as_ref().filter(|_| MEMBERS)?;
        Some(greeting.writer)
    }

    /// A peer holds this, and has made it durable before it said so: if it is a member, the own
    /// transactions among it need not be made again; if it is attached here, it has seen all that.
    pub(super) fn held_there(&self, replica: &mut Replica, link: Link, vector: &VersionVector) {
        let Some(writer) = self.writer_of(link).filter(|_| MEMBERS) else {
            return;
        };
        if replica.is_counted_member(&writer) {
            replica.held_by_member(vector.get(&replica.writer()));
        } else if replica.is_member() {
            replica.told(&writer, vector);
        }
    }

    /// The peer of a link writes under this writer.
    pub(super) fn set_writer(&mut self, link: Link, writer: WriterId) {
        if !MEMBERS {
            return;
        }
        let peer = self.peer_mut(link);
        if let Some(greeting) = peer.and_then(|peer| peer.greeting.as_mut()) {
            greeting.writer = writer;
        }
    }

    /// Takes in whoever greets and has written nothing yet.
    pub(super) fn admit(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        writer: WriterId,
        clock: u64,
    ) {
        if !MEMBERS || !replica.is_member() || clock > 0 || replica.knows(&writer) {
            return;
        }
        match replica.admit(&writer) {
            Ok(()) => self.local_change(now),
            Err(Error::Gone { .. }) => self.send(replica, link, Body::Ended { writer, upto: None }),
            // It is refused again when it writes, with the reason.
            Err(_) => {}
        }
    }

    /// Deals with a message that must not be merged; gives back what is the peer's fault.
    pub(super) fn not_merged(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Option<Link>,
        live: Option<WriterId>,
        error: Error,
    ) -> Result<(), Error> {
        let Some(link) = link.filter(|_| MEMBERS) else {
            return Err(error);
        };
        match error {
            // It will be told what is here, and tell more.
            Error::NotCovered(_) | Error::Unsure { .. } => Ok(()),
            // It goes by another writer by now, and the frame that said so was lost.
            Error::Stranger { writer: stranger } => {
                let live = live.filter(|live| *live != stranger && replica.is_member());
                if let Some(writer) = live.filter(|live| !replica.is_counted_member(live)) {
                    self.send(replica, link, Body::Ended { writer, upto: None });
                }
                Ok(())
            }
            Error::Gone { .. } | Error::Behind => {
                if let Some(writer) = live.filter(|live| self.writer_of(link) == Some(*live)) {
                    self.send(replica, link, Body::Ended { writer, upto: None });
                }
                Ok(())
            }
            Error::Outdated | Error::Retired => {
                self.come_back(now, replica, link);
                Ok(())
            }
            error => Err(error),
        }
    }

    /// Begins to come back, by this peer.
    fn come_back(&mut self, now: Millis, replica: &Replica, link: Link) {
        if self.guests.coming_back.is_some() {
            return;
        }
        if replica.is_member() {
            // What its owner promised and acknowledged is not to be lost by the way.
            let error = Error::Outdated;
            return self.outputs.push(Output::Refused { close: None, error });
        }
        self.guests.coming_back = Some(ComingBack {
            link,
            due: now,
            upto: None,
            state: None,
        });
        self.ask_to_end(now, replica);
    }

    /// Asks again for what is missing to come back.
    pub(super) fn ask_to_end(&mut self, now: Millis, replica: &Replica) {
        if !MEMBERS {
            return;
        }
        let alone = self.guests.coming_back.as_ref().is_some_and(|it| {
            // Another member will do as well.
            self.writer_of(it.link).is_none()
        });
        let other = self.greeted().map(|peer| peer.link).next();
        let Some(it) = &mut self.guests.coming_back else {
            return;
        };
        if alone && let Some(other) = other {
            it.link = other;
            (it.upto, it.due) = (None, now);
        }
        if it.upto.is_none() && it.due <= now {
            it.due = now + ASK_AGAIN_MS;
            let link = it.link;
            let (writer, admitted) = (replica.writer(), replica.home().is_some());
            self.send(replica, link, Body::Return { writer, admitted });
        }
    }

    pub(super) fn return_due(&self) -> Option<Millis> {
        if !MEMBERS {
            return None;
        }
        let it = self.guests.coming_back.as_ref()?;
        Some(it.due).filter(|_| it.upto.is_none())
    }

    /// Whether the next pull on this link is to bring everything, to begin again from.
    pub(super) fn wants_all(&self, link: Link) -> bool {
        let it = self.guests.coming_back.as_ref().filter(|_| MEMBERS);
        it.is_some_and(|it| it.link == link && it.upto.is_some())
    }

    /// A peer has to come back, and asks for its writer's end.
    pub(super) fn end_writer(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        (writer, admitted): (WriterId, bool),
    ) {
        self.set_writer(link, writer);
        if !MEMBERS || !replica.is_member() {
            return;
        }
        if admitted && !replica.knows(&writer) && replica.last_of(&writer).is_none() {
            return; // not heard of yet, or forgotten too long ago to say what counts
        }
        if replica.last_of(&writer).is_none() && replica.takes_from(&writer) {
            if replica.fence(&writer).is_err() {
                return;
            }
            self.local_change(now);
        }
        if !self.guests.leaving.contains(&(link, writer)) {
            self.guests.leaving.push((link, writer));
        }
        self.tell_ended(replica);
    }

    /// Tells those who asked what of them counts, where that is certain.
    fn tell_ended(&mut self, replica: &Replica) {
        for (link, writer) in core::mem::take(&mut self.guests.leaving) {
            match replica.last_of(&writer) {
                _ if self.writer_of(link) != Some(writer) => {}
                None => self.guests.leaving.push((link, writer)),
                upto => self.send(replica, link, Body::Ended { writer, upto }),
            }
        }
    }

    /// A peer says that a writer can't go on.
    pub(super) fn ended(
        &mut self,
        now: Millis,
        replica: &Replica,
        link: Link,
        (writer, upto): (WriterId, Option<u64>),
    ) {
        if !MEMBERS {
            return;
        }
        if writer != replica.writer() {
            // The frame that said so was lost.
            return self.send(replica, link, Body::Writer(replica.writer()));
        }
        self.come_back(now, replica, link);
        if let Some(it) = &mut self.guests.coming_back
            && it.link == link
            && upto.is_some()
        {
            it.upto = upto;
            self.want(now, replica, link);
        }
    }

    /// The whole state is there: all that is missing is a fresh writer id.
    pub(super) fn whole_state(&mut self, staged: Vec<Vec<u8>>, last: Message) {
        if let Some(it) = &mut self.guests.coming_back {
            it.state = Some((staged, last));
            self.outputs.push(Output::Renew);
        }
    }

    /// Goes on under a fresh writer id, from the whole state; false if that is not what it is for.
    pub(super) fn begin_again(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        writer: WriterId,
    ) -> bool {
        let ready = |it: &mut ComingBack| MEMBERS && it.state.is_some();
        let Some(ComingBack { state, upto, .. }) = self.guests.coming_back.take_if(ready) else {
            return false;
        };
        let Some((staged, last)) = state else {
            return false;
        };
        let outputs = &mut self.outputs;
        let mut changed = |handle| outputs.push(Output::Changed { handle });
        match replica.begin_again_staged(writer, &staged, &last, &mut changed) {
            Ok(journal) => {
                replica.make_again(journal, upto, 0, &mut changed);
                self.end_transfers();
                self.pushes.restart();
                let links: Vec<Link> = self.greeted().map(|peer| peer.link).collect();
                for link in links {
                    self.send(replica, link, Body::Writer(writer));
                }
                self.local_change(now);
                self.announce_soon(now, None);
            }
            Err(error) => self.outputs.push(Output::Refused { close: None, error }),
        }
        true
    }

    /// Does a member's duties; about once a second will do. `kept` is what the replica's store has
    /// written: nothing newer is collected. Tells whether the replica made transactions or dropped
    /// something: they are to be made durable as local changes are.
    ///
    /// # Errors
    /// [`Error::ClockExhausted`].
    pub fn tend(&mut self, now: Millis, replica: &mut Replica, kept: &Mark) -> Result<bool, Error> {
        if replica.configuration().is_none() {
            return Ok(false);
        }
        let before = replica.clock();
        self.give_up_silent(now, replica);
        replica.vote()?;
        replica.fence_strays()?;
        replica.absorb()?;
        replica.acknowledge()?;
        let busy = self.is_serving();
        self.guests.put_off = match busy {
            true => self.guests.put_off + 1,
            false => 0,
        };
        let mut collected = false;
        if !busy || self.guests.put_off > PATIENCE {
            if busy {
                self.end_transfers();
            }
            collected = replica.collect(kept);
        }
        self.tell_ended(replica);
        if replica.clock() > before {
            self.local_change(now);
        }
        Ok(collected || replica.clock() > before)
    }

    /// Declares dead who is attached here and was not heard for a lease.
    fn give_up_silent(&mut self, now: Millis, replica: &mut Replica) {
        let lease = Millis::from(self.config.lease_ms);
        if lease == 0 || !replica.is_member() {
            return;
        }
        let linked = self.greeted().filter_map(|peer| peer.greeting.as_ref());
        let linked: Vec<WriterId> = linked.map(|it| it.writer).collect();
        let attached: Vec<WriterId> = replica.attached().collect();
        let silent = &mut self.guests.silent;
        silent.retain(|it| attached.contains(&it.0) && !linked.contains(&it.0));
        for writer in attached {
            if !linked.contains(&writer) && !silent.iter().any(|it| it.0 == writer) {
                silent.push((writer, now));
            }
        }
        let late = silent.iter().filter(|it| it.1 + lease <= now);
        let late: Vec<WriterId> = late.map(|it| it.0).collect();
        for writer in late {
            // One that fails is tried again.
            let _ = replica.fence(&writer);
        }
    }
}
