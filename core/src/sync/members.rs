//! Spaces with members, the machine's part. It knows which member or guest is at the other end, which guest a
//! member waits for, and when this replica has to rejoin.
//!
//! A member admits a node at its hello if the node has written nothing yet, and a page with its first transaction. It
//! fences a guest that was [silent] for too long. A replica that learns that its writer is over
//! [rejoins](crate::rejoin). It asks a member to end the writer, and waits until it is certain which transactions count.
//! If all do, it goes on from what it has. Otherwise it merges the whole state, and makes the rest again.

#[cfg(feature = "guests")]
mod idle;
mod linked;
mod rejoin;
mod silent;

use super::earlier::End;
use super::scope::{ScopeChecks, WriterShares};
use super::{Body, Link, Millis, Output, SyncMachine};
use crate::error::{AdmissionError, Error, ErrorKind, detail};
use crate::message::Message;
use crate::message::records::{Configuration, Intro, Owner};
use crate::optional::{Empty, GUESTS, MEMBERS, Optional};
use crate::replica::{Mark, Replica};
use crate::wire::Last;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// Time in milliseconds for which collection waits for transfers that are under way, before it ends them.
const PATIENCE: Millis = 60_000;
/// How many times in a row collection may end them and double its wait. So a transfer over a slow link
/// gets enough time.
const DOUBLINGS_MAX: u32 = 6;
/// Time in milliseconds until a replica that has to rejoin asks again.
pub(super) const ASK_AGAIN_MS: Millis = 1_000;
/// Time in milliseconds for which it asks one peer.
const PATIENCE_MS: Millis = 20_000;

/// The state of the writers at the other ends of links.
#[derive(Clone)]
pub(super) struct Guests {
    /// Sponsored writers without a link, or that are behind: since when, and their progress.
    silent: Vec<(WriterId, Millis, u64)>,
    /// Pages whose links ended lately.
    gone: Vec<silent::Gone>,
    /// Peers that asked for the end of their writer, and wait for the clock up to which it counts.
    leaving: Vec<(Link, WriterId)>,
    /// Since when collection is put off.
    put_off: Option<Millis>,
    /// How many times in a row it ended transfers.
    ended: u32,
    pub(super) coming_back: Option<ComingBack>,
    /// Whether another process writes under the own writer, so that this replica has to rejoin.
    pub(super) doubled: bool,
    /// Earlier writers of this replica whose ends it requested from others.
    pub(super) ends: Vec<End>,
    /// Whether it requested a writer id, to make the operations of these writers again.
    pub(super) resuming: bool,
    /// The starts of its owner, if this process has looked.
    pub(super) starts: Option<super::earlier::Starts>,
    /// The writers of the same owner with their nonces, the last one last.
    pub(super) own: Vec<(WriterId, [u8; 16])>,
    /// When the machine may [hurry](SyncMachine::hurry) again.
    pub(super) hurry_due: Millis,
    /// Guests that were processes with members' keys, such as copies of members' data, the last one last.
    pub(super) brief: Vec<WriterId>,
    /// The own clock at the last look, and since when it is that.
    #[cfg(feature = "guests")]
    idle: (u64, Millis),
    /// The time that a member told last.
    #[cfg(feature = "guests")]
    pub(super) time: Option<super::time::TimeReport>,
}

impl Empty for Guests {
    const EMPTY: Guests = Guests {
        silent: Vec::new(),
        gone: Vec::new(),
        leaving: Vec::new(),
        put_off: None,
        ended: 0,
        coming_back: None,
        doubled: false,
        ends: Vec::new(),
        resuming: false,
        starts: None,
        own: Vec::new(),
        hurry_due: 0,
        brief: Vec::new(),
        #[cfg(feature = "guests")]
        idle: (0, 0),
        #[cfg(feature = "guests")]
        time: None,
    };
    const NOTHING: &'static Guests = &Guests::EMPTY;
}

