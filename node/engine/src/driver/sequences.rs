//! Reads of sequences of numbers.

use super::space::OpenSpace;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use tallymesh_core::{Reached, Sequence, WriterId};
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::{GapRow, HeldRow, Query, SequencePage, SequenceRow, WatchRow};

fn ends(range: &Range<u64>) -> (u64, u64) {
    (range.start, range.end.saturating_sub(1))
}

impl OpenSpace {
    /// A sequence; `None` if there is none of this name.
    pub(super) fn sequence(&self, key: &str) -> Option<SequenceRow> {
        let Sequence {
            next,
            issued,
            held,
            gaps,
            lost,
            watched,
        } = self.replica.quota().sequence(key)?;
        let member_list = self.replica.members().writer_table();
        let owners = member_list.filter_map(|it| Some((it.writer, OwnerKey(it.owner?))));
        let owners: HashMap<WriterId, OwnerKey> = owners.collect();
        let own = self.replica.writer();
        let in_gaps: u64 = gaps.iter().map(|it| it.end - it.start).sum();
        let held = held.into_iter().map(|(range, writer)| {
            let (first, last) = ends(&range);
            HeldRow {
                first,
                last,
                writer: writer.to_string(),
                owner: owners.get(&writer).copied(),
                own: writer == own,
            }
        });
        let gaps = gaps.iter().map(|range| {
            let (first, last) = ends(range);
            GapRow { first, last }
        });
        let watched = watched.into_iter().map(|it| {
            let (state, by, below) = match it.reached {
                Reached::NotYet => ("open", None, None),
                Reached::HandedOut { by, below } => ("handed_out", Some(by), Some(below)),
                Reached::Passed => ("passed", None, None),
                Reached::Lost => ("lost", None, None),
            };
            WatchRow {
                number: it.number,
                state,
                writer: by.map(|by| by.to_string()),
                owner: by.and_then(|by| owners.get(&by).copied()),
                own: by == Some(own),
                below,
            }
        });
        Some(SequenceRow {
            key: key.to_owned(),
            next,
            issued,
            lost: lost + in_gaps,
            held: held.collect(),
            gaps: gaps.collect(),
            watched: watched.collect(),
        })
    }

    /// The first sequences by name that the query selects.
    pub(super) fn sequences(&self, query: &Query) -> SequencePage {
        let mut names: BTreeSet<String> = BTreeSet::new();
        let mut more = false;
        self.replica.quota().each_sequence(&mut |name| {
            if query.wants(name) {
                names.insert(name.to_owned());
            }
            if names.len() > query.limit {
                names.pop_last();
                more = true;
            }
        });
        let next = names.last().filter(|_| more).cloned();
        SequencePage {
            sequences: names
                .iter()
                .filter_map(|name| self.sequence(name))
                .collect(),
            next,
        }
    }
}
