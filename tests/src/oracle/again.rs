//! Transactions that a replica replays after a late return.

use super::{Issue, Issued, Key, Kind, OpId, Oracle, Seen, View};
use tallymesh_core::{Again, WriterId};

/// A writer's clock.
pub type Dot = (WriterId, u64);

/// The time of the end that a replica made of a counter at a clock, and the floor of its refresh, if it still has
/// them.
pub type Marks<'a> = dyn Fn(&str, u64) -> (Option<u64>, Option<u64>) + 'a;

impl Oracle {
    /// Adds a transaction of `was` that the replica of `view` has replayed.
    ///
    /// A replayed cancel cancels two sets of operations. The first set is what the original had seen and
    /// `keeps` accepts. Its arguments are the dot of an operation and the dots up to which the replayed
    /// cancel reaches. The second set is every operation that the replica replayed before.
    ///
    /// The end of an expired counter is replayed. It ends what the replica replayed before, and the whole counter if
    /// that has expired by now. If another operation meets an expired counter, it makes an end, too. `marks` has
    /// what the replica noted with it, as far as that is still there.
    ///
    /// # Errors
    /// The difference, as text.
    pub fn reissue(
        &mut self,
        view: &mut View,
        (was, writer): (WriterId, WriterId),
        (now, marks): (u64, &Marks<'_>),
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
            let ends = self.ops[original].ends;
            let counter = view.counters.get(&key);
            let expired = counter.filter(|counter| counter.is_expired(now));
            let expired = expired.and_then(|counter| counter.expiry);
            let ends_own = ends.is_some() && expired.is_none();
            if self.ops[original].cancels() || ends_own {
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
            let kinds = match (ends, &saw) {
                (Some(time), _) => {
                    let floor = self.floor(&view.seen, key);
                    let time = time.max(expired.unwrap_or(0)).max(floor + 1);
                    vec![(key, Issue::end(time))]
                }
                (None, Some(_)) => vec![(key, Issue::from(op.op))],
                (None, None) => {
                    let floor = self.floor(&view.seen, key);
                    // A counter that this transaction changed before gets a delete.
                    let touched = self.ops[issued..].iter().any(|op| op.key == key);
                    let floors = |_| (!touched).then_some(floor);
                    let ops = [(key, op.op)];
                    let plan = self.plan_with(view, writer, now, &ops, &floors);
                    plan.map_err(|refusal| format!("{op:?}: {refusal:?}"))?
                        .issued
                }
            };
            for (key, mut issue) in kinds {
                let floor = self.floor(&view.seen, key);
                let marks = marks(&self.keys[key], last + 1);
                match issue.ends {
                    Some(time) => issue.ends = Some(marks.0.unwrap_or(time)),
                    None => issue = Issue::with_floor(issue.kind, marks.1.unwrap_or(floor)),
                }
                self.push(view, (writer, last + 1), (key, issue), saw.clone());
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
        (key, issue): (Key, Issue),
        saw: Option<Seen>,
    ) {
        let id = self.ops.len();
        let kind = issue.kind;
        self.by_key[key].push(id);
        let mut op = Issued {
            key,
            kind,
            writer,
            clock,
            saw: saw.unwrap_or_else(|| view.seen.clone()),
            begins_life: matches!(kind, Kind::Add(_)) && !view.counters.contains_key(&key),
            withdraws: None,
            ends: issue.ends,
            floor: issue.floor,
            void: Seen::default(),
        };
        op.void = self.spared_by(&op, &view.seen);
        self.ops.push(op);
        view.seen.insert(id);
        self.recount(view, key);
    }
}
