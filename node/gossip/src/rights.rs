//! The rights of peers over libp2p.
//!
//! At an open node, as on loopback, every peer that connects counts as a member. At a closed one a
//! peer has a right in a space
//! - as its member, by its configuration;
//! - if the operator named its key (`--peer .../p2p/ID`), in all spaces;
//! - by a ticket that it has shown since this node started;
//! - if it signed a ticket with which this node joins, where members are not known.
//!
//! A page in a browser, which connects by WebSocket, never counts as a member because the node is
//! open. Its tickets make it an editor at most.
//!
//! While a peer is connected, it has the rights of the time when it connected. When they change,
//! this node closes its connections, and the peer connects again.

#[cfg(test)]
#[path = "../../engine/src/access/samples.rs"]
mod samples;
mod shown;

use super::connection_policy::Class;
use super::join::{Removed, TOLD_MAX, Worthless};
use super::revocations::Say;
use libp2p::PeerId;
use shown::{Full, Shown};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tallymesh_core::Space;
use tallymesh_node_engine::access::{
    Flaw, Gone, Grant, Ledger, OwnRoles, OwnTickets, Participation, Seen, TicketId,
};
#[cfg(test)]
use tallymesh_node_engine::access::{Revocation, Revoked};
use tallymesh_node_engine::driver::Admission;
use tallymesh_node_ground::identity::{OwnerKey, owner_of, peer_of};
use tallymesh_node_ground::model::{MemberList, MemberLists, Role, SpaceId};

/// How long a member that may have missed a removal waits for the address book, before it makes a
/// peer a member by a ticket. A higher value makes joining slower after missed changes. A lower one
/// admits a peer that was removed meanwhile.
pub(super) const UNSURE: Duration = Duration::from_secs(5);

/// The right of a peer in a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Right {
    pub(super) space: SpaceId,
    pub(super) role: Role,
    /// Whether it comes from a ticket only.
    pub(super) by_ticket: bool,
}

/// The rights of all peers. Clones share them.
#[derive(Clone)]
pub(super) struct Rights(Arc<Mutex<Known>>);

struct Known {
    /// Whether every peer counts as a member of all spaces.
    open: bool,
    own: OwnerKey,
    spaces: Vec<Space>,
    ledger: Ledger,
    member_lists: MemberLists,
    /// The roles of this node itself, by space, at the last look.
    own_roles: Vec<Role>,
    /// The owners that the operator named.
    named: BTreeSet<OwnerKey>,
    shown: Shown,
    /// The own tickets that another node refused when they were last shown.
    refused: BTreeMap<TicketId, Flaw>,
    /// Pages that are connected.
    browsers: HashSet<PeerId>,
    /// The time until which this node may have missed a removal, by space.
    unsure: HashMap<SpaceId, Instant>,
    /// The same for one owner, whose removal was just seen. By another clock, an older ticket may
    /// seem to be newer.
    unsure_of: BTreeMap<(SpaceId, OwnerKey), Instant>,
    /// The configuration by which this node is no longer a member, as a member reported it, if this
    /// node does not have it itself.
    out: BTreeMap<SpaceId, (u64, u64)>,
}

impl Rights {
    pub(super) fn new(
        open: bool,
        own: [u8; 32],
        spaces: &[Space],
        member_lists: MemberLists,
        ledger: Ledger,
        now_ms: u64,
    ) -> Rights {
        let mut known = Known {
            open,
            own: OwnerKey(own),
            spaces: spaces.to_vec(),
            ledger,
            member_lists,
            own_roles: Vec::new(),
            named: BTreeSet::new(),
            shown: Shown::default(),
            refused: BTreeMap::new(),
            browsers: HashSet::new(),
            unsure: HashMap::new(),
            unsure_of: BTreeMap::new(),
            out: BTreeMap::new(),
        };
        known.look_at_members(now_ms);
        known.look_at_own(now_ms);
        Rights(Arc::new(Mutex::new(known)))
    }

    /// No change in here can be half done, so a panic elsewhere leaves it valid.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the operator named this peer.
    pub(super) fn name(&self, peer: &PeerId) {
        self.known().named.extend(owner_of(peer));
    }

