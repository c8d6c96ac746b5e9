//! Rights: given when a peer connects or shows a ticket, and checked again when they may have
//! changed.

use super::Network;
use crate::join::{Answer, NAMED_MAX, Question, Removed, may_pass};
use crate::network_metrics::{Direction, Protocol};
use crate::reason::Reason;
use crate::rights::Right;
use libp2p::PeerId;
use libp2p::request_response;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};
use tallymesh_node_engine::access::{Flaw, Grant};
use tallymesh_node_engine::driver::{Admission, Handle};
use tallymesh_node_ground::identity::owner_of;
use tallymesh_node_ground::model::{Carried, Role, SpaceId};
use tallymesh_node_ground::rate::LogPace;

type JoinEvent = request_response::Event<Question, Answer>;

/// Paces the log lines about peers whose rights have changed.
static RIGHTS_LOG: LogPace = LogPace::new();

/// How often to check whether tickets have ended or were revoked.
const REVIEW_INTERVAL: Duration = Duration::from_secs(1);

/// How long a peer that is no longer a member may receive that news, and send its changes. A longer
/// time leaves it the rights of a member. A shorter one may end before it receives the news.
const LEAVE_GRACE: Duration = Duration::from_secs(1);

/// How long a majority may take to agree to a new member.
const ADMIT_WAIT: Duration = Duration::from_secs(60);

/// How long a peer with new rights may take to read the answer before its connections are closed.
/// If the end arrives along with the answer, libraries handle the end first and the answer is lost.
const ANSWER_GRACE: Duration = Duration::from_millis(250);

/// How long the answer may take to be sent, while the peer's connections stay open.
const ANSWER_MAX: Duration = Duration::from_secs(2);

impl Network {
    /// Gives a connected peer its rights. Returns the spaces in which it takes part.
    pub(super) fn give_rights(&mut self, id: &PeerId) -> Vec<Carried> {
        let rights = self.rights.of(id, self.clock.now());
        self.peers.get_mut(id).map_or(Vec::new(), |peer| {
            peer.rights = rights;
            peer.spaces(owner_of(id))
        })
    }

    /// Shows a peer the tickets that this node has for it.
    pub(super) fn show_tickets(&mut self, peer: &PeerId) {
        for ticket in self.rights.to_show(peer, self.clock.now()) {
            self.show_ticket(peer, ticket);
        }
    }

    fn show_ticket(&mut self, peer: &PeerId, ticket: String) {
        self.ask_to_join(peer, Question::Ticket(ticket));
    }

    fn ask_to_join(&mut self, peer: &PeerId, question: Question) {
        self.count(peer, Protocol::Join, Direction::Out, question.size());
        let joins = &mut self.swarm.behaviour_mut().joins;
        let ticket = match &question {
            Question::Ticket(ticket) => Some(ticket.clone()),
            Question::Removed(_) => None,
        };
        let request = joins.send_request(peer, question);
        self.tickets_sent.extend(ticket.map(|it| (request, it)));
    }

    /// Informs a peer that it is no longer a member, if it was away when it was removed. As a
    /// stranger, it receives no frame about that.
    pub(super) fn tell_removed(&mut self, peer: &PeerId) {
        let removed = self.rights.to_tell(peer);
        if !removed.is_empty() {
            self.ask_to_join(peer, Question::Removed(removed));
        }
    }

    /// Handles a peer's report that this node is no longer a member.
    fn told(&mut self, peer: &PeerId, rows: &[Removed]) -> Answer {
        let noted = self.rights.told(peer, rows, self.clock.now());
        if noted {
            // Tickets that were signed after the removal count.
            for peer in self.peers.ids() {
                self.show_tickets(&peer);
            }
        }
        Answer::Noted { noted }
    }

    /// Shows tickets again if the last time may have been too early.
    pub(super) fn show_again(&mut self, now: Instant) {
        for id in self.peers.ids() {
            let peer = self.peers.get_mut(&id).filter(|peer| !peer.dropped);
            if peer.is_some_and(|peer| peer.shows.is_due(now)) {
                self.show_tickets(&id);
            }
        }
    }

    /// Handles a change of the members of some space.
    pub(super) fn members_changed(&mut self) {
        let (member_lists, now) = (
            self.member_lists.borrow_and_update().clone(),
            self.clock.now(),
        );
        let peers = self.peers.ids();
        let shown: Vec<Vec<String>> = peers
            .iter()
            .map(|it| self.rights.to_show(it, now))
            .collect();
        self.rights.set_member_lists(member_lists, now);
        if let Some(peer_directory) = &mut self.peer_directory {
            peer_directory.members_changed();
        }
        self.learn_members();
        self.look_at_rights(Instant::now());
        self.admit_all(true, Instant::now());
        // A peer that is only now known as a member is not shown tickets again by other code.
        for (peer, shown) in peers.iter().zip(&shown) {
            for ticket in self.rights.to_show(peer, now) {
                if !shown.contains(&ticket) {
                    self.show_ticket(peer, ticket);
                }
            }
        }
    }

