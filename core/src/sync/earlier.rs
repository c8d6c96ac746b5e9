//! Earlier writers, the machine's part of a [rejoin](crate::rejoin). The machine asks members which
//! transactions of these writers count. The replica makes the rest again.

use super::members::ASK_AGAIN_MS;
use super::members::Guests;
use super::scope::ScopeChecks;
use super::{Body, Link, Millis, Output, SyncMachine};
use crate::bounds::RETURNS_SENT_MAX;
use crate::error::Error;
use crate::message::Message;
use crate::message::journal::EarlierWriter;
use crate::message::records::Intro;
use crate::optional::{GUESTS, Optional};
use crate::replica::Replica;
use crate::state::vector::VersionVector;
use crate::wire::Last;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Maximum number of earlier writers that are ended at once.
const AT_ONCE: usize = 16;

/// How far a replica that is no member has found out how much of an earlier writer counts.
#[derive(Clone)]
pub(super) struct End {
    writer: WriterId,
    /// When the machine asks again.
    due: Millis,
    /// How many times the machine has asked.
    asked: usize,
    /// The links whose peers have forgotten the writer.
    forgot: Vec<Link>,
    last: Option<Last>,
}

/// The starts of this replica's owner that are no news, by their generations.
#[derive(Clone)]
pub(super) struct Starts {
    /// The newest one that the store had, or that has shown the store to be an old copy.
    newest: u64,
    /// Those of this process.
    own: Vec<u64>,
}

impl SyncMachine {
    /// The links to members, because only members decide what counts. If none is known to lead to a member,
    /// all links.
    pub(super) fn links_to_ask(&self, replica: &Replica) -> Vec<Link> {
        let links = || {
            let links = self.open_sessions().map(|peer| peer.link);
            links.filter(|link| !self.is_held_to(*link))
        };
        let members = links().filter(|link| self.leads_to_member(replica, *link));
        let members: Vec<Link> = members.collect();
        match members.is_empty() {
            true => links().collect(),
            false => members,
        }
    }

    /// Whether this member can rejoin from a member's state: the state of the message's sender, or of another
    /// peer. A guest's state may be older, and may lack records that only members receive.
    pub(super) fn is_answered_by_member(
        &self,
        replica: &Replica,
        message: &Message,
        link: Link,
    ) -> bool {
        let sender = self.writer_of(link);
        sender.is_some_and(|sender| {
            replica
                .membership
                .is_from_member(&replica.state, message, &sender)
        }) || self
            .open_sessions()
            .any(|peer| self.leads_to_member(replica, peer.link))
    }

    /// The link by which to rejoin after this message. It is the sender's link, unless the sender is a guest
    /// and the message says that another link leads to a member. Guests end no writer, so one would never
    /// reply.
    pub(super) fn link_to_come_back_by(
        &self,
        replica: &Replica,
        message: &Message,
        link: Link,
    ) -> Link {
        let tells = |link: Link| {
            let writer = self.writer_of(link);
            writer.is_some_and(|writer| message.states_member(&writer))
        };
        let leads = |link: &Link| self.leads_to_member(replica, *link) || tells(*link);
        match leads(&link) {
            true => link,
            false => {
                let mut links = self.open_sessions().map(|peer| peer.link);
                links.find(leads).unwrap_or(link)
            }
        }
    }

    pub(super) fn leads_to_member(&self, replica: &Replica, link: Link) -> bool {
        let writer = self.writer_of(link);
        writer.is_some_and(|writer| replica.members().is_counted_member(&writer))
    }

    /// Rejoins under another writer if another process writes under the own one. It waits until a link leads
    /// to a member, because some records of members may exist only at members.
    pub(super) fn leave_doubled(&mut self, now: Millis, replica: &Replica) {
        if !self.guests.doubled {
            return;
        }
        if self.guests.coming_back.is_some() {
            self.guests.update(|it| it.doubled = false);
            return;
        }
        let links = self.links_to_ask(replica);
        let member = links
            .iter()
            .find(|link| self.leads_to_member(replica, **link));
        if let Some(link) = member.copied() {
            self.guests.update(|it| it.doubled = false);
            self.begin_rejoin(now, replica, link);
        }
    }