    /// Sets the members.
    pub(super) fn set_member_lists(&self, member_lists: MemberLists, now_ms: u64) {
        let mut known = self.known();
        known.member_lists = member_lists;
        known.look_at_members(now_ms);
        known.look_at_own(now_ms);
    }

    /// Records whether a peer is a page, while it is connected. Returns whether that has changed.
    pub(super) fn set_browser(&self, peer: &PeerId, browser: bool) -> bool {
        let mut known = self.known();
        match browser {
            true => known.browsers.insert(*peer),
            false => known.browsers.remove(peer),
        }
    }

    /// Whether a peer is a page in a browser.
    pub(super) fn is_browser(&self, peer: &PeerId) -> bool {
        self.known().browsers.contains(peer)
    }

    /// The rights of a peer, in the order of the spaces.
    pub(super) fn of(&self, peer: &PeerId, now_ms: u64) -> Vec<Right> {
        self.known().of(peer, now_ms)
    }

    /// The share in which a peer counts among incoming connections.
    pub(super) fn class(&self, peer: &PeerId, now_ms: u64) -> Class {
        let known = self.known();
        let rights = known.of(peer, now_ms);
        if rights.is_empty() {
            return Class::Newcomer;
        }
        let shown = || {
            let owner = owner_of(peer);
            let mut shown = known.shown.of(peer).iter();
            shown.find(|grant| grant.is_timely(now_ms).is_ok() && known.worth(grant, owner).is_ok())
        };
        match rights.iter().any(|right| right.role == Role::Member) {
            true => Class::Trusted,
            false => shown().map_or(Class::Newcomer, |grant| Class::Guest(grant.id)),
        }
    }

    /// The ticket by which a peer has its rights, if it has them by one. Among several, it is the
    /// last one with the highest role.
    pub(super) fn ticket_of(&self, peer: &PeerId, now_ms: u64) -> Option<TicketId> {
        let known = self.known();
        let by_ticket = known.of(peer, now_ms).iter().any(|right| right.by_ticket);
        let owner = owner_of(peer);
        let shown =
            known.shown.of(peer).iter().filter(|grant| {
                grant.is_timely(now_ms).is_ok() && known.worth(grant, owner).is_ok()
            });
        let most = shown.filter(|_| by_ticket).max_by_key(|grant| grant.role);
        most.map(|grant| grant.id)
    }

    /// Whether a peer is a member, or counts as one, in all open spaces.
    pub(super) fn is_full(&self, peer: &PeerId, now_ms: u64) -> bool {
        let known = self.known();
        let rights = known.of(peer, now_ms);
        let full = rights.iter().filter(|right| right.role == Role::Member);
        full.count() == known.spaces.len()
    }

    /// Whether this node passes on the changes of others in a space, which only a member may do.
    pub(super) fn passes_on(&self, space: SpaceId) -> bool {
        let known = self.known();
        known.own_roles.get(space.0) == Some(&Role::Member)
    }

    /// Whether rights can change by time alone.
    pub(super) fn has_shown(&self) -> bool {
        let known = self.known();
        let is_shown = !known.shown.is_empty() || !known.ledger.held().is_empty();
        is_shown && (!known.open || !known.browsers.is_empty())
    }

    /// Records that a peer has shown a ticket that is valid by itself. Returns the places of its
    /// open spaces in which it gives rights.
    ///
    /// # Errors
    /// [`Worthless`]; then nothing is remembered.
    pub(super) fn show(
        &self,
        peer: PeerId,
        grant: Grant,
        from: IpAddr,
    ) -> Result<Vec<SpaceId>, Worthless> {
        let mut known = self.known();
        let holder = owner_of(&peer);
        if grant.holder.is_some() && grant.holder != holder {
            return Err(Worthless::Holder);
        }
        let spaces = known.worth(&grant, holder)?;
        let shown = known.shown.show(peer, grant, from);
        shown.map_err(|Full| Worthless::Room)?;
        Ok(spaces)
    }

