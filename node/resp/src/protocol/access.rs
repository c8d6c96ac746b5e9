//! Authorization where clients need tickets: each command needs a role, as the table lists.
//!
//! A ticket is judged again for each piece of input, once for each place that its commands use. The
//! owner of the connections has the ticket, the time and the members.

use super::Host;
use super::command::{Command, Needs, Spec, find};
use super::error::ReplyError;
use super::reply::Reply;
use super::request::Args;
use super::session::Session;
use tallymesh_node_ground::model::{Place, Turned};

impl Session {
    /// Checks that the session's ticket allows a command now. If it does not, the next `EXEC` is
    /// refused, too.
    pub(super) fn check_ticket<'a>(
        &mut self,
        spec: &'static Spec,
        args: &Args<'a>,
        host: &dyn Host,
    ) -> Result<(), ReplyError<'a>> {
        if self.role.is_none() {
            return Ok(());
        }
        let checked = self.check_needs(spec, args, host).and_then(|()| {
            let inner = find(args.at(2)).filter(|_| spec.command == Command::Once);
            inner.map_or(Ok(()), |it| self.check_needs(it, &args.from(2), host))
        });
        let Err(error) = checked else {
            return Ok(());
        };
        self.levels.forget_seen();
        self.fail_multi();
        if spec.command == Command::Exec && self.multi.take().is_some() {
            self.watched = Vec::new();
            self.guard_again();
            return Err(ReplyError::ExecAbortBecause(Box::new(error)));
        }
        Err(error)
    }

    fn check_needs(
        &mut self,
        spec: &'static Spec,
        args: &Args<'_>,
        host: &dyn Host,
    ) -> Result<(), ReplyError<'static>> {
        let (place, needed) = match spec.needs(args) {
            Needs::Nothing => return Ok(()),
            Needs::Ticket => (Place::Nowhere, None),
            Needs::Here(role) => (Place::Space(self.space), Some(role)),
            Needs::Everywhere(role) => (Place::Everywhere, Some(role)),
        };
        if self.judged != Some(place) {
            host.judge(place)?;
            self.judged = Some(place);
        }
        match (needed, self.role) {
            (Some(needed), Some(role)) if role < needed => {
                Err(Turned::of_role(&format!("'{}'", spec.name), needed, role).into())
            }
            _ => Ok(()),
        }
    }

    /// Ends the session, because its ticket is no longer valid and it would receive counters.
    pub fn turn_out(&mut self, turned: Turned, out: &mut Vec<u8>) {
        let resp3 = self.resp3;
        Reply { out, resp3 }.error(&turned.into());
        self.closing = true;
    }
}

impl From<Turned> for ReplyError<'_> {
    fn from(turned: Turned) -> Self {
        match turned.is_forbidden() {
            true => ReplyError::NoPerm(turned),
            false => ReplyError::TicketOver(turned),
        }
    }
}