    /// Ends the earlier writers whose transactions are not all in the state. Requests another id once it is
    /// certain how much of them counts, to make the rest again under this id.
    pub(super) fn look_back(&mut self, now: Millis, replica: &mut Replica) -> Result<(), Error> {
        let early = self.is_early(replica);
        replica
            .rejoin
            .drop_earlier(&replica.state, &replica.membership, early);
        // A rejoining replica first begins again. But the end of its writer may wait for acknowledgements of
        // these writers, for as long as they are not ended.
        let coming_back = self.guests.coming_back.is_some();
        // A member first catches up and announces itself.
        if early || self.guests.resuming || coming_back && replica.members().is_member() {
            return Ok(());
        }
        if !replica.members().is_member()
            && !coming_back
            && replica
                .rejoin
                .state_has_buried(&replica.state, &replica.membership)
        {
            // Its transactions are made again under another writer. Until then, no member sees this writer's
            // progress.
            if let Some(link) = self.links_to_ask(replica).first() {
                self.begin_rejoin(now, replica, *link);
            }
            return Ok(());
        }
        replica
            .rejoin
            .note_intros(&replica.state, &replica.membership);
        // The original of a copy has its writers ended itself.
        let is_own = |it: &(WriterId, Option<Intro>)| !replica.is_of_original(&it.0);
        let lost = replica
            .rejoin
            .lost(&replica.state, &replica.membership)
            .map(|it| (it.writer, it.intro))
            .filter(is_own);
        let lost: Vec<(WriterId, Option<Intro>)> = lost.collect();
        let mut left_behind = replica
            .rejoin
            .left_behind(&replica.state, &replica.membership);
        left_behind.retain(is_own);
        let open = |end: &End| {
            let mut all = left_behind.iter().chain(&lost);
            all.any(|it| it.0 == end.writer)
        };
        self.guests.update(|it| it.ends.retain(open));
        let room = AT_ONCE.saturating_sub(left_behind.len());
        for (writer, intro) in left_behind.into_iter().take(AT_ONCE) {
            match replica.members().is_member() {
                true => replica.members_mut().fence(&writer)?, // and so takes in one that nobody has yet
                // If no member has admitted it, its transactions here turn out to be too many then.
                false => self.ask_for_end(now, replica, writer, intro),
            }
        }
        let (mut certain, mut open) = (!lost.is_empty() && !coming_back, 0);
        for (writer, intro) in lost {
            let end = self.guests.ends.iter().find(|it| it.writer == writer);
            if replica.members().final_clock(&writer).is_some()
                || end.is_some_and(|it| it.last.is_some())
            {
                continue;
            }
            let seen = intro.is_some_and(|intro| replica.members().has_seen(&intro));
            if replica.members().is_member() && seen && !replica.state.knows(&writer) {
                continue; // nobody remembers
            }
            certain = false;
            open += 1;
            if open > room {
                break;
            }
            if !replica.members().is_member() {
                self.ask_for_end(now, replica, writer, intro);
            } else if replica.members().accepts_from(&writer) {
                replica.members_mut().fence(&writer)?;
            }
        }
        // No replica may begin again from a state with a writer that no member has admitted, here its own.
        let taken_in = replica.membership.intro(&replica.state).is_some()
            || replica.members().is_member()
            || replica.clock() == 0;
        if certain && taken_in {
            self.guests.update(|it| it.resuming = true);
            self.outputs.push(Output::Renew);
        }
        Ok(())
    }

    /// Whether the next fresh writer id is for transactions of earlier writers. Then the replica goes on from its own
    /// state, which has everything that the present writer published.
    #[cfg(feature = "members")]
    pub fn goes_on_from_own_state(&self) -> bool {
        self.guests.resuming
    }

    /// Records which starts of the owner this replica has received. A start that is later than the store's,
    /// and not of this process, shows that the store was an old copy. It may be older than this process's own
    /// start, because a process also announces itself if it can't catch up.
    pub(super) fn note_starts(&mut self, replica: &mut Replica) {
        // A page begins no member from a store.
        let owner = self.config.owner.filter(|_| !cfg!(target_family = "wasm"));
        let Some(owner) = owner.filter(|_| GUESTS) else {
            return;
        };
        let own = replica.members().incarnation(&replica.writer());
        let own = own.map(|it| it.1);
        let membership = &replica.membership;
        let later = self.guests.update(|guests| {
            let starts = guests.starts.get_or_insert_with(|| Starts {
                newest: membership.newest_start(&owner),
                own: Vec::new(),
            });
            let others = membership.other_starts(&owner);
            let news = others.filter(|it| *it > starts.newest && !starts.own.contains(it));
            let later = news.max();
            starts.newest = later.unwrap_or(starts.newest);
            starts.own.extend(own.filter(|it| !starts.own.contains(it)));
            later
        });
        if later.flatten().is_some() {
            replica.rejoin.doubt_earlier();
        }
    }

