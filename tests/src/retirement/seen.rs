//! The result of the transactions of a cut, by the oracle.

use super::world::{CutId, Remade, Txn, TxnId, World};
use crate::ledger::{Ledger, Made};
use crate::oracle::{Dot, Oracle, Takeovers, View};
use std::collections::BTreeMap;
use tallymesh_core::{Configuration, Replica, WriterId};

impl World<'_> {
    /// The oracle of a cut, and the view of a replica that sees it.
    pub(super) fn oracle(&self, cut: CutId) -> Result<(Oracle, View), String> {
        let txns = self.with_causes(self.cuts[cut as usize].clone());
        let (oracle, _) = self.replay(txns)?;
        let mut view = View::default();
        oracle.learn(&mut view, self.clocks(cut).into_iter())?;
        Ok((oracle, view))
    }

    /// Adds the originals of replayed transactions, and everything that these had seen. No replica needs to
    /// see these additions.
    fn with_causes(&self, mut txns: Vec<TxnId>) -> Vec<TxnId> {
        let remade = |id: &TxnId| self.txns[*id as usize].did.again.is_some();
        let mut known = match txns.iter().any(remade) {
            true => 0,
            false => txns.len(), // a cut has all causes
        };
        while known < txns.len() {
            let txn = &self.txns[txns[known] as usize];
            let remade = txn.did.again.as_ref().map(|it| it.original);
            for id in remade
                .into_iter()
                .chain(self.cuts[txn.before as usize].clone())
            {
                if !txns.contains(&id) {
                    txns.push(id);
                }
            }
            known += 1;
        }
        txns.sort_unstable();
        txns
    }

    /// The oracle of these transactions. The list includes everything that they had seen.
    fn replay(&self, txns: Vec<TxnId>) -> Result<(Oracle, Takeovers), String> {
        let mut oracle = Oracle::new(self.keys.clone());
        let mut taken = Takeovers::default();
        for txn in txns.into_iter().map(|id| &self.txns[id as usize]) {
            let mut view = View::default();
            oracle.learn(&mut view, self.clocks(txn.before).into_iter())?;
            let stamp = (txn.writer, txn.clock);
            for (writer, upto) in &txn.did.retires {
                taken.add(*writer, stamp, *upto);
            }
            if let Some(once) = txn.did.once {
                oracle.key(stamp, once);
            }
            match &txn.did.again {
                _ if !txn.did.withdraws.is_empty() => {
                    oracle.withdraw(&mut view, stamp, &txn.did.withdraws)?;
                }
                Some(remade) => self.reissue(&mut oracle, &taken, &mut view, txn.writer, remade)?,
                None if txn.did.issued.is_empty() && txn.did.once.is_none() => {
                    oracle.note(&mut view, stamp);
                }
                None => oracle.issue(&mut view, stamp, &txn.did.issued)?,
            }
        }
        Ok((oracle, taken))
    }

    /// Compares the budget of a replica that sees a cut with all operations on it.
    pub(super) fn check_budget(&self, cut: CutId, replica: &Replica) -> Result<(), String> {
        let mut ledger = Ledger::default();
        for id in &self.cuts[cut as usize] {
            let Txn {
                writer, clock, did, ..
            } = &self.txns[*id as usize];
            if let Some(flow) = did.flow {
                let flows = vec![(0, flow)];
                let made = Made { flows, once: None };
                ledger.add((*writer, *clock), made);
            }
        }
        ledger.check(&self.clocks(cut), replica)
    }

    /// Checks that only one configuration of each number takes effect.
    pub(super) fn check_decided(&self, cut: CutId) -> Result<(), String> {
        let mut decided: BTreeMap<(u64, u64), &Configuration> = BTreeMap::new();
        let txns = self.cuts[cut as usize].iter();
        for next in txns.filter_map(|id| self.txns[*id as usize].did.decides.as_ref()) {
            let first = decided.entry((next.era, next.number)).or_insert(next);
            if *first != next {
                return Err(format!("{first:?} and {next:?} have both taken effect"));
            }
        }
        Ok(())
    }

    /// The vector of a replica that sees a cut.
    pub(super) fn clocks(&self, cut: CutId) -> BTreeMap<WriterId, u64> {
        let mut clocks = BTreeMap::new();
        for txn in &self.cuts[cut as usize] {
            let Txn { writer, clock, .. } = self.txns[*txn as usize];
            let held = clocks.entry(writer).or_insert(0);
            *held = clock.max(*held);
        }
        clocks
    }

    /// The transaction of a cut that has this stamp.
    pub(super) fn find(&self, cut: CutId, stamp: (WriterId, u64)) -> Result<TxnId, String> {
        let mut txns = self.cuts[cut as usize].iter().copied();
        let found = txns.find(|id| {
            let txn = &self.txns[*id as usize];
            (txn.writer, txn.clock) == stamp
        });
        found.ok_or_else(|| format!("{stamp:?} was never made, and is made again"))
    }

    /// Compares a transaction that was replayed after a cut with the oracle.
    pub(super) fn remake(
        &self,
        cut: CutId,
        writer: WriterId,
        remade: &Remade,
    ) -> Result<(), String> {
        let mut txns = self.cuts[cut as usize].clone();
        txns.push(remade.original);
        txns.extend(&self.cuts[self.txns[remade.original as usize].before as usize]);
        txns.sort_unstable();
        txns.dedup();
        let (mut oracle, taken) = self.replay(self.with_causes(txns))?;
        let mut view = View::default();
        oracle.learn(&mut view, self.clocks(cut).into_iter())?;
        self.reissue(&mut oracle, &taken, &mut view, writer, remade)
    }

    fn reissue(
        &self,
        oracle: &mut Oracle,
        taken: &Takeovers,
        view: &mut View,
        writer: WriterId,
        remade: &Remade,
    ) -> Result<(), String> {
        let was = self.txns[remade.original as usize].writer;
        let keeps = |dot: Dot, cancels: &[Dot]| taken.keeps(dot, cancels);
        oracle.reissue(
            view,
            (was, writer),
            (remade.now, &|_, _| (None, None)),
            &remade.again,
            &keeps,
        )
    }
}