/// The progress of a replica that has to rejoin.
#[derive(Clone)]
pub(super) struct ComingBack {
    /// The link by which it rejoins.
    link: Link,
    since: Millis,
    /// When it asks again.
    due: Millis,
    /// How much of the own writer counts, once a peer has answered. A member does not ask, because no answer
    /// is possible before it is back and votes.
    last: Option<Last>,
    member: bool,
    /// Whether its owner is no member any more, and only this replica has not received that.
    dropped: bool,
    /// The links whose peers have forgotten it, or are no members. Others may still have a record.
    forgot: Vec<Link>,
    /// The own clock up to which peers received this replica's transactions before those links.
    published: u64,
    /// The writer id to go on under. The replica announces it before it pulls the whole state. So nothing is
    /// collected that this state has and later ones lack.
    pub(super) fresh: Option<WriterId>,
    /// Whether nothing of the own writer was or is sent. So nothing of it counts, and no member has to say so.
    unsent: bool,
}

impl Guests {
    /// Records a chunk of the state from which this replica begins again: its sender is not late.
    pub(super) fn chunk_came(&mut self, now: Millis, link: Link) {
        let coming = self.coming_back.as_mut();
        if let Some(it) = coming.filter(|it| it.link == link && it.fresh.is_some()) {
            it.since = now;
        }
    }
}

/// The writer whose changes a push carries: the only one with something new.
pub(super) fn origin(message: &Message) -> Option<WriterId> {
    if !GUESTS {
        return None;
    }
    let mut newer = message
        .delta
        .writers
        .iter()
        .filter(|entry| entry.hi > entry.lo);
    newer.next().map(|entry| entry.writer)
}

impl SyncMachine {
    /// Records that peers may receive everything that is here, if there are peers.
    pub(super) fn note_sent(&self, replica: &mut Replica) {
        if GUESTS {
            replica.membership.note_early(self.is_early(replica));
        }
        if MEMBERS {
            let over = self.guests.coming_back.is_some();
            replica.membership.note_over(over);
        }
        if self.is_unsent() {
            return;
        }
        if GUESTS && self.open_sessions().next().is_some() {
            replica.rejoin.note_sent(
                &replica.state,
                replica.members().is_member() || self.is_early(replica),
            );
        } else if GUESTS {
            replica.rejoin.bundle_adds(true);
        }
    }

    /// Rejoins if peers received this guest's transactions and it never received who admitted it. A member
    /// may have retired it meanwhile, and the peers that it meets now may have no record of it. Two are judged by the
    /// state that they began from, and can wait for that: a member's start that is about to announce itself, and a guest
    /// that had seen something at its first transaction. If members have forgotten such a guest, they have acknowledged
    /// its end, which it had not seen.
    pub(super) fn doubt(&mut self, now: Millis, replica: &Replica, link: Link) {
        let guest =
            GUESTS && replica.members().configuration().is_some() && !replica.members().is_member();
        let guest = guest && !self.is_early(replica);
        let guest = guest && replica.membership.is_lonely();
        let told = self.peer(link).is_some_and(|peer| peer.published > 0);
        if guest && told && replica.membership.intro(&replica.state).is_none() {
            self.begin_rejoin(now, replica, link);
        }
    }

    /// Whether this replica's owner is a member, and it has not announced itself yet. A replica that stands aside
    /// is not about to do so.
    pub(super) fn is_early(&self, replica: &Replica) -> bool {
        let named = |it: &Configuration| self.owner(replica).is_some_and(|owner| it.has(&owner));
        replica.members().configuration().is_some_and(named) && !replica.members().is_announced()
    }

    /// The owner whose member this replica is to be. It is to be none while it stands aside.
    pub(super) fn owner(&self, replica: &Replica) -> Option<Owner> {
        self.config.owner.filter(|_| !replica.stands_aside())
    }

    /// Sets the owner whose key a link has authenticated. A member's start is known by that before it announces
    /// itself. Without this, such a start is nobody's.
    pub fn set_owner(&mut self, link: Link, owner: Owner) {
        if let Some(peer) = self.peer_mut(link) {
            peer.owner.set(Some(owner));
        }
    }