    /// Asks a peer to end an earlier writer, and how much of it counts.
    fn ask_for_end(
        &mut self,
        now: Millis,
        replica: &Replica,
        writer: WriterId,
        intro: Option<Intro>,
    ) {
        let mut links = self.links_to_ask(replica);
        let Some(Guests { ends, .. }) = self.guests.get_mut() else {
            return;
        };
        if !ends.iter().any(|it| it.writer == writer) {
            ends.push(End {
                writer,
                due: now,
                asked: 0,
                forgot: Vec::new(),
                last: None,
            });
        }
        let Some(end) = ends
            .iter_mut()
            .find(|it| it.writer == writer && it.due <= now)
        else {
            return;
        };
        if links.is_empty() {
            return;
        }
        end.due = now + ASK_AGAIN_MS;
        links.retain(|link| !end.forgot.contains(link));
        if links.is_empty() {
            end.last = Some(Last::Forgotten(true));
            return;
        }
        // Peers are asked in turn, because one may have no answer.
        let link = links[end.asked % links.len()];
        end.asked += 1;
        if !self.peer_accepts(replica, link, &writer) {
            return;
        }
        let body = Body::Return {
            writer,
            intro,
            owner: self.owner(replica),
        };
        self.send(replica, link, body);
    }

    /// Handles a peer's answer about how much of an earlier writer counts.
    pub(super) fn earlier_ended(&mut self, link: Link, writer: WriterId, last: Last) {
        let ends = self.guests.get_mut().into_iter();
        let mut ends = ends.flat_map(|it| &mut it.ends);
        let Some(end) = ends.find(|it| it.writer == writer) else {
            return;
        };
        match last {
            Last::Upto(_) | Last::Nothing => end.last = Some(last),
            Last::Forgotten(_) if !end.forgot.contains(&link) => {
                end.forgot.push(link);
                end.due = 0;
            }
            _ => {}
        }
    }

    /// Makes the operations of earlier writers again that do not count. It uses one more writer id, because
    /// the present writer may have made transactions, or may be the successor of others.
    pub(super) fn make_again(&mut self, now: Millis, replica: &mut Replica, writer: WriterId) {
        let originals = replica.aside.as_deref().unwrap_or_default();
        let is_own = |writer: &WriterId| !originals.contains(writer);
        let lost = replica.rejoin.take_lost(&replica.state, is_own);
        let upto = |it: &EarlierWriter| {
            let end = self.guests.ends.iter().find(|end| end.writer == it.writer);
            let last = end.and_then(|end| end.last);
            let told = match last {
                Some(Last::Upto(upto)) => Some(upto),
                Some(Last::Nothing) => Some(0),
                _ => None,
            };
            // A writer may have reached peers without receiving who admitted it. Then all members may have
            // forgotten it.
            let all = last == Some(Last::Nothing) || replica.membership.remembers_all();
            let known = all || it.intro.is_some() || it.before == 0;
            let upto = replica.members().final_clock(&it.writer).or(told);
            upto.filter(|upto| !it.doubtful && (*upto > 0 || known))
        };
        let upto: Vec<Option<u64>> = lost.iter().map(upto).collect();
        // Its budget amounts move along. At the end of the clock, the successor gets them later.
        #[cfg(feature = "budgets")]
        let _ = replica.quota_mut().hand_over(writer);
        let left = replica.rejoin.to_leave(
            &replica.state,
            &replica.membership,
            replica.rejoin.sent_as_guest(),
        );
        let mut state = replica.delta(&VersionVector::default());
        replica.membership.add_memory(&mut state, RETURNS_SENT_MAX);
        let changes = &mut self.changed;
        let mut changed = |key_id| changes.push(key_id);
        // This state has all transactions of the present writer.
        let journal = match replica
            .rejoin_mut()
            .begin_again(writer, &state, &mut changed)
        {
            Ok(journal) => journal,
            Err(error) => {
                for it in lost {
                    replica.rejoin.keep_earlier(it);
                }
                return self.outputs.push(Output::Refused { close: None, error });
            }
        };
        replica
            .rejoin
            .keep_earlier(EarlierWriter { journal, ..left });
        for (it, upto) in lost.into_iter().zip(upto) {
            let told = it.journal.told;
            let returned = replica
                .rejoin_mut()
                .make_again(it.journal, upto, told, &mut changed);
            self.outputs.push(Output::Returned(Box::new(returned)));
        }
        self.guests.update(|it| it.ends.clear());
        self.writer_changed(now, replica);
    }
}
