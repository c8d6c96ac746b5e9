//! Checks whether the files of a log still have their names.
//!
//! If a file is removed, moved or truncated under a running node, it still accepts writes. The next
//! start then finds none of them, or refuses the folder. So the segment for commits is checked
//! before and after each commit, and all other files once a second.

use super::super::files::Mark;
use super::super::read::FORMAT_FILE;
use super::super::segment;
use super::{Log, Segment};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often all files are checked. A shorter time costs a system call for each segment. With a
/// longer time, the node acknowledges more after a file was lost.
const LOOK: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 1 });

/// The identity of each file when it was opened or created, where the system supports it.
#[derive(Debug, Default)]
pub(super) struct Marks {
    segments: BTreeMap<u64, Mark>,
    others: BTreeMap<&'static str, Mark>,
    /// When the last check found all files unchanged.
    looked: Cell<Option<Instant>>,
}

impl Log {
    /// Records all files of a log that was just opened.
    pub(super) fn mark_all(&mut self) {
        for segment in &self.segments {
            let number = segment.seal.number;
            if let Ok(Some(mark)) = self.folder.mark(&segment::name(number)) {
                self.marks.segments.insert(number, mark);
            }
        }
        self.mark_other(FORMAT_FILE);
    }

    /// Records a file beside the segments.
    pub(super) fn mark_other(&mut self, name: &'static str) {
        if let Ok(Some(mark)) = self.folder.mark(name) {
            self.marks.others.insert(name, mark);
        }
    }

    /// Records a new segment by its open file.
    pub(super) fn mark_segment(&mut self, number: u64, mark: Option<Mark>) {
        let first = self.segments.first().map_or(number, |it| it.seal.number);
        self.marks.segments.retain(|number, _| *number >= first);
        self.marks.segments.extend(mark.map(|mark| (number, mark)));
    }

    /// Checks that the files are unchanged. The error says what happened to one of them.
    pub(super) fn check_files(&self) -> Result<(), String> {
        self.check_segment(self.segment())?;
        let looked = self.marks.looked.get();
        if looked.is_some_and(|at| at.elapsed() < LOOK) {
            return Ok(());
        }
        let (_, before) = self.segments.split_last().unwrap_or((self.segment(), &[]));
        before.iter().try_for_each(|it| self.check_segment(it))?;
        for (name, mark) in &self.marks.others {
            self.check_file(name, *mark)?;
        }
        self.marks.looked.set(Some(Instant::now()));
        Ok(())
    }

    fn check_segment(&self, segment: &Segment) -> Result<(), String> {
        let number = segment.seal.number;
        let mark = self.marks.segments.get(&number);
        mark.map_or(Ok(()), |it| self.check_file(&segment::name(number), *it))
    }

    fn check_file(&self, name: &str, was: Mark) -> Result<(), String> {
        let path = self.folder.path().join(name);
        let path = path.display();
        match self.folder.mark(name) {
            Ok(None) => Ok(()),
            Ok(Some(mark)) if mark.identity != was.identity => {
                Err(format!("the file {path} was replaced by another"))
            }
            Ok(Some(mark)) if mark.bytes != was.bytes => Err(format!(
                "the file {path} has {} bytes, and had {}",
                mark.bytes, was.bytes
            )),
            Ok(Some(_)) => Ok(()),
            Err(error) => Err(format!("the file {path} is gone: {error}")),
        }
    }
}
