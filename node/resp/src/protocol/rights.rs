//! `CLIENT RIGHTS-WAIT`: how long the commands of a session wait for rights of a budget, or for
//! room.
//!
//! A command that is refused for lack of rights is postponed. Other members are asked, and the
//! command is executed again once there is enough here, or refused when its time is over. Meanwhile
//! the session executes no other command. Commands of an `EXEC` never wait: the queued commands are
//! discarded with the refusal. A command that only a member makes waits in the same way while a member
//! starts.

use super::error::ReplyError;
use super::reply::Reply;
use super::request::{Args, number};
use super::session::{Session, Wait};
use tallymesh_node_ground::model::Lack;
use tallymesh_node_ground::model::bounds::LEVEL_WAIT_MS_MAX;

/// The wait of a session for rights, and the present lack.
#[derive(Default)]
pub(super) struct RightsWait {
    wait_ms: u64,
    lack: Option<Lack>,
    /// The rest of the wait of the command that is executed again.
    left_ms: Option<u64>,
}

impl RightsWait {
    /// The rest of the wait of the next command, if it has already waited; returned once.
    #[inline]
    pub(super) fn left_ms(&mut self) -> Option<u64> {
        self.left_ms.take()
    }
}

impl Session {
    /// Answers and sets the longest wait.
    pub(super) fn client_rights_wait<'a>(
        &mut self,
        args: &Args<'a>,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        match args.len() {
            2 => reply.integer(self.rights.wait_ms.cast_signed()),
            3 => {
                let millis = number(args.at(2)).ok_or(ReplyError::TimeoutNotInteger)?;
                let millis = u64::try_from(millis).map_err(|_| ReplyError::TimeoutNegative)?;
                self.rights.wait_ms = millis.min(LEVEL_WAIT_MS_MAX);
                reply.ok();
            }
            _ => return Err(ReplyError::Syntax),
        }
        Ok(())
    }

    /// Postpones the present command, if it may wait for its lack. Returns whether it does.
    pub(super) fn waits_for_rights(&mut self, lacked: &Lack, left_ms: Option<u64>) -> bool {
        let timeout_ms = left_ms.unwrap_or(self.rights.wait_ms);
        if timeout_ms == 0 {
            return false;
        }
        self.rights.lack = Some(lacked.clone());
        let space = self.space();
        self.wait = Some(Wait::Rights { space, timeout_ms });
        self.put_off = true;
        true
    }

    /// Postpones the present command until this node is a member, if it may wait. Returns whether it
    /// does.
    pub(super) fn waits_for_membership(&mut self, left_ms: Option<u64>) -> bool {
        let timeout_ms = left_ms.unwrap_or(self.rights.wait_ms);
        if timeout_ms == 0 {
            return false;
        }
        let space = self.space();
        self.wait = Some(Wait::Membership { space, timeout_ms });
        self.put_off = true;
        true
    }

    /// Ends a pause after failed attempts to authenticate. Feed it after that, even with no bytes.
    pub fn answer_pause(&mut self) {
        if let Some(Wait::Pause { .. }) = self.wait {
            self.wait = None;
        }
    }

    /// The lack that it waits for, if it waits for rights.
    pub fn lack(&self) -> Option<&Lack> {
        self.rights.lack.as_ref()
    }

    /// Ends its wait for rights or for membership, because there are enough, this node is a member, or
    /// the time is over. `left_ms` is the rest of the wait. Feed it after that, even with no bytes.
    pub fn answer_rights(&mut self, left_ms: u64) {
        if let Some(Wait::Rights { .. } | Wait::Membership { .. }) = self.wait {
            (self.wait, self.rights.lack) = (None, None);
            self.rights.left_ms = Some(left_ms);
        }
    }
}
