//! The local knowledge of members, which a replica never sends: for tests that must distinguish replicas.

use super::Membership;
use super::table::{Sponsored, WriterTable};
use crate::indexed_state::State;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

impl Membership {
    /// Returns as text everything that decides what a replica does with members, and that it never sends.
    pub(crate) fn local_text(&self, state: &State) -> String {
        // Each field is named, so that a new field does not compile until it is handled here.
        let WriterTable {
            writer_states: _,
            index: _,
            configuration: _,
            gone: _,
            sponsored,
            stuck: _,
            stable,
            collected,
            pending,
            prospect,
            established,
            early,
            over,
            follows,
            linked,
            told,
            votes_on,
            proposal,
            asked,
            vouched,
            waiting,
            returns,
            gaps,
            returned: _,
            remembered: _,
            pages: _,     // as the sync machine says
            held_back: _, // with the keyed operations
        } = &*self.table;
        let id = |number: u32| state.id(number);
        let clocks = |clocks: &[u64]| {
            let held = clocks.iter().zip(state.ids());
            let mut held: Vec<_> = held.filter(|(clock, _)| **clock > 0).collect();
            held.sort_unstable_by_key(|(_, writer)| **writer);
            format!("{held:?}")
        };
        let reported = |Sponsored { writer, seen }: &Sponsored| {
            let mut seen: Vec<_> = seen
                .iter()
                .map(|(number, clock)| (id(*number), *clock))
                .collect();
            seen.sort_unstable();
            (id(*writer), seen)
        };
        let mut sponsored: Vec<_> = sponsored.iter().map(reported).collect();
        sponsored.sort_unstable();
        let mut told = told.clone();
        told.sort_unstable();
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
        let (stable, collected) = (clocks(stable), clocks(collected));
        format!(
            "{sponsored:?} {stable} {collected} {pending:?} {prospect:?} {established} {early} {over} {follows:?} {linked} {told:?} {votes_on:?} \
             {proposal:?} {asked} {vouched:?} {waiting} {returns:?} {gaps}"
        )
    }
}
