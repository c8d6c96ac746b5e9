//! Rejoin: a replica that can't go on begins again from a member's whole state, under a fresh writer.

use super::ComingBack;
use crate::message::Message;
use crate::message::journal::EarlierWriter;
use crate::optional::{GUESTS, MEMBERS, Optional};
use crate::replica::Replica;
use crate::state::vector::VersionVector;
use crate::sync::{Body, Link, Millis, Output, SyncMachine};
use crate::wire::Last;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;

impl SyncMachine {
    /// Begins a rejoin of a copy that counted before its first link, and sends nothing of its writer before that is
    /// over. The copy may have begun from too old a state. Then members would end its writer, and the end would wait
    /// for the original.
    pub(in crate::sync) fn begin_unsent(&mut self, now: Millis, replica: &Replica) {
        if !GUESTS
            || !replica.stands_aside()
            || self.guests.coming_back.is_some()
            || replica.members().configuration().is_none()
            || replica.clock() == 0
            || replica.rejoin.sent_upto() > 0
        {
            return;
        }
        let Some(link) = self.links_to_ask(replica).first().copied() else {
            return;
        };
        let coming = ComingBack {
            link,
            since: now,
            due: now,
            last: Some(Last::Upto(0)),
            member: false,
            dropped: false,
            forgot: Vec::new(),
            published: 0,
            fresh: None,
            unsent: true,
        };
        // A transfer under way would bring what was counted since it began.
        self.serving.clear();
        self.guests.update(|it| it.coming_back = Some(coming));
        self.outputs.push(Output::Renew);
    }

    /// Asks this peer in place of the one before, if its message says that it is a member and nothing says that of
    /// the other one. A peer that is no member never answers, and the next one would be asked only after a while.
    pub(in crate::sync) fn ask_instead(
        &mut self,
        now: Millis,
        replica: &Replica,
        message: &Message,
        link: Link,
    ) {
        let leads = |link: Link| {
            let writer = self.writer_of(link);
            let tells = writer.is_some_and(|writer| message.states_member(&writer));
            tells || self.leads_to_member(replica, link)
        };
        let asked = self.guests.coming_back.as_ref();
        let asked = asked.filter(|it| it.last.is_none() && it.link != link);
        if asked.is_some_and(|it| !leads(it.link)) && leads(link) {
            if let Some(it) = self.coming_back_mut() {
                (it.link, it.since, it.due) = (link, now, now);
            }
            self.ask_to_end(now, replica);
        }
    }

    /// Whether this replica is no member, and a message's sender is one.
    pub(super) fn is_outvoted(&self, replica: &Replica, message: &Message, link: Link) -> bool {
        let Replica {
            state, membership, ..
        } = replica;
        let sender = self.writer_of(link).filter(|_| !membership.is_member());
        !self.is_early(replica)
            && sender.is_some_and(|it| {
                membership.accepts_from(state, &it)
                    && membership.is_from_member(state, message, &it)
            })
    }

    /// Handles the answer of a peer that is no member. If members have forgotten the writer, this peer has no record
    /// of it either, and need not be asked again.
    pub(super) fn hearsay(&mut self, link: Link) {
        let coming = self.coming_back_mut();
        let asked = coming.filter(|it| it.link == link && it.last.is_none());
        if let Some(it) = asked.filter(|it| !it.forgot.contains(&link)) {
            it.forgot.push(link);
        }
    }

    /// Whether nothing of the own writer may be sent.
    pub(in crate::sync) fn is_unsent(&self) -> bool {
        let it = self.guests.coming_back.as_ref();
        it.is_some_and(|it| it.unsent)
    }

    /// Whether this replica has announced its next writer, and still has the state that it drops then. This
    /// state must not be attributed to the next writer.
    pub(in crate::sync) fn is_about_to_go(&self) -> bool {
        let it = self.guests.coming_back.as_ref();
        it.is_some_and(|it| it.fresh.is_some())
    }