    /// Records that the last connection to a peer is gone.
    pub(super) fn gone(&self, peer: &PeerId) {
        self.known().shown.gone(peer);
    }

    /// Forgets the tickets that have ended or are revoked, and updates the roles of this node by
    /// its own tickets.
    pub(super) fn tidy(&self, now_ms: u64) {
        let mut known = self.known();
        let mut shown = std::mem::take(&mut known.shown);
        shown.retain(|peer, grant| {
            let is_over = match known.worth(grant, owner_of(peer)) {
                Ok(_) => false,
                // Its issuer may become a member again.
                Err(Worthless::Issuer) => !known.ledger.revoked_in(grant.id).is_empty(),
                Err(_) => true,
            };
            grant.is_timely(now_ms).is_ok() && !is_over
        });
        known.shown = shown;
        known.look_at_own(now_ms);
    }

    /// The tickets that this node needs and may show to a peer: the issuer, and the members of its
    /// spaces. To other peers a ticket would reveal this node's rights.
    pub(super) fn to_show(&self, peer: &PeerId, now_ms: u64) -> Vec<String> {
        let known = self.known();
        let Some(owner) = owner_of(peer) else {
            return Vec::new();
        };
        let is_for = |grant: &Grant| {
            let needs = !known.covered(grant).all(|space| known.is_in(space));
            let mut spaces = known.covered(grant);
            needs && (grant.issuer == owner || spaces.any(|space| known.is_member(space, owner)))
        };
        let held = known.ledger.held().into_iter();
        let held = held.filter(|(_, grant)| grant.is_timely(now_ms).is_ok() && is_for(grant));
        held.map(|(ticket, _)| ticket).collect()
    }

    /// The trusted owners of each open space: its members, or this node if it has none.
    pub(super) fn says(&self) -> Vec<Say> {
        let known = self.known();
        let spaces = known.spaces.iter().zip(known.member_lists.iter());
        let say = |(space, member_list): (&Space, &Option<MemberList>)| Say {
            space: space.clone(),
            owners: match member_list {
                Some(member_list) => member_list.to_vec(),
                None => vec![known.own],
            },
        };
        spaces.map(say).collect()
    }

    /// Records the answer of a node to a ticket of this one: the flaw of the ticket, if it has one.
    pub(super) fn answered(&self, ticket: &str, flaw: Option<Flaw>) {
        let mut known = self.known();
        let held = known.ledger.held();
        let id = held.iter().find(|it| it.0 == ticket).map(|it| it.1.id);
        match (id, flaw) {
            (Some(id), Some(flaw)) => known.refused.insert(id, flaw),
            (Some(id), None) => known.refused.remove(&id),
            (None, _) => None,
        };
    }

    /// The place of this node in each of its spaces. `with_hello` returns the nodes that have sent
    /// their hello in one.
    pub(super) fn places(
        &self,
        with_hello: impl Fn(&Space) -> Vec<PeerId>,
        now_ms: u64,
    ) -> Vec<(Space, Participation)> {
        let known = self.known();
        let given = OwnTickets {
            own: known.own,
            ledger: &known.ledger,
            refused: &known.refused,
        };
        let spaces = known.spaces.iter().enumerate();
        let place = |(place, space): (usize, &Space)| {
            let id = SpaceId(place);
            let member_list = known.member_list(id).map(|it| it.to_vec());
            let member_list = member_list.map(|mut members| {
                members.retain(|it| *it != known.own || known.is_in(id));
                members
            });
            let counts = |peer: &PeerId| {
                let owner = owner_of(peer);
                member_list.is_none() || owner.is_some_and(|owner| known.is_member(id, owner))
            };
            let linked = with_hello(space).iter().any(counts);
            let place = Participation::of(given, space, member_list.as_deref(), linked, now_ms);
            (space.clone(), place)
        };
        spaces.map(place).collect()
    }