    /// Admits a peer that has written nothing yet, unless it is a reader.
    pub(super) fn admit(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        writer: WriterId,
        clock: u64,
    ) {
        if !GUESTS || !replica.members().is_member() || replica.state.knows(&writer) {
            return;
        }
        if !self.may_be_taken_in(link) {
            return;
        }
        if clock > 0 {
            let forgotten = replica.members().final_clock(&writer).is_none();
            let peer = self.peer_mut(link);
            return peer.into_iter().for_each(|peer| peer.forgotten = forgotten);
        }
        let hello = self.peer(link).and_then(|peer| peer.hello.as_ref());
        let remembers = hello.is_some_and(|it| it.remembers);
        let room = self.room_in_share(link, 1);
        let taken_in = room.and_then(|()| match remembers {
            true => replica.members_mut().admit(&writer),
            false => replica.membership.admit_guest(&mut replica.state, &writer),
        });
        match taken_in {
            Ok(()) => {
                self.count_writer(replica, link, writer);
                self.local_change(now);
                let owner = self.peer(link).and_then(|peer| *peer.owner);
                let has = |it: &Configuration| owner.is_some_and(|owner| it.has(&owner));
                if replica.members().configuration().is_some_and(has) {
                    self.note_brief(writer);
                }
            }
            Err(error) if error.kind() == ErrorKind::Gone => {
                self.report_ended(replica, link, writer, u64::MAX)
            }
            // It is rejected again when it writes, with the reason.
            Err(_) => {}
        }
    }

