//! `SEQUENCE.…`: commands on sequences of numbers, which Redis does not have.

use super::command::Command;
use super::counters::{Writing, key};
use super::error::ReplyError;
use super::reply::Reply;
use super::request::{Args, number};
use tallymesh_core::{Reached, Replica};
use tallymesh_node_ground::model::OperationError;

impl<'a> Writing<'_, '_, 'a> {
    /// Makes a command on a sequence, and answers it; the answer of `SEQUENCE.NEXT` is the number.
    pub(super) fn sequence(
        &mut self,
        command: Command,
        args: &Args<'a>,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let name = key(args.at(1))?;
        match command {
            Command::SequenceNext => {
                let next = self
                    .tx
                    .quota_mut()
                    .draw(name)
                    .map_err(OperationError::from)?;
                reply.integer(next.cast_signed()); // at most 2^63 - 2
                return Ok(());
            }
            Command::SequenceBegin => self.tx.quota_mut().begin_sequence(name),
            Command::SequenceWatch => self
                .tx
                .quota_mut()
                .watch_number(name, of_sequence(args.at(2))?),
            Command::SequenceUnwatch => self
                .tx
                .quota_mut()
                .end_watch(name, of_sequence(args.at(2))?),
            other => unreachable!("{other:?} has no arm among the writes of sequences"),
        }
        .map_err(OperationError::from)?;
        reply.ok();
        Ok(())
    }
}

/// A number of a sequence.
fn of_sequence(text: &[u8]) -> Result<u64, ReplyError<'_>> {
    let number = number(text).ok_or(ReplyError::NotInteger)?;
    // Other numbers that are outside of a sequence are refused where they are used.
    u64::try_from(number).map_err(|_| ReplyError::Number(number))
}

/// Answers `SEQUENCE.GET`. It gives the lowest number that no member was given, how many were
/// handed out at least, and how many were lost. It also gives the state of each watched number.
pub(super) fn get<'a>(
    args: &Args<'a>,
    replica: &Replica,
    reply: &mut Reply<'_>,
) -> Result<(), ReplyError<'a>> {
    let Some(known) = replica.quota().sequence(key(args.at(1))?) else {
        reply.null();
        return Ok(());
    };
    let gaps: u64 = known.gaps.iter().map(|it| it.end - it.start).sum();
    let fields = [
        ("next", known.next),
        ("issued", known.issued),
        ("lost", known.lost + gaps),
    ];
    reply.map(fields.len() + 1);
    for (name, number) in fields {
        reply.bulk(name.as_bytes());
        reply.integer(number.cast_signed());
    }
    reply.bulk(b"watched");
    reply.array(known.watched.len());
    for watched in known.watched {
        let (state, by) = match watched.reached {
            Reached::NotYet => ("open", None),
            Reached::HandedOut { by, .. } => ("handed_out", Some(by)),
            Reached::Passed => ("passed", None),
            Reached::Lost => ("lost", None),
        };
        reply.array(3);
        reply.integer(watched.number.cast_signed());
        reply.bulk(state.as_bytes());
        match by {
            Some(by) => reply.bulk(by.to_string().as_bytes()),
            None => reply.null(),
        }
    }
    Ok(())
}
