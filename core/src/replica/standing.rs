//! Admission rules, as merges and the sync machine ask for them: [the rules](crate::membership::admission).

use super::{QuotaHooks, Replica};
use crate::error::Error;
use crate::layers::{GUESTS, Optional};
use crate::membership::admission::Forgotten;
use crate::message::Message;
use crate::message::records::{Configuration, Statement};
use crate::state::keys::KeyId;
use crate::state::page::OWN;
use crate::state::slot::Stamp;
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
        // deals with members by itself. A replica that waited for such writers would stay apart while they
        // are away. It would wait for ever if members had ended one of them at an earlier clock, because its
        // process goes on under another writer.
        let open = self.membership.configuration().is_none();
        for (writer, held) in self.writers().filter(|it| !self.rejoin.is_earlier(&it.0)) {
            let ended = open && message.says_ended(&writer);
            let told = message.hi(&writer).filter(|_| !ended).unwrap_or_else(|| {
                match open || self.membership.is_gone_from(&self.state, message, &writer) {
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

    /// Merges the membership records. Returns the writers that were retired by new records.
    pub(super) fn take_facts(&mut self, message: &Message, forgotten: &Forgotten) -> Vec<u32> {
        let mut retired = Vec::new();
        for fact in message.facts() {
            let mut fact = fact.clone();
            let by = fact.stamp();
            let covered = |at: u32| match forgotten.contains(&(at as usize)) {
                true => u64::MAX,
                false => self.state.held(&message.delta.writers[at as usize].writer),
            };
            if by.clock <= covered(by.writer) || covered(fact.writer) == u64::MAX {
                continue;
            }
            match &mut fact.says {
                Statement::Ack(ack) => ack.seen.retain(|(at, _)| covered(*at) != u64::MAX),
                Statement::Base(seen, _) => {
                    let kept = seen.iter().copied();
                    *seen = kept.filter(|(at, _)| covered(*at) != u64::MAX).collect();
                }
                _ => {}
            }
            let numbers = |at: u32| {
                let number = self
                    .state
                    .number_of(&message.delta.writers[at as usize].writer);
                number.unwrap_or(OWN) // all that are left have one
            };
            fact.renumber(numbers);
            if let Statement::Configuration(clock, it) = &fact.says {
                let by = Stamp {
                    writer: fact.writer,
                    clock: *clock,
                };
                self.take_configuration(by, it);
                continue;
            }
            if matches!(fact.says, Statement::Floor(_)) {
                continue;
            }
            if let Statement::Gone(_, it) = &fact.says {
                let by = Stamp {
                    writer: fact.writer,
                    clock: by.clock,
                };
                self.membership.take_gone(by, it.0, it.1);
                continue;
            }
            let Some(table) = self.membership.table.get_mut() else {
                break;
            };
            let card = &mut table.cards[fact.writer as usize];
            let news = card.take(&fact.says, self.state.ids());
            table.changed(fact.writer, self.state.epoch());
            match (news, &fact.says) {
                (true, Statement::Retired(_)) => retired.push(fact.writer),
                (true, Statement::Announce(_)) => table.prospect = None,
                _ => {}
            }
        }
        retired
    }

    /// Keeps the later configuration, and for the same one the least stamp.
    pub(super) fn take_configuration(&mut self, by: Stamp, theirs: &Configuration) {
        let rank = |by: Stamp| (self.state.id(by.writer), by.clock);
        let newer = self
            .membership
            .table
            .configuration
            .as_ref()
            .is_none_or(|(old, ours)| theirs > ours || theirs == ours && rank(by) < rank(*old));
        if newer {
            if self.membership.configuration().is_none() {
                self.rejoin.begin_journal(&self.state);
            }
            if self.membership.configuration() != Some(theirs) {
                self.membership.change(|it| {
                    it.proposal = None; // its number is taken
                    it.prospect = None;
                });
            }
            self.membership
                .change(|it| it.configuration = Some((by, theirs.clone())));
            self.quota.configured(&self.membership);
        }
    }
}

#[cfg(test)]
mod tests;