    /// Handles the error of a message that was not merged. Returns the error if it is the peer's fault.
    pub(super) fn not_merged(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Option<Link>,
        message: &Message,
        live: Option<WriterId>,
        error: Error,
    ) -> Result<(), Error> {
        let Some(link) = link.filter(|_| GUESTS) else {
            return Err(error);
        };
        let upto = live.and_then(|live| message.hi(&live)).unwrap_or(0);
        match error.kind() {
            // The peer will receive what is here, and send more.
            ErrorKind::NotCovered | ErrorKind::Unsure => Ok(()),
            // The peer has another writer by now, and the frame that named it was lost.
            ErrorKind::Stranger => {
                let is_stranger = |live: &WriterId| {
                    let writer = detail(*live);
                    error == AdmissionError::Stranger { writer }.into()
                };
                let live = live.filter(|live| !is_stranger(live) && replica.members().is_member());
                if let Some(writer) = live.filter(|live| !replica.members().is_counted_member(live))
                {
                    self.report_ended(replica, link, writer, upto);
                }
                Ok(())
            }
            kind @ (ErrorKind::Gone | ErrorKind::Behind) => {
                let upto = match kind {
                    ErrorKind::Behind => upto,
                    _ => u64::MAX, // whatever it tells
                };
                // Members decide what counts, so it is this replica that holds what does not.
                if kind == ErrorKind::Behind && self.is_outvoted(replica, message, link) {
                    self.begin_rejoin(now, replica, link);
                    return Ok(());
                }
                if let Some(writer) = live.filter(|live| self.writer_of(link) == Some(*live)) {
                    self.report_ended(replica, link, writer, upto);
                }
                Ok(())
            }
            ErrorKind::Outdated | ErrorKind::Retired => {
                if !replica.members().is_member()
                    || self.is_answered_by_member(replica, message, link)
                {
                    let link = self.link_to_come_back_by(replica, message, link);
                    self.ask_instead(now, replica, message, link);
                    self.begin_rejoin(now, replica, link);
                }
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Reports to a peer that its writer can't go on, as its messages up to this clock show. The peer accepts
    /// this only from a member.
    fn report_ended(&mut self, replica: &Replica, link: Link, writer: WriterId, upto: u64) {
        let last = match replica.members().is_member() {
            true => Last::Unsure(upto),
            false => Last::Hearsay,
        };
        self.send(replica, link, Body::Ended { writer, last });
    }

    /// Begins a rejoin, by this peer or by a better one.
    pub(super) fn begin_rejoin(&mut self, now: Millis, replica: &Replica, link: Link) {
        if self.guests.coming_back.is_some() {
            return;
        }
        let member = replica.members().is_member();
        let links = self.links_to_ask(replica);
        if member {
            self.outputs.push(Output::Renew);
        }
        let link = match links.contains(&link) {
            true => link,
            false => links.first().copied().unwrap_or(link),
        };
        let coming = ComingBack {
            link,
            since: now,
            due: now,
            last: member.then_some(Last::Unsure(0)),
            member,
            dropped: false,
            forgot: Vec::new(),
            published: u64::MAX,
            fresh: None,
            unsent: false,
        };
        self.guests.update(|it| it.coming_back = Some(coming));
        self.ask_to_end(now, replica);
    }

    fn coming_back_mut(&mut self) -> Option<&mut ComingBack> {
        self.guests.get_mut()?.coming_back.as_mut()
    }

    /// Whether this replica has to rejoin, and does not know yet what counts of its writer.
    pub(super) fn is_coming_back(&self) -> bool {
        let it = self.guests.coming_back.as_ref();
        it.is_some_and(|it| it.last.is_none())
    }

    /// Repeats the requests that a rejoin still needs.
    pub(super) fn ask_to_end(&mut self, now: Millis, replica: &Replica) {
        let Some(it) = &self.guests.coming_back else {
            return;
        };
        // Another peer is as good.
        let gone = self.writer_of(it.link).is_none();
        let late = it.since + PATIENCE_MS <= now;
        // A replica that has announced itself meanwhile need not wait.
        if replica.members().is_member() && !it.member && !it.dropped {
            let link = it.link;
            self.guests.update(|it| it.coming_back = None);
            return self.begin_rejoin(now, replica, link);
        }
        let links = self.links_to_ask(replica);
        let after = links.iter().position(|link| *link == it.link);
        let next = links.get(after.map_or(0, |at| (at + 1) % links.len()));
        if (gone || late)
            && let Some(next) = next.copied()
        {
            let unsent = self.is_unsent();
            self.guests.update(|it| it.coming_back = None);
            return match unsent {
                true => self.begin_unsent(now, replica),
                false => self.begin_rejoin(now, replica, next),
            };
        }
        let Some(it) = self.coming_back_mut() else {
            return;
        };
        if it.last.is_none() && it.due <= now {
            it.due = now + ASK_AGAIN_MS;
            let link = it.link;
            if !self.peer_accepts(replica, link, &replica.writer()) {
                return;
            }
            let body = Body::Return {
                writer: replica.writer(),
                intro: replica.membership.intro(&replica.state),
                owner: self.owner(replica),
            };
            self.send(replica, link, body);
        }
    }

    pub(super) fn return_due(&self) -> Option<Millis> {
        let it = self.guests.coming_back.as_ref()?;
        Some(it.due).filter(|_| it.last.is_none())
    }

    /// Whether the next pull on this link is to bring everything, to begin again from it.
    pub(super) fn wants_all(&self, replica: &Replica, link: Link) -> bool {
        let it = self.guests.coming_back.as_ref();
        it.is_some_and(|it| it.link == link && it.fresh.is_some())
            || self.has_strangers(replica) && self.leads_to_member(replica, link)
    }

    /// Asks each member once for its record of forgotten writers, if this replica lacks it.
    fn ask_for_memory(&mut self, now: Millis, replica: &Replica) {
        if self.config.owner.is_none()
            || !replica.members().is_member()
            || replica.membership.remembers_all()
        {
            return;
        }
        let links = self.links_to_ask(replica);
        let mut peers = self.peers.iter_mut();
        let Some(peer) = peers.find(|it| links.contains(&it.link) && !it.asked_memory) else {
            return;
        };
        peer.asked_memory = true;
        let link = peer.link;
        self.want(now, replica, link);
    }

    /// Handles the request of a rejoining peer to end its writer.
    pub(super) fn end_writer(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        (writer, intro, owner): (WriterId, Option<Intro>, Option<Owner>),
    ) {
        if !GUESTS || !replica.members().is_member() {
            return;
        }
        let unknown =
            !replica.state.knows(&writer) && replica.members().final_clock(&writer).is_none();
        if unknown && !self.may_be_taken_in(link) {
            // Nothing of this writer was accepted on this link, and nothing is written because of it. Its
            // peer may have sent records elsewhere under other rights, and this member has no record of that.
            let last = Last::Forgotten(false);
            return self.send(replica, link, Body::Ended { writer, last });
        }
        if let Some(intro) = intro.filter(|_| unknown) {
            if replica.members().has_seen(&intro) {
                let before = self.peer(link).is_some_and(|peer| peer.forgotten);
                let last = Last::Forgotten(!before);
                return self.send(replica, link, Body::Ended { writer, last });
            }
            // No member has forgotten it before this one received it. Perhaps no member receives more of it.
            if !replica.members().is_established() {
                return;
            }
        }
        if replica.members().final_clock(&writer).is_none()
            && replica.members().accepts_from(&writer)
        {
            // A writer that no member has received takes room, too, until it is forgotten.
            let room = self.room_in_share(link, usize::from(unknown));
            if room
                .and_then(|()| replica.members_mut().fence(&writer))
                .is_err()
            {
                return;
            }
            self.count_writer(replica, link, writer);
            self.local_change(now);
        }
        if !self.guests.leaving.contains(&(link, writer)) {
            self.guests.update(|it| it.leaving.push((link, writer)));
        }
        self.reply_to_leaving(replica);
        let named = |it: &Configuration| owner.is_some_and(|owner| it.has(&owner));
        if replica.members().final_clock(&writer).is_none()
            && replica.members().configuration().is_some_and(named)
        {
            let last = Last::Member;
            self.send(replica, link, Body::Ended { writer, last });
        }
    }

    /// Replies to peers that wait for what counts of their writers, where that is certain.
    fn reply_to_leaving(&mut self, replica: &Replica) {
        let leaving = self.guests.update(|it| core::mem::take(&mut it.leaving));
        for (link, writer) in leaving.into_iter().flatten() {
            match replica.members().final_clock(&writer) {
                _ if self.peer(link).is_none() => {}
                None => {
                    self.guests.update(|it| it.leaving.push((link, writer)));
                }
                Some(upto) => {
                    let last = match upto == 0 && replica.membership.remembers_all() {
                        true => Last::Nothing,
                        false => Last::Upto(upto),
                    };
                    self.send(replica, link, Body::Ended { writer, last });
                }
            }
        }
    }

    /// Handles a peer's report that a writer can't go on.
    pub(super) fn ended(
        &mut self,
        now: Millis,
        replica: &Replica,
        link: Link,
        (writer, last): (WriterId, Last),
    ) {
        if !GUESTS {
            return;
        }
        if writer != replica.writer() {
            match last {
                // The frame that named the present writer was lost.
                Last::Unsure(_) | Last::Hearsay => {
                    self.send(replica, link, Body::Writer(replica.writer()));
                }
                last => self.earlier_ended(link, writer, last),
            }
            return;
        }
        // A member that others have admitted believes no such report before it sees for itself. A start that
        // had not announced itself was judged as a guest, more strictly than it is then.
        let as_guest =
            matches!(last, Last::Unsure(upto) if replica.membership.is_announced_after(upto));
        let judged = as_guest || replica.membership.is_acknowledged() || self.is_early(replica);
        if last == Last::Hearsay {
            return self.hearsay(link);
        }
        if self.guests.coming_back.is_none() && judged {
            return;
        }
        self.begin_rejoin(now, replica, link);
        let published = self.peer(link).map_or(0, |peer| peer.published);
        let all = replica.rejoin.sent_upto();
        let mut others = self.links_to_ask(replica);
        others.retain(|other| *other != link);
        let Some(it) = self.coming_back_mut() else {
            return;
        };
        if it.unsent || it.link != link || matches!(last, Last::Unsure(_)) {
            return;
        }
        // The writer may have been admitted without receiving that. Then all members may have forgotten it.
        let last = match last {
            Last::Upto(0)
                if published > 0 && replica.membership.intro(&replica.state).is_none() =>
            {
                Last::Forgotten(false)
            }
            Last::Nothing => Last::Upto(0),
            last => last,
        };
        if last == Last::Member {
            (it.member, it.dropped) = (true, false);
        }
        if let Last::Forgotten(here) = last {
            it.forgot.push(link);
            let published = if here { all } else { published };
            it.published = it.published.min(published);
            if let Some(other) = others.iter().find(|other| !it.forgot.contains(other)) {
                (it.link, it.due) = (*other, now);
                return;
            }
        }
        if it.last.replace(last).is_none() {
            self.outputs.push(Output::Renew);
        }
    }

    /// Handles the change to another writer id and another state.
    pub(super) fn writer_changed(&mut self, now: Millis, replica: &Replica) {
        self.pushes.restart();
        #[cfg(feature = "members")]
        self.end_rounds(now);
        for at in 0..self.peers.len() {
            let peer = &mut self.peers[at];
            peer.published = 0;
            if peer.hello.is_some() {
                let link = peer.link;
                self.prove(replica, link);
                self.send(replica, link, Body::Writer(replica.writer()));
            }
        }
        self.local_change(now);
        self.announce_soon(now, None);
    }

    /// Performs a member's duties. Call it about once a second. `stored` is what the replica's store has
    /// written: nothing newer is collected.
    ///
    /// Returns whether the replica made transactions or dropped something. The caller makes this durable as
    /// it does local changes.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`](crate::WriteError::ClockExhausted).
    pub fn tend(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        stored: &Mark,
    ) -> Result<bool, Error> {
        if replica.members().configuration().is_none() {
            return Ok(false);
        }
        let before = replica.clock();
        self.note_starts(replica);
        if MEMBERS {
            self.sweep_shares(now, replica);
            replica
                .rejoin
                .keep_no_journal_alone(&replica.state, &replica.membership);
            self.give_up_silent(now, replica);
        }
        // Guests do so, too: a page may have stored transactions that no member received.
        self.look_back(now, replica)?;
        #[cfg(feature = "guests")]
        self.hand_over_idle(now, replica);
        if MEMBERS {
            let linked = self.linked_members(replica).len();
            replica.membership.note_linked(linked);
            replica.rejoin.bundle_adds(linked == 0);
            #[cfg(feature = "members")]
            self.note_pages(now, replica);
            replica.members_mut().vote()?;
            replica.members_mut().fence_strays()?;
            replica.members_mut().retire()?;
            #[cfg(feature = "budgets")]
            {
                replica.quota_mut().note_known(&mut self.changed)?;
                replica.quota_mut().end_periods(&mut self.changed)?;
                replica.quota_mut().end_leases(&mut self.changed)?;
            }
            replica.members_mut().acknowledge()?;
            self.hurry(now, replica);
        }
        let busy = self.is_serving(replica);
        let patience = PATIENCE << self.guests.ended;
        let since = self.guests.put_off.unwrap_or(now);
        let waits = busy && now < since + patience;
        self.guests.update(|it| {
            it.put_off = waits.then_some(since);
            it.ended = match busy {
                true => (it.ended + u32::from(!waits)).min(DOUBLINGS_MAX),
                false => 0,
            };
        });
        let mut collected = false;
        if !waits {
            if busy {
                self.end_transfers();
            }
            collected = replica.members_mut().decide_expiries(stored)?;
            self.push_before_collection(now, replica);
            #[cfg(feature = "members")]
            self.close_rounds(now, replica);
            if self.open_sessions().next().is_some() {
                // A peer may hold this replica's transactions up to here.
                replica.rejoin.separate_adds();
            }
            let dropped = replica.members_mut().collect(stored);
            #[cfg(feature = "members")]
            if dropped {
                self.note_collected(replica);
            }
            collected |= dropped;
        }
        self.reply_to_leaving(replica);
        self.ask_for_memory(now, replica);
        if replica.clock() > before {
            self.local_change(now);
        }
        Ok(collected || replica.clock() > before)
    }

    /// Handles a request for the next chunk. The peer has merged nothing of the chunk before it has all of
    /// them, which may take longer than the guest timeout.
    pub(super) fn chunk_taken(&mut self, now: Millis, link: Link) {
        let writer = self.writer_of(link);
        let silent = self.guests.get_mut().into_iter();
        let silent = silent.flat_map(|it| &mut it.silent);
        for it in silent.filter(|it| Some(it.0) == writer) {
            it.1 = now;
        }
    }
}

#[cfg(test)]
mod tests;
