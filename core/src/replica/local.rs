//! The private state of a replica as text, for tests that must know whether two replicas are the same.

use super::{QuotaHooks, Replica};
use crate::membership::table::{Attached, Roster};
use crate::state::page::OWN;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

impl Replica {
    /// All that decides what a replica of a closed space does and that its
    /// [`canonical_bytes`](Replica::canonical_bytes) leave out, as text. Two replicas of one writer
    /// with the same bytes and the same text behave the same, but for faults, marks and handles.
    pub fn local_text(&self) -> String {
        // Each field is named, so that a new one is thought of here.
        let Roster {
            cards: _,
            index: _,
            configuration: _,
            gone: _,
            attached,
            stuck: _,
            settled,
            floor,
            pending,
            prospect,
            established,
            early,
            proposal,
            asked,
            vouched,
            waiting,
            returns,
            gaps,
            returned: _,
            remembered: _,
            held_back: _, // with the keyed operations
        } = &*self.membership.table;
        let id = |number: u32| self.state.writers[number as usize];
        let clocks = |clocks: &[u64]| {
            let held = clocks.iter().zip(&self.state.writers);
            let mut held: Vec<_> = held.filter(|(clock, _)| **clock > 0).collect();
            held.sort_unstable_by_key(|(_, writer)| **writer);
            format!("{held:?}")
        };
        let told = |Attached { writer, seen }: &Attached| {
            let mut seen: Vec<_> = seen
                .iter()
                .map(|(number, clock)| (id(*number), *clock))
                .collect();
            seen.sort_unstable();
            (id(*writer), seen)
        };
        let mut attached: Vec<_> = attached.iter().map(told).collect();
        attached.sort_unstable();
        let mut vouched: Vec<_> = vouched.iter().map(|(by, of)| (*by, id(*of))).collect();
        vouched.sort_unstable();
        let pending = pending.as_ref().map(|(clock, held)| (*clock, clocks(held)));
        let prospect = prospect.as_ref().map(|it| {
            let ids = |numbers: &[u32]| {
                let mut ids: Vec<_> = numbers.iter().map(|number| id(*number)).collect();
                ids.sort_unstable();
                ids
            };
            let held = it.held.as_deref().map(clocks);
            (ids(&it.members), clocks(&it.least), held, ids(&it.fences))
        });
        let (settled, floor, own) = (clocks(settled), clocks(floor), id(OWN));
        let collected = self.state.collected;
        let keyed = self.idempotency.keyed_text(&self.state, &self.membership);
        let keyed = keyed + &self.quota.local_text(&self.state);
        format!(
            "{own} {collected} {attached:?} {settled} {floor} {pending:?} {prospect:?} {established} {early} {proposal:?} \
             {asked} {vouched:?} {waiting} {returns:?} {gaps} {keyed}"
        )
    }
}
