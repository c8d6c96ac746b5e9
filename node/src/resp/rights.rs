//! `CLIENT RIGHTS-WAIT`: how long the commands of a session wait for rights of a budget, or for room.
//!
//! A command that is refused for want of rights is put off: other members are asked, and it is executed
//! again once there is enough here, or refused when its time is over. Meanwhile the session takes no
//! other command. Of `EXEC` nothing waits: what was queued is discarded with its refusal.

use super::error::ReplyError;
use super::limits::LEVEL_WAIT_MS_MAX;
use super::reply::Reply;
use super::request::{Args, number};
use super::session::{Session, Wait};
use tallymesh_core::Stock;

/// What there was too little of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The budget, or the sequence of numbers.
    pub name: String,
    /// Rights or room; none of a sequence.
    pub stock: Option<Stock>,
    /// How much has to be held here.
    pub amount: u64,
}

/// How long is waited, and for what.
#[derive(Default)]
pub(super) struct RightsWait {
    wait_ms: u64,
    lack: Option<Lack>,
    /// How long the command that is executed again may wait still.
    left_ms: Option<u64>,
}

impl RightsWait {
    /// How long the next command may wait still, if it is one that has waited; asked once.
    #[inline]
    pub(super) fn left_ms(&mut self) -> Option<u64> {
        self.left_ms.take()
    }
}

impl Session {
    /// Tells and sets how long is waited.
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

    /// Puts the present command off, if it may wait for what it was refused for want of.
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

    /// Ends a pause after tries to authenticate in vain. Feed it then, if only nothing.
    pub fn answer_pause(&mut self) {
        if let Some(Wait::Pause { .. }) = self.wait {
            self.wait = None;
        }
    }

    /// What it waits for, if that is rights.
    pub fn lack(&self) -> Option<&Lack> {
        self.rights.lack.as_ref()
    }

    /// Ends its wait for rights: there are enough, or the time is over; so much is left of it. Feed it
    /// then, if only nothing.
    pub fn answer_rights(&mut self, left_ms: u64) {
        if let Some(Wait::Rights { .. }) = self.wait {
            (self.wait, self.rights.lack) = (None, None);
            self.rights.left_ms = Some(left_ms);
        }
    }
}
