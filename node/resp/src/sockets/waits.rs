//! The waits of connections: for members to store their writes, for levels, and for rights.

use super::LINGER;
use crate::protocol::{Session, Unmet, Wait};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use tallymesh_core::{Question, VersionVector};
use tallymesh_node_engine::driver::{Release, Spaces};
use tallymesh_node_ground::model::{Demand, LastWrite, Refusal};

/// A wait of a connection.
pub(super) enum Waiting {
    /// For so many members, until a time, or without end. `asked` has one question to the members
    /// for each of the session's writes; `None` in a space without members.
    Holders {
        members: usize,
        until: Option<Instant>,
        asked: Vec<Option<Question>>,
    },
    /// For a pause to end.
    Pause(Instant),
    /// For a level or for rights; the space reports how the wait ends.
    Space,
}

/// How a wait that a space manages has ended.
pub(super) struct WaitEnded {
    /// The connection, and the number of its session.
    pub(super) at: usize,
    pub(super) id: u64,
    pub(super) end: End,
}

pub(super) enum End {
    Level(Result<(), Unmet>),
    /// Milliseconds that are left of the wait.
    Rights(u64),
}

/// The channel for such reports, and the connection that waits.
pub(super) struct Teller<'a> {
    pub(super) at: usize,
    pub(super) id: u64,
    pub(super) to: &'a Sender<WaitEnded>,
}

impl Waiting {
    /// Begins a wait. `now` is in milliseconds since the driver's start.
    pub(super) fn begin(
        wait: Wait,
        session: &Session,
        spaces: &mut Spaces,
        now: u64,
        teller: &Teller<'_>,
    ) -> Waiting {
        let demand = |level, timeout_ms| Demand {
            level,
            token: None,
            wait: Duration::from_millis(timeout_ms),
            ..Demand::default()
        };
        match wait {
            Wait::Holders {
                members,
                timeout_ms,
            } => Waiting::Holders {
                members,
                until: timeout_ms
                    .and_then(|millis| Instant::now().checked_add(Duration::from_millis(millis))),
                asked: {
                    let writes = session.writes().iter();
                    writes.map(|it| ask(spaces, now, it)).collect()
                },
            },
            Wait::Write {
                written,
                level,
                timeout_ms,
            } => {
                let upto = VersionVector::of(written.writer, written.clock);
                let demand = demand(level, timeout_ms);
                spaces[written.space].wait_for_write(now, upto, &demand, teller.end());
                Waiting::Space
            }
            Wait::Read {
                space,
                level,
                timeout_ms,
            } => {
                spaces[space].wait_for_read(now, &demand(level, timeout_ms), teller.end());
                Waiting::Space
            }
            Wait::Pause { timeout_ms } => {
                Waiting::Pause(Instant::now() + Duration::from_millis(timeout_ms))
            }
            Wait::Rights { space, timeout_ms } => {
                if let Some(lack) = session.lack() {
                    spaces[space].wait_for_rights(now, lack, timeout_ms, teller.end_of_rights());
                }
                Waiting::Space
            }
            Wait::Membership { space, timeout_ms } => {
                spaces[space].wait_for_membership(now, timeout_ms, teller.end_of_rights());
                Waiting::Space
            }
        }
    }

    /// The number of members that have stored all writes, if it is enough or the time is over. A
    /// client that has `ended` its side may be gone. So its wait gets an end.
    pub(super) fn holders(
        &mut self,
        writes: &[LastWrite],
        spaces: &mut Spaces,
        (now, millis): (Instant, u64),
        ended: bool,
    ) -> Option<usize> {
        let Waiting::Holders {
            members,
            until,
            asked,
        } = self
        else {
            return None;
        };
        let held = writes.iter().zip(asked).map(|(written, asked)| {
            // The space may have gained members meanwhile.
            *asked = asked.or_else(|| ask(spaces, millis, written));
            spaces[written.space].holders(written, *asked)
        });
        let held = held.min().unwrap_or(0);
        if until.is_none() && ended {
            *until = now.checked_add(LINGER);
        }
        let over = until.is_some_and(|until| until <= now);
        (over || held >= *members).then_some(held)
    }

    /// Whether it is a pause, and the pause is over.
    pub(super) fn has_paused(&self, now: Instant) -> bool {
        matches!(self, Waiting::Pause(until) if *until <= now)
    }

    /// When the wait ends by time alone.
    pub(super) fn until(&self) -> Option<Instant> {
        match self {
            Waiting::Holders { until, .. } => *until,
            Waiting::Pause(until) => Some(*until),
            Waiting::Space => None, // Its space knows.
        }
    }

    /// The questions to members, each with its space.
    pub(super) fn questions(&self, writes: &[LastWrite]) -> Vec<(usize, Question)> {
        let Waiting::Holders { asked, .. } = self else {
            return Vec::new();
        };
        let asked = writes.iter().zip(asked);
        let asked = asked.filter_map(|(written, asked)| Some((written.space, (*asked)?)));
        asked.collect()
    }
}

impl Teller<'_> {
    /// Reports to the connection how its wait for a level has ended.
    fn end(&self) -> impl FnOnce(Result<(), Refusal>) -> Release + Send + use<> {
        let tell = self.tell();
        move |met: Result<(), Refusal>| -> Release {
            let met = met.map_err(|refusal| Unmet {
                code: refusal.code(),
                text: refusal.to_string(),
            });
            Box::new(move || tell(End::Level(met)))
        }
    }

    /// Reports to the connection how much time is left of its wait for rights.
    fn end_of_rights(&self) -> impl FnOnce(u64) -> Release + Send + use<> {
        let tell = self.tell();
        move |left_ms| -> Release { Box::new(move || tell(End::Rights(left_ms))) }
    }

    fn tell(&self) -> impl FnOnce(End) + Send + use<> {
        let (at, id, to) = (self.at, self.id, self.to.clone());
        // The driver may have ended meanwhile.
        move |end| _ = to.send(WaitEnded { at, id, end })
    }
}

fn ask(spaces: &mut Spaces, now: u64, written: &LastWrite) -> Option<Question> {
    let upto = VersionVector::of(written.writer, written.clock);
    spaces[written.space].ask_who_holds(now, upto)
}