    /// Accepts a fresh writer id for the rejoin. Returns false if the id is for something else.
    pub(in crate::sync) fn fresh_writer(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        writer: WriterId,
    ) -> bool {
        if self.guests.resuming {
            self.guests.update(|it| it.resuming = false);
            self.make_again(now, replica, writer);
            return true;
        }
        let coming = self.coming_back_mut();
        let Some(it) = coming.filter(|it| it.last.is_some()) else {
            return false;
        };
        it.fresh = Some(writer);
        let link = it.link;
        let counts_all = it.last == Some(Last::Upto(replica.clock())) && replica.clock() > 0;
        if counts_all && !it.member && !it.unsent && self.go_on_from_here(now, replica, link) {
            return true;
        }
        self.end_partial_transfers();
        self.prove(replica, link);
        self.send(replica, link, Body::Writer(writer));
        self.pulls.put_first(now, link);
        self.pull_next(now, replica);
        true
    }

    /// Begins again from what is here, because all that this replica made counts. It lacks only what is new elsewhere,
    /// and pulls that. If it has anything that does not count, it finds that out then, and begins again once more, with a
    /// writer that has made nothing.
    ///
    /// Returns false if this replica lacks the admission of a writer here. Members may not have admitted its own writer yet.
    fn go_on_from_here(&mut self, now: Millis, replica: &mut Replica, link: Link) -> bool {
        let state = replica.delta(&VersionVector::default());
        if !state.is_whole() || state.stranger().is_some() {
            return false;
        }
        self.begin_again(now, replica, link, (&[], &state));
        if let Some(peer) = self.peer_mut(link) {
            peer.level = false;
        }
        true
    }

    /// Begins again from the whole state, which arrived in chunks and a last one.
    pub(in crate::sync) fn begin_again(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        (staged, state): (&[Vec<u8>], &Message),
    ) {
        let coming = self.guests.update(|it| it.coming_back.take()).flatten();
        let Some((it, writer)) = coming.and_then(|it| Some((it.clone(), it.fresh?))) else {
            return;
        };
        if replica.membership.knows_newer_members(state) {
            // The next rejection causes another request, to this peer or another one.
            if let Some(peer) = self.peer_mut(link) {
                peer.rests = true;
            }
            return self.send(replica, link, Body::Writer(replica.writer()));
        }
        for peer in &mut self.peers {
            // A message that this replica rejected before says nothing about the next one.
            (peer.level, peer.rests) = (peer.link == link, false);
        }
        #[cfg(feature = "guests")]
        self.stop_following();
        let member = it.member && !replica.membership.is_dropped_in(state, self.config.owner);
        if it.member && !member {
            // Members must not wait for a replica that is no member any more: it rejoins as a guest does.
            // They must not wait for the writer that it announced either, because its own end would wait for
            // that.
            if MEMBERS {
                let owner = self.config.owner;
                let intro = None;
                self.send(
                    replica,
                    link,
                    Body::Return {
                        writer,
                        intro,
                        owner,
                    },
                );
            }
            let coming = ComingBack {
                last: None,
                member: false,
                dropped: true,
                fresh: None,
                ..it
            };
            self.guests.update(|it| it.coming_back = Some(coming));
            return self.ask_to_end(now, replica);
        }
        let was = replica.writer();
        let before = self.peer(link).map_or(0, |peer| peer.published);
        let left = replica.rejoin.to_leave(
            &replica.state,
            &replica.membership,
            before.min(replica.rejoin.sent_as_guest()),
        );
        let changes = &mut self.changed;
        let mut changed = |key_id| changes.push(key_id);
        let journal =
            match replica
                .rejoin_mut()
                .begin_again_staged(writer, staged, state, &mut changed)
            {
                Ok(journal) => journal,
                Err(error) => return self.outputs.push(Output::Refused { close: None, error }),
            };
        let upto = match it.last {
            Some(Last::Upto(upto)) => Some(upto),
            _ => None,
        };
        if member {
            replica
                .rejoin
                .keep_earlier(EarlierWriter { journal, ..left });
        } else {
            let returned =
                replica
                    .rejoin_mut()
                    .make_again(journal, upto, it.published, &mut changed);
            self.outputs.push(Output::Returned(Box::new(returned)));
        }
        self.writer_changed(now, replica);
        if it.unsent {
            // A member may have admitted the writer before it counted, and would wait for it.
            let (intro, owner) = (None, None);
            let body = Body::Return {
                writer: was,
                intro,
                owner,
            };
            self.send(replica, link, body);
        }
        self.want(now, replica, link);
    }
}