    /// The spaces from whose members a peer was removed, as far as this node is a member and has
    /// that removal.
    pub(super) fn to_tell(&self, peer: &PeerId) -> Vec<Removed> {
        let known = self.known();
        let Some(owner) = owner_of(peer) else {
            return Vec::new();
        };
        let spaces = known.spaces.iter().zip(known.member_lists.iter());
        let removed = |(space, member_list): (&Space, &Option<MemberList>)| {
            let member_list = member_list.as_ref()?;
            let is_in = |owner: &OwnerKey| member_list.binary_search(owner).is_ok();
            if !is_in(&known.own) || is_in(&owner) {
                return None;
            }
            Some(Removed {
                space: space.to_string(),
                era: member_list.at.0,
                number: member_list.at.1,
                at: known.ledger.removed(space, &owner)?.at,
            })
        };
        spaces.filter_map(removed).take(TOLD_MAX).collect()
    }

    /// Handles a peer's report that this node was removed. In a space whose member the peer is,
    /// this node accepts it until it has a newer configuration. Returns whether anything has
    /// changed.
    pub(super) fn told(&self, peer: &PeerId, rows: &[Removed], now_ms: u64) -> bool {
        let mut known = self.known();
        let Some(owner) = owner_of(peer) else {
            return false;
        };
        let mut is_news = false;
        for row in rows.iter().take(TOLD_MAX) {
            let named = |space: &Space| space.as_str() == row.space;
            let Some(place) = known.spaces.iter().position(named) else {
                continue;
            };
            let (id, at) = (SpaceId(place), (row.era, row.number));
            let is_newer = known.member_list(id).is_some_and(|it| it.at < at);
            let both = known.is_member(id, owner) && known.is_member(id, known.own);
            if !is_newer || !both || known.out.get(&id) >= Some(&at) {
                continue;
            }
            let space = known.spaces[place].clone();
            tracing::warn!(%space, by = %owner, "this node was removed from the members while it was away");
            known.out.insert(id, at);
            let before = known.member_list(id).map_or((0, 0), |it| it.at);
            let width = match before.0 == at.0 {
                true => at.1 - before.1,
                false => 1,
            };
            let gone = Gone {
                at: row.at,
                by: at,
                width,
            };
            let removed = [(space, known.own, gone)];
            if let Err(error) = known.ledger.remove(&removed, now_ms / 1000) {
                tracing::warn!(%error, "that this node was removed is not kept on the disk");
            }
            is_news = true;
        }
        is_news
    }

    /// The members of the spaces of which this node is a member.
    pub(super) fn fellows(&self) -> BTreeSet<PeerId> {
        let known = self.known();
        let member_lists = known.member_lists.iter().flatten();
        let shared =
            member_lists.filter(|member_list| member_list.binary_search(&known.own).is_ok());
        let owners: BTreeSet<&OwnerKey> =
            shared.flat_map(|member_list| member_list.iter()).collect();
        owners.into_iter().filter_map(peer_of).collect()
    }

    /// Whether a ticket that a peer has shown makes it a member of a space. This node must be a
    /// member, the peer must be none, and the ticket must be newer than its last removal.
    pub(super) fn admits(
        &self,
        space: SpaceId,
        peer: &PeerId,
        grant: &Grant,
        now_ms: u64,
        now: Instant,
    ) -> Admission {
        self.known().admits(space, peer, grant, now_ms, now)
    }

    /// The spaces of which a peer is to be made a member, each with a ticket that it has shown for
    /// that.
    pub(super) fn to_admit(
        &self,
        peer: &PeerId,
        now_ms: u64,
        now: Instant,
    ) -> Vec<(SpaceId, Grant)> {
        let known = self.known();
        let shown = known.shown.of(peer);
        let all = (0..known.spaces.len()).map(SpaceId);
        let by = |space: SpaceId| {
            let mut shown = shown.iter().filter(|grant| grant.role == Role::Member);
            shown.find(|grant| known.admits(space, peer, grant, now_ms, now) != Admission::Never)
        };
        all.filter_map(|space| Some((space, by(space)?.clone())))
            .collect()
    }
}