    /// Reserves places for the members of this node's spaces.
    pub(super) fn learn_members(&mut self) {
        self.fellows = self.rights.fellows();
        let members = self.fellows.iter().copied();
        self.swarm.behaviour_mut().policy.reserve_members(members);
    }

    /// Checks at intervals whether tickets have ended or were revoked, and whether the time of
    /// leaving peers is over.
    pub(super) fn review(&mut self, now: Instant) {
        let leaves = || self.peers.iter().any(|(_, peer)| peer.loses.is_some());
        let generation = self.ledger.generation();
        if std::mem::replace(&mut self.revoked_seen, generation) != generation {
            self.review_next = now;
        }
        if now >= self.review_next && (self.rights.has_shown() || leaves()) {
            self.review_next = now + REVIEW_INTERVAL;
            self.rights.tidy(self.clock.now());
            self.look_at_rights(now);
            self.admit_all(false, now);
        }
    }

    /// Closes the connections of the peers whose rights have changed since they connected.
    fn look_at_rights(&mut self, now: Instant) {
        for id in self.peers.ids() {
            self.look_at_rights_of(id, now);
        }
    }

    /// Closes the connections of a peer if its rights have changed since it connected.
    fn look_at_rights_of(&mut self, id: PeerId, now: Instant) {
        let wanted = self.rights.of(&id, self.clock.now());
        let Some(peer) = self.peers.get_mut(&id).filter(|peer| !peer.dropped) else {
            return;
        };
        let since = match Change::of(&peer.rights, &wanted) {
            Change::None => {
                peer.loses = None;
                return;
            }
            Change::AtOnce => {
                // The review returns to this peer, although its ticket may be forgotten by then.
                peer.loses.get_or_insert(now);
                peer.reads_until.map_or(now, |until| until.max(now))
            }
            Change::Left => *peer.loses.get_or_insert(now) + LEAVE_GRACE,
        };
        if since > now {
            self.review_next = self.review_next.min(since);
            return;
        }
        if let Some(left_out) = RIGHTS_LOG.admit(now) {
            tracing::info!(peer = %id, left_out, "its rights have changed: it may come again");
        }
        self.drop_peer(id);
    }

    pub(super) fn join_event(&mut self, event: JoinEvent) {
        let now = Instant::now();
        match event {
            request_response::Event::Message {
                peer,
                message:
                    request_response::Message::Request {
                        request, channel, ..
                    },
                ..
            } => {
                let size = request.size();
                self.count(&peer, Protocol::Join, Direction::In, size);
                // Signatures take time. A peer that shows more than it may send frames gets no
                // answer.
                if self.wait(&peer, (1, size), now).is_some() {
                    return;
                }
                self.spend(peer, (1, size), now);
                let answer = match request {
                    Question::Ticket(ticket) => {
                        self.reads_until(&peer, now + ANSWER_MAX);
                        self.let_in(peer, &ticket, now)
                    }
                    Question::Removed(rows) => self.told(&peer, &rows),
                };
                let joins = &mut self.swarm.behaviour_mut().joins;
                // Sending fails if the connection is gone, which another event reports.
                let _ = joins.send_response(channel, answer);
            }
            // A peer with new rights is disconnected only now, so that it has the answer.
            request_response::Event::ResponseSent { peer, .. } => {
                self.reads_until(&peer, now + ANSWER_GRACE);
                self.look_at_rights_of(peer, now);
            }
            request_response::Event::InboundFailure { peer, .. } => {
                self.reads_until(&peer, now);
                self.look_at_rights_of(peer, now);
            }
            request_response::Event::Message {
                peer,
                message:
                    request_response::Message::Response {
                        request_id,
                        response,
                    },
                ..
            } => {
                let ticket = self.tickets_sent.remove(&request_id).unwrap_or_default();
                match response {
                    Answer::Joined { role, spaces } => {
                        self.rights.answered(&ticket, None);
                        let spaces = spaces.join(",");
                        tracing::info!(%peer, role, spaces, "it takes the ticket");
                    }
                    Answer::Refused { code, detail } => {
                        // A refusal for lack of room is no flaw of the ticket.
                        if let Some(flaw) = Flaw::told(&code) {
                            self.rights.answered(&ticket, Some(flaw));
                        }
                        tracing::warn!(%peer, code, "it refuses the ticket: {detail}");
                        let asked = self.peers.get_mut(&peer).filter(|_| may_pass(&code));
                        asked.into_iter().for_each(|peer| peer.shows.again(now));
                    }
                    Answer::Noted { noted } => {
                        tracing::debug!(%peer, noted, "it was told that it is no member any more");
                    }
                }
            }
            request_response::Event::OutboundFailure {
                peer,
                error,
                request_id,
                ..
            } => {
                self.tickets_sent.remove(&request_id);
                tracing::debug!(%peer, %error, "the ticket found no answer");
                let asked = self.peers.get_mut(&peer);
                asked.into_iter().for_each(|peer| peer.shows.again(now));
            }
        }
    }

