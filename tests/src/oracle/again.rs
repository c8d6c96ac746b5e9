//! Transactions that a replica replays after a late return.

use super::{Issued, Key, Kind, OpId, Oracle, Seen, View};
use tallymesh_core::{Again, WriterId};

/// A writer's clock.
pub type Dot = (WriterId, u64);

impl Oracle {
    /// Adds a transaction of `was` that the replica of `view` has replayed.
    ///
    /// A replayed cancel cancels two sets of operations. The first set is what the original had seen and
    /// `keeps` accepts. Its arguments are the dot of an operation and the dots up to which the replayed
    /// cancel reaches. The second set is every operation that the replica replayed before.
    ///
    /// # Errors
    /// The difference, as text.
    pub fn reissue(
        &mut self,
        view: &mut View,
        (was, writer): (WriterId, WriterId),
        now: u64,
        again: &Again,
        keeps: &dyn Fn(Dot, &[Dot]) -> bool,
    ) -> Result<(), String> {
        let Some(first) = self.stamps.get(&(was, again.was)).cloned() else {
            return Err(format!("{was} never made {}", again.was));
        };
        if view.vector.get(&was).is_some_and(|held| *held >= again.was) {
            return Err(format!(
                "{was}@{} was taken over, and is made again",
                again.was
            ));
        }
        let last = view.vector.get(&writer).copied().unwrap_or(0);
        let issued = self.ops.len();
        let mut originals = first.clone();
        for op in &again.ops {
            let key = self.number(&op.key).unwrap_or_default();
            let same = |id: &OpId| (self.ops[*id].key, self.ops[*id].kind) == (key, op.op);
            let Some(original) = originals.find(same) else {
                return Err(format!("{op:?} was no operation of {was}@{}", again.was));
            };
            let mut saw = None;
            if self.ops[original].cancels() {
                let mut seen = Seen::default();
                for &id in &self.by_key[key] {
                    let Issued {
                        writer: by, clock, ..
                    } = self.ops[id];
                    let kept =
                        self.ops[original].saw.contains(id) && keeps((by, clock), &op.cancels);
                    if kept || by == writer && view.seen.contains(id) {
                        seen.insert(id);
                    }
                }
                saw = Some(seen);
            }
            let kinds = match saw {
                Some(_) => vec![(key, op.op)],
                None => {
                    let plan = self.plan(view, writer, now, &[(key, op.op)]);
                    plan.map_err(|refusal| format!("{op:?}: {refusal:?}"))?
                        .issued
                }
            };
            for (key, kind) in kinds {
                self.push(view, (writer, last + 1), (key, kind), saw.clone());
            }
        }
        // A replayed keyed transaction is a transaction even without an effect. It is not one if another one
        // of its key counts already.
        let once = self.keyed.get(&(was, again.was)).copied();
        if let (Some(once), Some(clock)) = (once, again.clock) {
            self.keyed.insert((writer, clock), once);
        }
        match again.clock {
            Some(clock) if clock == last + 1 && (self.ops.len() > issued || once.is_some()) => {
                self.stamps.insert((writer, clock), issued..self.ops.len());
                view.vector.insert(writer, clock);
                Ok(())
            }
            None if once.is_some_and(|once| !self.is_seen(view, once)) => {
                Err(format!("{once:?} was made once and not again"))
            }
            None if self.ops.len() == issued => Ok(()),
            clock => Err(format!("made again at {clock:?} after {last}: {again:?}")),
        }
    }

    /// Adds one operation that the replica of `view` made. `saw` is given if it differs from the whole view.
    pub(super) fn push(
        &mut self,
        view: &mut View,
        (writer, clock): Dot,
        (key, kind): (Key, Kind),
        saw: Option<Seen>,
    ) {
        let id = self.ops.len();
        self.by_key[key].push(id);
        self.ops.push(Issued {
            key,
            kind,
            writer,
            clock,
            saw: saw.unwrap_or_else(|| view.seen.clone()),
            begins_life: matches!(kind, Kind::Add(_)) && !view.counters.contains_key(&key),
            withdraws: None,
        });
        view.seen.insert(id);
        self.recount(view, key);
    }
}
