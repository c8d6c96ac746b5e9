//! Copies of data folders, as a space sees them: whether this node runs on one, and which peers do.
//!
//! A node whose folder is a copy [stands aside](tallymesh_core::MembersMut::stand_aside) in all spaces. Its
//! original may run on, so the copy spends, draws and decides nothing. It says so in its hello, and each node
//! that it is linked with lists it.
//!
//! An adopted copy and its original may run at once all the same. Then the newest start is the member, because its
//! announcement declares the others dead. The other process [notices](OpenSpace::is_replaced) that before it announces
//! a new start, and stands aside from then on. If it did not, each would declare the other dead without end.

use super::OpenSpace;
use crate::driver::origins::Origins;
use crate::network::CopyTold;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tallymesh_core::{Link, WriterId};
use tallymesh_node_ground::identity::{OwnerKey, peer_of};
use tallymesh_node_ground::model::{CopyRow, Origin, Refusal};

/// How long a copy is listed that is not heard any more.
const LISTED: Duration = Duration::from_secs(600);

/// Most copies that are listed. They have different names, so each is the copy of another node.
const COPIES_MAX: usize = 64;

/// The time between two lines of the log about copies.
const TOLD_AGAIN: Duration = Duration::from_secs(60);

/// When the log last had a line about a copy.
static TOLD: Mutex<Option<Instant>> = Mutex::new(None);

/// The last start that this process announced in a space.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latest {
    /// Its generation.
    generation: u64,
    /// Whether other members know a start of this process. Until then a newer start may be one of before, which an
    /// older copy of the folder lacks.
    is_known: bool,
}

impl Latest {
    /// Notes the generation of a start, and whether others know it.
    fn note(&mut self, generation: u64, is_known: bool) {
        self.generation = generation;
        self.is_known |= is_known;
    }

    /// Whether another process made the owner's newest start, of this generation, after this one's.
    fn is_before(self, newest: u64) -> bool {
        self.is_known && newest > self.generation
    }
}

/// The copies whose hellos arrived, by the name of their peer.
#[derive(Default)]
pub(super) struct Copies(BTreeMap<String, Heard>);

struct Heard {
    link: Link,
    writer: WriterId,
    origin: Arc<Origin>,
    at: Instant,
}

impl Copies {
    /// Notes a hello. The copy that was silent for longest makes room.
    fn note(&mut self, heard: Heard) {
        self.0.insert(heard.origin.peer.clone(), heard);
        let oldest = self.0.iter().min_by_key(|it| it.1.at);
        let oldest = oldest.map(|it| it.0.clone());
        if self.0.len() > COPIES_MAX
            && let Some(oldest) = oldest
        {
            self.0.remove(&oldest);
        }
    }
}

/// Whether the log may have one more line about copies.
fn may_tell(told: &Mutex<Option<Instant>>, now: Instant) -> bool {
    let mut last = told.lock().unwrap_or_else(PoisonError::into_inner);
    let may = last.is_none_or(|last| now.saturating_duration_since(last) >= TOLD_AGAIN);
    if may {
        *last = Some(now);
    }
    may
}

impl OpenSpace {
    /// Whether this node runs on a copy, and stands aside.
    pub(super) fn is_copied(&self) -> bool {
        self.replica.stands_aside()
    }

    /// Whether this node is no member here for the only reason that its folder is a copy.
    pub(super) fn is_kept_out(&self) -> bool {
        let named = self.replica.members().configuration();
        self.is_copied() && named.is_none_or(|it| it.has(&self.owner))
    }

    /// Refuses what only a member does.
    pub(super) fn refuse_if_copied(&self) -> Result<(), Refusal> {
        match self.is_kept_out() {
            true => Err(Refusal::FolderCopied),
            false => Ok(()),
        }
    }

    /// Notes the start that this process has announced.
    pub(super) fn look_at_start(&mut self) {
        let members = self.replica.members();
        let is_known = members.is_established();
        if let Some(generation) = members.generation().filter(|_| members.is_member()) {
            self.part.latest.note(generation, is_known);
            self.part.is_adopted &= !is_known;
        }
    }

    /// Whether another process with this node's key took its place: other members knew a start of this process,
    /// which is over, and there is a newer one.
    pub(in crate::driver) fn is_replaced(&self) -> bool {
        let newest = || self.replica.members().newest_start(&self.owner);
        self.is_starting() && self.part.latest.is_before(newest())
    }

    /// Stands aside from now on, because another process took this one's place.
    pub(in crate::driver) fn stand_aside(&mut self, now: u64) {
        if !self.is_copied() {
            self.part.place.end();
            // This process had all writers of before ended when it announced itself.
            self.replica.members_mut().stand_aside(Vec::new());
            self.tend_soon(now);
        }
    }

    /// Ends the standing aside, because the original is gone for good.
    pub(in crate::driver) fn adopt(&mut self, now: u64) {
        self.replica.members_mut().adopt();
        self.part.latest = Latest::default();
        (self.part.is_adopted, self.part.was_adopted) = (true, true);
        self.tend_soon(now);
    }

