//! Rights, numbers and shares of limits that are with members that are away, and rights that wait for their
//! acknowledgement. Nobody else can use them until such a member is back, or is removed.

use super::OpenSpace;
use std::collections::{BTreeSet, HashMap};
use tallymesh_core::{RightKind, WriterId};
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::{Lack, MemberName, StuckPart, StuckRow, StuckShare};

/// How long nothing may be heard from a member that no link leads to, in milliseconds. A restart takes
/// less.
const AWAY_MS: u64 = 10_000;

/// For how long the answer is given again, in milliseconds. The status is asked for often.
const FRESH_MS: u64 = 5_000;

/// Most budgets, and most sequences, that are looked at for it. Other requests wait meanwhile.
const LOOKED_AT_MAX: usize = 1_000;

/// The last answer, with its time.
#[derive(Default)]
pub(super) struct Stuck {
    looked: Option<u64>,
    rows: Vec<StuckRow>,
}

/// A member that is away.
struct Away {
    owner: OwnerKey,
    /// For how long nothing was heard from it.
    silent_ms: Option<u64>,
    /// Whether it has not acknowledged some transactions of members.
    is_behind: bool,
}

impl OpenSpace {
    /// The members that no link leads to, and of which nothing was heard lately.
    fn away(&self, now: u64) -> Vec<Away> {
        if now < AWAY_MS {
            return Vec::new();
        }
        let linked: BTreeSet<WriterId> = self.links().filter_map(|it| it.writer).collect();
        let members = self.replica.members().list().into_iter();
        let unlinked = members.filter(|member| {
            let is_linked = member.writer.is_some_and(|it| linked.contains(&it));
            !member.own && !is_linked
        });
        let away = unlinked.map(|member| Away {
            owner: OwnerKey(member.owner),
            silent_ms: self.part.silent_ms(&member.owner, now),
            is_behind: member.behind > 0,
        });
        away.filter(|it| it.silent_ms.is_none_or(|ms| ms >= AWAY_MS))
            .collect()
    }

    /// How texts name the members that are away.
    pub(super) fn unreached_members(&self, now: u64) -> Vec<MemberName> {
        let away = self.away(now).into_iter();
        away.map(|it| self.named(it.owner)).collect()
    }

    /// How much of a budget nobody can use before all members have acknowledged it. It was paid in under idempotency
    /// keys, or starts hold it that are over. What members hold that are away is left out.
    fn awaited(
        &self,
        name: &str,
        kind: RightKind,
        away: &[Away],
        owners: &HashMap<WriterId, OwnerKey>,
        writers: &BTreeSet<WriterId>,
    ) -> i128 {
        let quota = self.replica.quota();
        let is_over = |writer: &WriterId| {
            let owner = owners.get(writer);
            let is_away = away.iter().any(|it| Some(&it.owner) == owner);
            !is_away && !writers.contains(writer)
        };
        let held = quota.holders_of(name).into_iter();
        let over = held.filter(|it| is_over(&it.writer)).map(|it| match kind {
            RightKind::Room => it.room,
            _ => it.rights,
        });
        let pending = quota.rights(name, kind).map_or(0, |it| it.pending);
        over.sum::<i128>() + pending
    }

    /// The present writers of members.
    fn member_writers(&self) -> BTreeSet<WriterId> {
        let members = self.replica.members().list().into_iter();
        members.filter_map(|it| it.writer).collect()
    }

    fn owners(&self) -> HashMap<WriterId, OwnerKey> {
        let table = self.replica.members().writer_table();
        table
            .filter_map(|it| Some((it.writer, OwnerKey(it.owner?))))
            .collect()
    }

    /// What each member holds that is away, in all budgets, sequences and limits.
    pub(super) fn stuck(&mut self, now: u64) -> Vec<StuckRow> {
        let is_fresh = |at: u64| now.saturating_sub(at) < FRESH_MS;
        if !self.stuck.looked.is_some_and(is_fresh) {
            self.stuck = Stuck {
                looked: Some(now),
                rows: self.look_for_stuck(now),
            };
        }
        self.stuck.rows.clone()
    }

