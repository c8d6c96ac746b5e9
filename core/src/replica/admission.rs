//! Admission rules, as merges and the sync machine ask for them: [the rules](crate::membership::admission).

use super::{QuotaHooks, Replica};
use crate::error::Error;
use crate::membership::admission::Forgotten;
use crate::message::Message;
use crate::message::records::{Configuration, MembershipRecord, Statement};
use crate::optional::GUESTS;
use crate::state::keys::KeyId;
use crate::state::page::OWN;
use crate::state::slot::Stamp;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

impl Replica {
    /// Drops the state that a message replaces. Returns whether there was any.
    pub(super) fn make_way(
        &mut self,
        message: &Message,
        new: bool,
        changed: &mut dyn FnMut(KeyId),
    ) -> Result<bool, Error> {
        if !GUESTS || !new || !self.membership.is_replaced_by(&self.state, message)? {
            return Ok(false);
        }
        // The message must not take anything back. The sender has forgotten a writer that the message does
        // not name. If the space was open here, the sender may never have admitted this writer, which then
        // deals with members by itself. So does a member's start that wrote before it announced itself. A
        // replica that waited for such writers would stay apart while they are away. It would wait for ever if
        // members had ended one of them at an earlier clock, because its process goes on under another writer.
        let open = self.membership.configuration().is_none();
        let by_itself =
            |writer: &WriterId| open || !self.membership.is_placed(self.state.number_of(writer));
        for (writer, held) in self.writers().filter(|it| !self.rejoin.is_earlier(&it.0)) {
            let ended = open && message.has_ended(&writer);
            let told = message.hi(&writer).filter(|_| !ended).unwrap_or_else(|| {
                match by_itself(&writer)
                    || self.membership.is_gone_from(&self.state, message, &writer)
                {
                    true => held,
                    false => 0,
                }
            });
            if told < held {
                return Err(Error::not_covered(writer, held, told));
            }
        }
        self.clear(self.writer()).into_iter().for_each(changed);
        Ok(true)
    }

    /// Whether this replica has transactions of writers that no member has admitted, and that are not its own earlier
    /// ones.
    pub(crate) fn has_strangers(&self) -> bool {
        let strange = |writer: &WriterId| {
            *writer != self.writer()
                && !self.membership.is_placed(self.state.number_of(writer))
                && !self.rejoin.is_earlier(writer)
        };
        self.membership.configuration().is_some() && self.writers().any(|it| strange(&it.0))
    }

    /// Merges the membership records. Returns the writers that were retired by new records.
    pub(super) fn merge_records(&mut self, message: &Message, forgotten: &Forgotten) -> Vec<u32> {
        let mut retired = Vec::new();
        for record in message.records() {
            let Some(record) = self.news_of(record, message, forgotten) else {
                continue;
            };
            let by = Stamp {
                writer: record.writer,
                clock: record.stamp().clock,
            };
            match &record.statement {
                Statement::Configuration(_, it) => self.merge_configuration(by, it),
                Statement::Horizon(_) => {}
                Statement::Gone(_, it) => self.membership.note_forgotten(by, it.0, it.1),
                _ if self.membership.merge_record(&self.state, &record) => retired.push(by.writer),
                _ => {}
            }
        }
        retired
    }

    /// A record of a message, with the local numbers of its writers and without forgotten ones. `None` if this
    /// replica has it already, or if it is about a forgotten writer.
    fn news_of(
        &self,
        record: &MembershipRecord,
        message: &Message,
        forgotten: &Forgotten,
    ) -> Option<MembershipRecord> {
        let mut record = record.clone();
        let id = |at: u32| &message.delta.writers[at as usize].writer;
        let covered = |at: u32| match forgotten.contains(&(at as usize)) {
            true => u64::MAX,
            false => self.state.held(id(at)),
        };
        let by = record.stamp();
        if by.clock <= covered(by.writer) || covered(record.writer) == u64::MAX {
            return None;
        }
        match &mut record.statement {
            Statement::Ack(ack) => ack.seen.retain(|(at, _)| covered(*at) != u64::MAX),
            Statement::Base(seen, _) => {
                let kept = seen.iter().copied();
                *seen = kept.filter(|(at, _)| covered(*at) != u64::MAX).collect();
            }
            _ => {}
        }
        let mut successor = None;
        if let Statement::Leave(leave) = &record.statement
            && covered(leave.successor) == u64::MAX
        {
            let leaves = self.state.number_of(id(record.writer));
            successor = Some(self.membership.only_sponsor(leaves?)?);
        }
        // All others that are left have a number.
        record.renumber(|at| self.state.number_of(id(at)).unwrap_or(OWN));
        if let (Statement::Leave(leave), Some(successor)) = (&mut record.statement, successor) {
            leave.successor = successor;
        }
        Some(record)
    }

    /// Takes a configuration, if it is later than the one here.
    fn merge_configuration(&mut self, by: Stamp, theirs: &Configuration) {
        let begins = self.membership.configuration().is_none();
        if self.membership.merge_configuration(&self.state, by, theirs) {
            if begins {
                self.rejoin.begin_journal(&self.state);
            }
            self.quota.configured(&self.membership);
        }
    }
}

#[cfg(test)]
mod tests;
