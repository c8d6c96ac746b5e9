//! Local numbers of writers, by id.

use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// The local number of each writer, ascending by writer. It is one sorted vector, which is smaller in memory
/// and in code than a tree.
///
/// An insertion moves the entries after it. These are at most
/// [`WRITERS_TOLD_MAX`](crate::bounds::WRITERS_TOLD_MAX) or few more. A message brings its writers in order.
#[derive(Clone)]
pub(crate) struct Numbers(Vec<(WriterId, u32)>);

impl Numbers {
    /// A table of one writer.
    pub(crate) fn new(writer: WriterId, number: u32) -> Numbers {
        Numbers(Vec::from([(writer, number)]))
    }

    fn find(&self, writer: &WriterId) -> Result<usize, usize> {
        self.0.binary_search_by(|entry| entry.0.cmp(writer))
    }

    /// The writer's number, if it has one.
    pub(crate) fn get(&self, writer: &WriterId) -> Option<u32> {
        self.find(writer).ok().map(|at| self.0[at].1)
    }

    /// Gives a number to a writer that has none.
    pub(crate) fn insert(&mut self, writer: WriterId, number: u32) {
        if let Err(at) = self.find(&writer) {
            self.0.insert(at, (writer, number));
        }
    }

    /// How many writers have a number.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes a writer.
    pub(crate) fn remove(&mut self, writer: &WriterId) {
        if let Ok(at) = self.find(writer) {
            self.0.remove(at);
        }
    }

    /// Removes the writers whose numbers `keep` rejects.
    pub(crate) fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        self.0.retain(|entry| keep(entry.1));
    }

    /// The only writer from the first one of these ids to the last one.
    #[cfg(feature = "guests")]
    pub(crate) fn only_within(&self, first: &WriterId, last: &WriterId) -> Option<WriterId> {
        let (Ok(at) | Err(at)) = self.find(first);
        let ids = self.0[at..].iter().map(|entry| entry.0);
        let mut those = ids.take_while(|it| it <= last);
        let only = those.next();
        only.filter(|_| those.next().is_none())
    }

    /// Each writer with its number, ascending by writer.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (WriterId, u32)> + '_ {
        self.0.iter().copied()
    }
}
