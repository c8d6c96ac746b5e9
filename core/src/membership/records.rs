//! How membership records come into the writer table, and out of it.
//!
//! Each record is made in an own transaction ([`Membership::record`]) or arrives in a message
//! ([`Membership::merge_record`]). The records of one writer are in its [state](super::writer_state). Those
//! about the space are in the table itself: the configuration, and the generations of owners that were
//! forgotten.

use super::Membership;
use crate::error::Error;
use crate::indexed_state::State;
use crate::message::records::{Configuration, MembershipRecord, Owner, Statement};
use crate::optional::{GUESTS, Optional};
use crate::sheet::Sheet;
use crate::state::page::OWN;
use crate::state::slot::Stamp;
use alloc::boxed::Box;
use alloc::vec::Vec;

impl Membership {
    /// Returns the records about writers that are newer than `lows`, by local number. All of them must have
    /// been noted in this epoch or later.
    pub(crate) fn records_since(
        &self,
        epoch: u64,
        lows: &impl Sheet<u64>,
    ) -> Vec<MembershipRecord> {
        if !GUESTS {
            return Vec::new();
        }
        let numbers = self.table.changed_since(epoch).into_iter();
        let records =
            numbers.flat_map(|number| self.table.writer_states[number as usize].records(number));
        let configuration = self
            .table
            .configuration
            .as_ref()
            .map(|(by, it)| MembershipRecord {
                writer: by.writer,
                statement: Statement::Configuration(by.clock, Box::new(it.clone())),
            });
        let newer = |record: &MembershipRecord| {
            let by = record.stamp();
            by.clock > lows.at(by.writer)
        };
        let gone = self
            .table
            .gone
            .iter()
            .map(|(owner, generation, by)| MembershipRecord {
                writer: by.writer,
                statement: Statement::Gone(by.clock, Box::new((*owner, *generation))),
            });
        records
            .chain(configuration)
            .chain(gone)
            .filter(newer)
            .collect()
    }

    /// The present configuration; `None` while the space is open.
    pub(crate) fn configuration(&self) -> Option<&Configuration> {
        self.table.configuration.as_ref().map(|(_, it)| it)
    }

    /// The same, with the stamp of its record.
    pub(crate) fn stamped_configuration(&self) -> Option<&(Stamp, Configuration)> {
        self.table.configuration.as_ref()
    }

    /// Takes a configuration that another replica has, if it is later than the one here. It keeps the
    /// record with the least stamp of one configuration. Returns whether it took this one.
    pub(crate) fn merge_configuration(
        &mut self,
        state: &State,
        by: Stamp,
        theirs: &Configuration,
    ) -> bool {
        let rank = |by: Stamp| (state.id(by.writer), by.clock);
        let present = self.stamped_configuration();
        let is_newer = present
            .is_none_or(|(old, ours)| theirs > ours || theirs == ours && rank(by) < rank(*old));
        if is_newer {
            let is_other = self.configuration() != Some(theirs);
            self.table.update(|it| {
                if is_other {
                    it.proposal = None; // its number is taken
                    it.prospect = None;
                }
                it.configuration = Some((by, theirs.clone()));
            });
        }
        is_newer
    }

    /// Notes a record that an own transaction makes.
    pub(crate) fn note(&mut self, state: &State, writer: u32, statement: Statement) {
        let Some(table) = self.table.get_mut() else {
            return;
        };
        if matches!(statement, Statement::Announce(_)) {
            table.prospect = None;
        }
        table.writer_states[writer as usize].merge(&statement, state.ids());
        table.changed(writer, state.epoch());
    }

    /// Merges a record about a writer. Returns whether the writer is retired by it.
    pub(crate) fn merge_record(&mut self, state: &State, record: &MembershipRecord) -> bool {
        let Some(table) = self.table.get_mut() else {
            return false;
        };
        let writer_state = &mut table.writer_states[record.writer as usize];
        let news = writer_state.merge(&record.statement, state.ids());
        table.changed(record.writer, state.epoch());
        if news && let Statement::Announce(announce) = &record.statement {
            table.prospect = None;
            self.note_other_start(&announce.owner);
        }
        news && matches!(record.statement, Statement::Retired(_))
    }

    /// Makes one own transaction of one record.
    pub(crate) fn record(
        &mut self,
        state: &mut State,
        writer: u32,
        statement: impl FnOnce(Stamp) -> Statement,
    ) -> Result<(), Error> {
        let clock = self.next_clock(state)?;
        let by = Stamp { writer: OWN, clock };
        self.note(state, writer, statement(by));
        self.made(state, clock);
        Ok(())
    }

    /// Notes that an owner's incarnations up to a generation were forgotten.
    pub(crate) fn note_forgotten(&mut self, by: Stamp, owner: Owner, generation: u64) {
        let Some(table) = self.table.get_mut() else {
            return;
        };
        table.prospect = None;
        let gone = &mut table.gone;
        match gone.binary_search_by(|entry| entry.0.cmp(&owner)) {
            Ok(at) if gone[at].1 >= generation => {}
            Ok(at) => gone[at] = (owner, generation, by),
            Err(at) => gone.insert(at, (owner, generation, by)),
        }
    }
}
