//! Taking back what a store kept.

use super::Replica;
use super::merge::Found;
use super::standing::Forgotten;
use crate::MEMBERS;
use crate::delta::Message;
use crate::error::{Error, Missing};
use crate::limits::WRITERS_MAX;
use alloc::boxed::Box;

impl Replica {
    /// Takes back what this replica's store kept of an earlier start: the messages that
    /// [`since`](Replica::since) gave, in order, into an empty replica. They were judged when they
    /// were merged first, by more than was stored, so who sent them is not asked again.
    ///
    /// # Errors
    /// [`Error::NotCovered`] if a message between is missing, [`Error::WritersFull`],
    /// [`Error::CountersFull`]. Nothing is changed then.
    pub fn restore(&mut self, message: &Message) -> Result<(), Error> {
        let mut writers = self.numbers.len();
        for entry in &message.writers {
            let held = self.clock_of(entry);
            if entry.lo > held {
                let missing = Missing {
                    writer: entry.writer,
                    needed: entry.lo,
                    held,
                };
                return Err(Error::NotCovered(Box::new(missing)));
            }
            writers += usize::from(self.numbers.get(&entry.writer).is_none());
        }
        if writers > WRITERS_MAX {
            return Err(Error::WritersFull { writers });
        }
        self.keys.room_for(message.keys.bytes())?;
        let mut ignore = |_| ();
        let mut found = Found::new(self.numbers.len() == 1, &mut ignore);
        let forgotten = Forgotten::default();
        self.install(message, &forgotten, &mut found)?;
        self.conclude(message, &forgotten, found);
        if MEMBERS {
            for (writer, upto) in message.returns.iter() {
                self.remember(*writer, *upto);
            }
        }
        Ok(())
    }
}