impl Known {
    fn of(&self, peer: &PeerId, now_ms: u64) -> Vec<Right> {
        let all = (0..self.spaces.len()).map(SpaceId);
        let member = |space| Right {
            space,
            role: Role::Member,
            by_ticket: false,
        };
        let owner = owner_of(peer);
        let browser = self.browsers.contains(peer);
        if self.open && !browser || owner.is_some_and(|owner| self.named.contains(&owner)) {
            return all.map(member).collect();
        }
        let shown = self.shown.of(peer);
        let shown: Vec<(&Grant, Vec<SpaceId>)> = shown
            .iter()
            .filter(|grant| grant.is_timely(now_ms).is_ok())
            .filter_map(|grant| Some((grant, self.worth(grant, owner).ok()?)))
            .collect();
        let held = self.ledger.held();
        let signed = held.iter().map(|(_, grant)| grant);
        let signed: Vec<&Grant> = signed
            .filter(|grant| Some(grant.issuer) == owner && grant.is_timely(now_ms).is_ok())
            .collect();
        all.filter_map(|space| {
            if owner.is_some_and(|owner| self.is_member(space, owner)) {
                return Some(member(space));
            }
            let mut roles: Vec<Role> = shown
                .iter()
                .filter(|(_, spaces)| spaces.contains(&space))
                .map(|(grant, _)| grant.role)
                .collect();
            let name = self.spaces[space.0].as_str();
            let is_without = self.member_list(space).is_none();
            if is_without && signed.iter().any(|grant| grant.covers(name)) {
                roles.push(Role::Member);
            }
            let most = if browser { Role::Editor } else { Role::Member };
            let role = roles.into_iter().max()?.min(most);
            // A peer below the role member has to prove that its writers are its own.
            if role < Role::Member {
                owner?;
            }
            Some(Right {
                space,
                role,
                by_ticket: true,
            })
        })
        .collect()
    }

    fn admits(
        &self,
        space: SpaceId,
        peer: &PeerId,
        grant: &Grant,
        now_ms: u64,
        now: Instant,
    ) -> Admission {
        let (Some(owner), Some(member_list)) = (owner_of(peer), self.member_list(space)) else {
            return Admission::Never;
        };
        let is_in = |owner: &OwnerKey| member_list.binary_search(owner).is_ok();
        let is_good = || {
            let worth = self.worth(grant, Some(owner));
            grant.is_timely(now_ms).is_ok() && worth.is_ok_and(|it| it.contains(&space))
        };
        // A page is no member, whatever its ticket allows.
        let is_member = grant.role == Role::Member && !self.browsers.contains(peer);
        if !is_member || !is_in(&self.own) || is_in(&owner) || !is_good() {
            return Admission::Never;
        }
        let knew = grant.knew.get(&self.spaces[space.0]);
        if knew.is_some_and(|knew| *knew >= member_list.at) {
            // Its issuer had every removal that this node could have.
            return Admission::Now(owner, member_list.at);
        }
        let unsure_of = self.unsure_of.get(&(space, owner));
        // This node signed its own tickets by its own clock.
        let unsure_of = unsure_of.filter(|_| grant.issuer != self.own);
        let until = self.unsure.get(&space).max(unsure_of);
        match until.and_then(|until| until.checked_duration_since(now)) {
            Some(left) if !left.is_zero() => Admission::Later(left),
            _ => Admission::Now(owner, member_list.at),
        }
    }

    /// Updates the roles of this node by its own tickets.
    fn look_at_own(&mut self, now_ms: u64) {
        let own_roles = OwnRoles::of(self.own, &self.ledger);
        let role = |(place, space): (usize, &Space)| {
            let member_list = self.member_list(SpaceId(place)).map(|it| &**it);
            own_roles.role(space.as_str(), member_list, now_ms)
        };
        self.own_roles = self.spaces.iter().enumerate().map(role).collect();
    }