    /// Begins to make all holders of members' tickets members, unless that is under way. With
    /// `anew`, something has changed that may make it possible now.
    fn admit_all(&mut self, anew: bool, now: Instant) {
        for peer in self.peers.ids() {
            self.admit(&peer, anew, now);
        }
        let (rights, peers, wall) = (&self.rights, &self.peers, self.clock.now());
        self.admissions.retain(|space, peer| {
            let wanted = || rights.to_admit(peer, wall, now).into_iter();
            peers.get(peer).is_some() && wanted().any(|it| it.0 == space)
        });
    }

    fn admit(&mut self, peer: &PeerId, anew: bool, now: Instant) {
        for (space, grant) in self.rights.to_admit(peer, self.clock.now(), now) {
            let (rights, clock, peer) = (self.rights.clone(), self.clock.clone(), *peer);
            let judge = move || rights.admits(space, &peer, &grant, clock.now(), Instant::now());
            let handle = self.handle.clone();
            let start = || tokio::spawn(admit(handle, space, judge));
            self.admissions.begin((space, peer), anew, now, start);
        }
    }

    /// Keeps the connections of a peer open until then, so that it receives an answer. Only an
    /// earlier time replaces the present one. So a peer can't defer the end by showing more
    /// tickets.
    fn reads_until(&mut self, peer: &PeerId, until: Instant) {
        if let Some(peer) = self.peers.get_mut(peer) {
            let before = peer.reads_until.get_or_insert(until);
            *before = until.min(*before);
        }
    }

    /// Judges the ticket of a peer.
    fn let_in(&mut self, peer: PeerId, ticket: &str, now: Instant) -> Answer {
        let grant = match Grant::read(ticket, self.clock.now()) {
            Ok(grant) => grant,
            Err(error) => {
                self.refusals.refused(Reason::Ticket, &peer, now);
                return error.into();
            }
        };
        let role = grant.role;
        let from = self.peers.get(&peer).and_then(|peer| peer.from);
        let from = from.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        match self.rights.show(peer, grant, from) {
            Ok(spaces) => {
                // A page is no member, whatever its ticket allows.
                let role = match self.rights.is_browser(&peer) {
                    true => role.min(Role::Editor),
                    false => role,
                };
                self.admit(&peer, true, now);
                let names = self.handle.spaces();
                let named = spaces.iter().take(NAMED_MAX);
                Answer::Joined {
                    role: role.to_string(),
                    spaces: named.map(|it| names[it.0].to_string()).collect(),
                }
            }
            Err(worthless) => {
                self.refusals.refused(Reason::Ticket, &peer, now);
                Answer::refused(worthless.code(), &worthless)
            }
        }
    }
}

/// Makes the holder of a member's ticket a member.
async fn admit(handle: Handle, space: SpaceId, judge: impl Fn() -> Admission) {
    let name = handle.spaces()[space.0].clone();
    if let Err(error) = handle.admit(space, judge, ADMIT_WAIT).await {
        let code = error.code();
        tracing::warn!(%name, code, "who joined as a member is none yet: {error}");
    }
}

/// The difference between the old and the new rights.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    /// None that matters.
    None,
    /// The peer lost some rights of a member, and may still receive that news.
    Left,
    /// Any other difference.
    AtOnce,
}

impl Change {
    fn of(had: &[Right], has: &[Right]) -> Change {
        let same = |one: &Right, other: &Right| (one.space, one.role) == (other.space, other.role);
        if had.len() == has.len() && had.iter().zip(has).all(|(one, other)| same(one, other)) {
            return Change::None;
        }
        let is_in = |right: &Right, rights: &[Right]| {
            let found = rights.binary_search_by_key(&right.space, |it| it.space);
            found.is_ok_and(|at| rights[at].role == right.role)
        };
        let gained = has.iter().any(|right| !is_in(right, had));
        let mut lost = had.iter().filter(|right| !is_in(right, has));
        match gained || lost.any(|right| right.by_ticket) {
            true => Change::AtOnce,
            false => Change::Left,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_left_are_given_time_and_nobody_else() {
        let right = |space, role, by_ticket| Right {
            space: SpaceId(space),
            role,
            by_ticket,
        };
        let member = |space| right(space, Role::Member, false);
        let shown = |space| right(space, Role::Member, true);
        for (had, has, change) in [
            (vec![], vec![], Change::None),
            (vec![shown(0)], vec![member(0)], Change::None),
            (vec![member(0), member(1)], vec![member(1)], Change::Left),
            (vec![shown(0), member(1)], vec![member(1)], Change::AtOnce),
            (vec![], vec![member(1)], Change::AtOnce),
            (vec![member(0)], vec![member(1)], Change::AtOnce),
            (
                vec![right(0, Role::Reader, true)],
                vec![member(0)],
                Change::AtOnce,
            ),
        ] {
            assert_eq!(Change::of(&had, &has), change, "{had:?} {has:?}");
        }
    }
}