    /// Lists the copies that have said what they are, and logs that at most once a minute.
    pub(super) fn tell_copies(&mut self, origins: &Origins) {
        for (link, writer) in self.sync.take_copies() {
            let Some(origin) = origins.of(link) else {
                continue;
            };
            let at = Instant::now();
            if may_tell(&TOLD, at) {
                tracing::warn!(
                    space = self.name().as_str(),
                    peer = origin.peer,
                    owner = origin.owner.map(|it| it.to_string()),
                    address = origin.address,
                    %writer,
                    "a node runs on a copy of another one's data folder: it spends and decides nothing until \
                     `tallymesh adopt` there; not told again for a minute"
                );
            }
            let told = CopyTold {
                space: self.name().to_string(),
                writer: writer.to_string(),
                address: origin.address.clone(),
            };
            self.node_table.note_copy(&origin.peer, told);
            self.copies.note(Heard {
                link,
                writer,
                origin,
                at,
            });
        }
    }

    /// The copies whose hellos arrived lately, and were not adopted since, and the copy of this node's own folder that
    /// another node told of.
    pub(super) fn copies(&mut self, now: u64) -> Vec<CopyRow> {
        let members = self.replica.members();
        self.copies.0.retain(|_, it| it.at.elapsed() < LISTED);
        let open: BTreeMap<Link, u64> = self
            .sync
            .links()
            .filter_map(|it| Some((it.link, it.last_heard?)))
            .collect();
        for heard in self.copies.0.values_mut() {
            let silent = open.get(&heard.link).map(|at| now.saturating_sub(*at));
            let at = silent.and_then(|ms| Instant::now().checked_sub(Duration::from_millis(ms)));
            heard.at = heard.at.max(at.unwrap_or(heard.at));
        }
        let living = self.copies.0.values();
        let living = living.filter(|it| members.owner_of(&it.writer).is_none());
        let row = |it: &Heard| {
            let ms = u64::try_from(it.at.elapsed().as_millis());
            let original = it.origin.owner.and_then(|OwnerKey(owner)| {
                let list = members.list().into_iter();
                list.filter(|member| member.owner == owner)
                    .find_map(|member| member.writer)
            });
            CopyRow {
                peer: it.origin.peer.clone(),
                owner: it.origin.owner,
                address: it.origin.address.clone(),
                writer: it.writer.to_string(),
                original: original.map(|writer| writer.to_string()),
                last_heard_ms: ms.unwrap_or(u64::MAX),
            }
        };
        let own = self.own_copy();
        living.map(row).chain(own).collect()
    }

    /// The copy of this node's folder that another node told of lately. This node has no link with it, because both
    /// have one key. A copy knows by its folder what it is.
    fn own_copy(&self) -> Option<CopyRow> {
        if self.is_copied() {
            return None;
        }
        let (told, at) = self.node_table.own_copy(self.name().as_str())?;
        let ms = u64::try_from(at.elapsed().as_millis());
        // A copy that was adopted here is none any more.
        let mut earlier = self.replica.consistency().earlier_writers();
        let is_own = self.part.was_adopted || earlier.any(|it| it.to_string() == told.writer);
        (at.elapsed() < LISTED && !is_own).then(|| CopyRow {
            peer: peer_of(&OwnerKey(self.owner)).map_or_else(String::new, |it| it.to_string()),
            owner: Some(OwnerKey(self.owner)),
            address: told.address,
            writer: told.writer,
            original: Some(self.replica.writer().to_string()),
            last_heard_ms: ms.unwrap_or(u64::MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallymesh_node_ground::model::PeerKind;

    fn heard(name: usize, at: Instant) -> Heard {
        let origin = Origin {
            link: 1,
            peer: name.to_string(),
            kind: PeerKind::Libp2p,
            owner: None,
            address: None,
            ticket: None,
        };
        Heard {
            link: Link(1),
            writer: WriterId::from_bytes([1; 16]),
            origin: Arc::new(origin),
            at,
        }
    }

    #[test]
    fn so_many_copies_are_listed_and_the_most_silent_makes_room() {
        let (mut copies, begun) = (Copies::default(), Instant::now());
        let after = |seconds| begun + Duration::from_secs(seconds);
        for name in 0..COPIES_MAX {
            copies.note(heard(name, after(name as u64)));
        }
        copies.note(heard(0, after(1_000)));
        assert_eq!(copies.0.len(), COPIES_MAX);
        copies.note(heard(COPIES_MAX, after(1_001)));
        assert_eq!(copies.0.len(), COPIES_MAX);
        assert!(!copies.0.contains_key("1") && copies.0.contains_key("0"));
    }

    #[test]
    fn a_newer_start_took_the_place_of_one_that_others_knew() {
        let mut latest = Latest::default();
        assert!(!latest.is_before(7), "nothing was announced");
        latest.note(5, false);
        assert!(!latest.is_before(7), "it may be one of before");
        latest.note(5, true);
        assert!(latest.is_before(7) && !latest.is_before(5) && !latest.is_before(4));
        latest.note(8, false);
        assert!(!latest.is_before(7) && latest.is_before(9));
    }

    #[test]
    fn one_line_a_minute_is_told() {
        let (told, begun) = (Mutex::new(None), Instant::now());
        let tells = |seconds| may_tell(&told, begun + Duration::from_secs(seconds));
        assert_eq!(
            [0, 1, 59, 60, 61, 119, 120].map(tells),
            [true, false, false, true, false, false, true]
        );
    }
}