    fn look_for_stuck(&self, now: u64) -> Vec<StuckRow> {
        // A copy hears the others for some seconds of each minute alone, so it can't say that one is away.
        if self.is_copied() {
            return Vec::new();
        }
        let configuration = self.replica.members().configuration();
        let limits = configuration.map_or(0, |it| it.limits.len());
        let row = |it: &Away| StuckRow {
            owner: it.owner,
            silent_ms: it.silent_ms,
            rights: 0,
            budgets: 0,
            awaited: 0,
            sequences: 0,
            limits,
            more: false,
        };
        let away = self.away(now);
        let mut rows: Vec<StuckRow> = away.iter().map(row).collect();
        if rows.is_empty() {
            return rows;
        }
        let (owners, quota) = (self.owners(), self.replica.quota());
        let writers = self.member_writers();
        let mut looked_at = 0;
        quota.each_budget(&mut |name| {
            looked_at += 1;
            if looked_at > LOOKED_AT_MAX {
                return;
            }
            let awaited = self.awaited(name, RightKind::Rights, &away, &owners, &writers);
            for (row, it) in rows.iter_mut().zip(&away) {
                if it.is_behind {
                    row.awaited += awaited;
                }
                let is_of = |writer| owners.get(&writer) == Some(&row.owner);
                let holders = quota.holders_of(name).into_iter();
                let rights: i128 = holders
                    .filter(|it| is_of(it.writer))
                    .map(|it| it.rights)
                    .sum();
                row.rights += rights;
                row.budgets += usize::from(rights > 0);
            }
        });
        let mut more = looked_at > LOOKED_AT_MAX;
        looked_at = 0;
        quota.each_sequence(&mut |name| {
            looked_at += 1;
            let giver = quota
                .rest_holder(name)
                .filter(|_| looked_at <= LOOKED_AT_MAX);
            let giver = giver.and_then(|it| owners.get(&it));
            for row in rows.iter_mut().filter(|row| giver == Some(&row.owner)) {
                row.sequences += 1;
            }
        });
        more |= looked_at > LOOKED_AT_MAX;
        rows.retain(|row| {
            row.budgets > 0 || row.awaited > 0 || row.sequences > 0 || row.limits > 0
        });
        rows.iter_mut().for_each(|row| row.more = more);
        rows
    }

    /// What members that are away hold or have not acknowledged, of what a refused request lacks.
    pub fn stuck_of(&self, now: u64, lack: &Lack) -> Vec<StuckPart> {
        let away = self.away(now);
        if away.is_empty() {
            return Vec::new();
        }
        let (owners, quota) = (self.owners(), self.replica.quota());
        let writers = self.member_writers();
        let awaited = match lack.kind {
            Some(RightKind::Rights) => {
                let amount = self.awaited(&lack.name, RightKind::Rights, &away, &owners, &writers);
                Some(StuckShare::Rights(amount))
            }
            Some(RightKind::Room) => {
                let amount = self.awaited(&lack.name, RightKind::Room, &away, &owners, &writers);
                Some(StuckShare::Room(amount))
            }
            Some(RightKind::Period) | None => None,
        };
        let held = |owner: &OwnerKey| {
            let is_of = |writer: WriterId| owners.get(&writer) == Some(owner);
            let holders = quota.holders_of(&lack.name).into_iter();
            let held = holders.filter(|it| is_of(it.writer));
            Some(match lack.kind {
                None => {
                    quota.rest_holder(&lack.name).filter(|it| is_of(*it))?;
                    StuckShare::Numbers(quota.sequence(&lack.name)?.next)
                }
                Some(RightKind::Rights) => StuckShare::Rights(held.map(|it| it.rights).sum()),
                Some(RightKind::Room) => StuckShare::Room(held.map(|it| it.room).sum()),
                Some(RightKind::Period) => {
                    StuckShare::Period(self.stuck_in(&lack.name, owner, &owners))
                }
            })
        };
        let removable = self.decides(now);
        let parts = away.iter().flat_map(|it| {
            let part = |what: StuckShare, awaited| StuckPart {
                member: self.named(it.owner),
                silent_ms: it.silent_ms,
                what,
                awaited,
                removable,
            };
            let held = held(&it.owner).map(|what| part(what, false));
            let awaited = awaited.filter(|_| it.is_behind);
            [held, awaited.map(|what| part(what, true))]
        });
        let is_nothing = |what| {
            matches!(
                what,
                StuckShare::Rights(..=0) | StuckShare::Room(..=0) | StuckShare::Period(..=0)
            )
        };
        let parts = parts.flatten().filter(|part| !is_nothing(part.what));
        parts.collect()
    }

    /// How much of a period a member holds that is away. A member that holds nothing yet has not brought in its
    /// share, which is missing all the same.
    fn stuck_in(
        &self,
        period: &str,
        owner: &OwnerKey,
        owners: &HashMap<WriterId, OwnerKey>,
    ) -> i128 {
        let all = self.replica.quota().period_rights();
        let of_period = all.filter(|(name, ..)| *name == period);
        let mut held = of_period.filter(|(_, writer, _)| owners.get(writer) == Some(owner));
        match held.next() {
            Some((.., first)) => first + held.map(|it| it.2).sum::<i128>(),
            None => self.replica.quota().share_to_come(&owner.0, period),
        }
    }
}
