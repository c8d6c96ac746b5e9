//! What a reader who was away has to be told: which counters changed since it was there.

use super::{PAGE, Replica};
use crate::keys::Handle;
use crate::shard::bits;

/// A moment in a replica's history. It means nothing to another replica, nor to the next process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The epoch that began then.
    pub epoch: u64,
    /// How often counters had been dropped of which nothing is left.
    pub dropped: u64,
}

impl Replica {
    /// The present moment.
    pub fn moment(&mut self) -> Moment {
        self.epoch += 1;
        Moment {
            epoch: self.epoch,
            dropped: *self.dropped,
        }
    }

    /// The counters from the handle with number `from` on, ascending, that changed since a moment,
    /// and perhaps some that did not. `None` if they can't be told any more: another state took the
    /// place of all that was held, or counters were dropped that had become absent.
    ///
    /// Its cost follows the changes, not the state.
    pub fn changed_since(&self, moment: Moment, from: u32) -> Option<impl Iterator<Item = Handle>> {
        let is_known = self.began < moment.epoch && moment.epoch <= self.epoch;
        if !is_known || *self.dropped != moment.dropped {
            return None;
        }
        let mut next = from as usize / PAGE;
        let pages = core::iter::from_fn(move || {
            let (at, slots) = self.touched.next(&self.pages, next, moment.epoch)?;
            next = at + 1;
            Some((at, slots))
        });
        let handles = pages
            .flat_map(|(at, slots)| bits(slots).map(move |slot| Handle((at * PAGE) as u32 + slot)));
        Some(handles.filter(move |it| it.0 >= from && self.keys.get(*it).is_some()))
    }
}

#[cfg(test)]
mod tests {
    use super::Moment;
    use crate::{Op, Replica, Space, WriterId};
    use alloc::vec::Vec;

    fn replica(id: u8) -> Replica {
        Replica::new(Space::default(), WriterId::from_bytes([id; 16]))
    }

    fn changed(replica: &Replica, moment: Moment, from: u32) -> Option<Vec<&str>> {
        let handles = replica.changed_since(moment, from)?;
        Some(handles.filter_map(|it| replica.key(it)).collect())
    }

    #[test]
    fn what_changed_since_a_moment_is_told_also_if_it_came_from_elsewhere() {
        let (mut here, mut there) = (replica(1), replica(2));
        for n in 0..200 {
            here.add(&alloc::format!("k{n}"), 1).expect("add");
        }
        let moment = here.moment();
        assert_eq!(changed(&here, moment, 0), Some(Vec::new()));
        here.add("k3", 1).expect("add");
        there.add("k150", 5).expect("add");
        here.merge(&there.delta(&here.vector())).expect("merge");
        here.apply("k199", Op::Delete).expect("delete");
        assert_eq!(
            changed(&here, moment, 0),
            Some(["k3", "k150", "k199"].into())
        );
        assert_eq!(changed(&here, moment, 4), Some(["k150", "k199"].into()));
        let later = here.moment();
        assert_eq!(changed(&here, later, 0), Some(Vec::new()));
        here.add("new", 1).expect("add");
        assert_eq!(changed(&here, later, 0), Some(["new"].into()));
    }

    #[test]
    fn what_is_not_known_is_not_told() {
        let mut here = replica(1);
        here.add("a", 1).expect("add");
        let moment = here.moment();
        for wrong in [
            Moment {
                epoch: moment.epoch + 1,
                ..moment
            },
            Moment { epoch: 0, ..moment },
            Moment {
                dropped: 1,
                ..moment
            },
        ] {
            assert_eq!(changed(&here, wrong, 0), None, "{wrong:?}");
        }
        assert_eq!(changed(&here, moment, 0), Some(Vec::new()));
    }
}