    /// Records which owners were removed from the members of the spaces.
    fn look_at_members(&mut self, now_ms: u64) {
        let (now, until) = (now_ms / 1000, Instant::now() + UNSURE);
        let places = self.spaces.iter().enumerate();
        let rows = places.zip(self.member_lists.iter());
        for ((place, space), member_list) in rows {
            let Some(member_list) = member_list else {
                continue;
            };
            let seen = |at: (u64, u64), owners: &[OwnerKey]| Seen {
                era: at.0,
                number: at.1,
                owners: owners.iter().copied().collect(),
            };
            let all = member_list
                .earlier
                .iter()
                .map(|(at, owners)| seen(*at, owners));
            let all = all.chain([seen(member_list.at, member_list)]);
            // A ticket that it has shown was signed before the removal, whatever the clock of its
            // issuer was.
            let signed = |owner: &OwnerKey| {
                let peer = peer_of(owner);
                let shown = peer.iter().flat_map(|peer| self.shown.of(peer));
                let shown = shown.map(|grant| grant.issued);
                shown.max().unwrap_or_default()
            };
            let (difference, saved) = self.ledger.see(space, all, now, signed);
            if let Err(error) = saved {
                tracing::warn!(%space, %error, "who was removed is not kept on the disk");
            }
            if difference.skipped && member_list.len() > 1 {
                self.unsure.insert(SpaceId(place), until);
            }
            for owner in difference.removed {
                tracing::info!(%space, %owner, "no member any more: tickets from before count no longer");
                self.unsure_of.insert((SpaceId(place), owner), until);
            }
        }
        let member_lists = &self.member_lists;
        self.out.retain(|space, at| {
            let member_list = member_lists.get(space.0).and_then(Option::as_ref);
            member_list.is_some_and(|it| it.at < *at)
        });
        let now = Instant::now();
        self.unsure.retain(|_, until| *until > now);
        self.unsure_of.retain(|_, until| *until > now);
    }

    fn member_list(&self, space: SpaceId) -> Option<&MemberList> {
        self.member_lists.get(space.0)?.as_ref()
    }

    fn is_member(&self, space: SpaceId, owner: OwnerKey) -> bool {
        self.member_list(space)
            .is_some_and(|member_list| member_list.binary_search(&owner).is_ok())
    }

    /// Whether this node is a member, and no member has reported its removal.
    fn is_in(&self, space: SpaceId) -> bool {
        self.is_member(space, self.own) && !self.out.contains_key(&space)
    }

    /// The open spaces that a ticket covers.
    fn covered(&self, grant: &Grant) -> impl Iterator<Item = SpaceId> {
        let covered = |(_, space): &(usize, &Space)| grant.covers(space.as_str());
        let spaces = self.spaces.iter().enumerate().filter(covered);
        spaces.map(|(place, _)| SpaceId(place))
    }

    /// The spaces of a ticket in which it gives rights to this holder. Its issuer must be trusted
    /// there: members are, and in a space without members this node alone. The holder must not have
    /// been removed since.
    fn worth(&self, grant: &Grant, holder: Option<OwnerKey>) -> Result<Vec<SpaceId>, Worthless> {
        let covered: Vec<SpaceId> = self.covered(grant).collect();
        if covered.is_empty() {
            return Err(Worthless::Space);
        }
        let name = |space: &SpaceId| self.spaces[space.0].as_str();
        let good = |space: &SpaceId| !self.ledger.is_revoked(grant.id, name(space));
        let good: Vec<SpaceId> = covered.into_iter().filter(good).collect();
        if good.is_empty() {
            return Err(Worthless::Revoked);
        }
        let has_say = |space: &SpaceId| match self.member_list(*space) {
            Some(_) => self.is_member(*space, grant.issuer),
            None => grant.issuer == self.own,
        };
        let said: Vec<SpaceId> = good.into_iter().filter(has_say).collect();
        if said.is_empty() {
            return Err(Worthless::Issuer);
        }
        let stays = |space: &SpaceId| {
            let name = &self.spaces[space.0];
            let removed = holder.and_then(|it| self.ledger.removed(name, &it));
            removed.is_none_or(|it| it.lets_in(grant, name))
        };
        let worth: Vec<SpaceId> = said.into_iter().filter(stays).collect();
        match worth.is_empty() {
            true => Err(Worthless::Removed),
            false => Ok(worth),
        }
    }
}

#[cfg(test)]
mod tests;
