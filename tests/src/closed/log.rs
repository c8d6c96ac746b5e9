//! The records that a store would keep of an actor, and the check that they lead to the same state.

use tallymesh_core::{Encode, Mark, Message, Replica, Space, WriterId};

/// The messages that a store has kept.
#[derive(Default)]
pub(super) struct Log {
    pub(super) mark: Mark,
    records: Vec<Vec<u8>>,
}

impl Log {
    /// Stores the changes since the last record.
    pub(super) fn keep(&mut self, replica: &mut Replica) {
        if let Some(message) = replica.since(&mut self.mark) {
            if message.is_whole() {
                self.records.clear();
            }
            self.records.push(message.encode());
        }
    }

    /// Restores a fresh replica from the records, just after the last one was stored, and compares.
    pub(super) fn check(&self, replica: &mut Replica, now: u64) -> Result<(), String> {
        let fresh = WriterId::mint(&Space::default(), &[98; 32], &[98; 16]);
        let mut again = Replica::new(Space::default(), fresh);
        for bytes in &self.records {
            let message = Message::decode_stored(bytes).map_err(|error| error.to_string())?;
            let restored = again.restore(&message);
            restored.map_err(|error| format!("what was kept can't be restored: {error}"))?;
        }
        // Duplicates were withdrawn before the record was stored.
        if again.keyed_mut().withdraw(&mut |_, _| ()) != Ok(false) {
            return Err("what was kept withdraws something".into());
        }
        again.set_time(now);
        replica.set_time(now);
        if again.members().configuration() != replica.members().configuration() {
            return Err("the configuration was not kept".into());
        }
        let mut names = Vec::new();
        replica
            .quota()
            .each_budget(&mut |name| names.push(name.to_owned()));
        for name in names {
            let (was, is) = (
                replica.quota().holders_of(&name),
                again.quota().holders_of(&name),
            );
            if was != is {
                return Err(format!("{name}: held as {was:?} was kept as {is:?}"));
            }
        }
        let keys = replica.counters().map(|(_, key)| key);
        for key in keys.chain(again.counters().map(|(_, key)| key)) {
            let (was, is) = (replica.value(key), again.value(key));
            if was != is {
                return Err(format!("{key}: {was:?} was kept as {is:?}"));
            }
        }
        Ok(())
    }
}
