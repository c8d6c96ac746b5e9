//! The state to which processes must converge.

use super::World;
use std::collections::BTreeMap;
use tallymesh_core::WriterId;

/// A writer and a key.
pub(super) type Place = (WriterId, String);

impl World {
    pub(super) fn is_healed(&self) -> bool {
        let all = self.nodes.iter().enumerate().filter(|it| !it.1.is_gone());
        if all
            .clone()
            .any(|(at, it)| !it.alive || !self.is_written(at))
        {
            return false;
        }
        let mut bytes = all.map(|it| it.1.replica.canonical_bytes());
        let first = bytes.next();
        bytes.all(|bytes| Some(bytes) == first)
    }

    pub(super) fn differences(&self) -> String {
        let mut text = self.tell();
        for (at, node) in self.living() {
            text += &format!("\n    {at} holds");
            for it in node.replica.forks().contents() {
                let (writer, clock) = (it.writer.to_string(), it.clock);
                let [shards, cancels] = [it.shards, it.cancels].map(|digest| digest as u16);
                text += &format!(" {}@{clock} {shards:04x} {cancels:04x},", &writer[..4]);
            }
        }
        text
    }

    fn shards(&self) -> impl Iterator<Item = (Place, (u64, i128))> {
        self.living().flat_map(|(_, node)| {
            let replica = &node.replica;
            replica.counters().flat_map(move |(handle, key)| {
                let of = move |shard: tallymesh_core::Shard| {
                    let place = (shard.writer, key.to_owned());
                    (place, (shard.clock, shard.total))
                };
                replica.shards(handle).map(of)
            })
        })
    }

    /// The join of the shards of all living processes.
    pub(super) fn join(&self) -> BTreeMap<Place, (u64, i128)> {
        let mut join = BTreeMap::new();
        for (place, shard) in self.shards() {
            let held = join.entry(place).or_insert(shard);
            *held = shard.max(*held);
        }
        join
    }

    /// Whether some clock of a writer has two contents, and both survive the later shards of the other. Each
    /// plain transaction changes one counter. A fork that left no trace is not found.
    pub(super) fn is_forked(&self, join: &BTreeMap<Place, (u64, i128)>) -> bool {
        let mut clocks: BTreeMap<(WriterId, u64), (String, i128)> = BTreeMap::new();
        let survives = |place: &Place, clock| join[place].0 == clock;
        self.own.plain
            && self.shards().any(|(place, (clock, total))| {
                survives(&place, clock) && {
                    let (writer, key) = place;
                    let one = clocks.entry((writer, clock));
                    *one.or_insert((key.clone(), total)) != (key, total)
                }
            })
    }

    pub(super) fn check(&self, expected: &BTreeMap<Place, (u64, i128)>) -> Result<(), String> {
        if self.own.plain {
            let held = self.join();
            // Pushes that waited for another change may contain more shards than were visible.
            let mut shards = held.clone().into_iter();
            if let Some(shard) = shards.find(|shard| !self.own.made.contains(shard)) {
                return Err(format!("{shard:?} was never made"));
            }
            let lost = |(place, shard): &(&Place, &_)| held.get(*place) < Some(*shard);
            if let Some(shard) = expected.iter().find(lost) {
                return Err(format!("{shard:?} was lost: {:?}", held.get(shard.0)));
            }
        }
        if self.own.metrics.forks > 0 && self.own.metrics.faults == 0 {
            return Err("a clock had two contents, and nobody told".into());
        }
        for (_, node) in self.living() {
            let contents = node.replica.forks().contents().into_iter();
            let fresh = contents.fold(0u64, |sum, it| {
                sum.wrapping_add(it.shards).wrapping_add(it.cancels)
            });
            if node.replica.clone().forks_mut().content_digest() != fresh {
                return Err("the digest of the contents is stale".into());
            }
        }
        Ok(())
    }
}
