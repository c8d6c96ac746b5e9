//! A serious fault of one of the members: it is gone for good and taken out, or its process or its disk is
//! copied.

use super::{Event, MEMBERS, NAME, Strike, World};
use tallymesh_core::{Error, MemberError, Owner, WriterId};

/// Time until an operator takes a member out by force, if nothing is decided, in milliseconds.
const FORCED_MS: u64 = 5_000;
/// Time until an operator finds the copy of a process, ends both, and starts one again, in milliseconds.
const COPIED_MS: u64 = 3_000;
/// Milliseconds between two actions of the operator.
const LOOK_MS: u64 = 20;

/// The state of the fault.
#[derive(Default)]
pub(super) struct Struck {
    /// The process that is gone.
    pub(super) gone: Option<usize>,
    /// When its last step was.
    at: u64,
    /// The writer's clock when it was copied.
    pub(super) clock: u64,
    /// The rights of the member when it was copied.
    pub(super) held: i128,
    /// The member that was copied, its copy, and the writer that both wrote under at first.
    pub(super) copied: Option<(usize, usize, WriterId)>,
    /// The member whose disk was copied, and the process on the copy.
    pub(super) second: Option<(usize, usize)>,
}

impl World {
    /// Takes the next step of the fault, and of the operator's reaction.
    pub(super) fn strike(&mut self) -> Result<(), String> {
        self.at(self.now + LOOK_MS, Event::Strike);
        match self.own.plan.strike {
            Some(Strike::TakenOut) => self.take_out(),
            Some(Strike::Copied) => match self.own.struck.copied {
                None => self.copy_one(),
                Some((at, second, _))
                    if self.own.struck.gone.is_none()
                        && self.now > self.own.struck.at + COPIED_MS =>
                {
                    self.stop(second, at);
                    self.restart(at, (0, 0));
                    Ok(())
                }
                Some(_) => Ok(()),
            },
            Some(strike) => match self.own.struck.second {
                None => self.copy_disk_of_one(),
                Some((at, second))
                    if self.own.struck.gone.is_none()
                        && self.now > self.own.struck.at + COPIED_MS =>
                {
                    match strike {
                        Strike::Adopted => {
                            self.stop(at, second);
                            self.adopt(second);
                        }
                        _ => self.stop(second, at),
                    }
                    Ok(())
                }
                Some(_) => Ok(()),
            },
            None => Ok(()),
        }
    }

    /// Starts a process on a copy of a member's disk, and moves half of the member's clients there.
    fn copy_disk_of_one(&mut self) -> Result<(), String> {
        let at = self.random.index(MEMBERS);
        if !self.nodes[at].alive || !self.nodes[at].replica.members().is_established() {
            return Ok(());
        }
        let second = self.copy_disk(at)?;
        (self.own.struck.second, self.own.struck.at) = (Some((at, second)), self.now);
        let clients = self.own.clients.iter_mut().filter(|it| it.at == at);
        for client in clients.filter(|it| !it.asks).skip(1).step_by(2) {
            client.at = second;
        }
        Ok(())
    }

    fn take_out(&mut self) -> Result<(), String> {
        if self.own.struck.gone.is_none() {
            let gone = self.random.index(MEMBERS);
            self.stop(gone, (gone + 1) % MEMBERS);
        }
        let Some(gone) = self.own.struck.gone else {
            return Ok(());
        };
        let lost = self.nodes[gone].key;
        let by = (gone + 1) % MEMBERS;
        let replica = &mut self.nodes[by].replica;
        let present = replica.members().configuration().filter(|it| it.has(&lost));
        let Some(present) = present.filter(|_| replica.members().is_established()) else {
            return Ok(());
        };
        let left = present.members.iter().filter(|it| **it != lost);
        let left: Vec<Owner> = left.copied().collect();
        let done = match self.now > self.own.struck.at + FORCED_MS {
            // The other member may have restarted. Its vote then needs both members that it had, and one of
            // them is gone.
            true => replica.members_mut().force(&left),
            false if replica.members().proposal().is_some() => return Ok(()),
            false => replica.members_mut().propose(&left),
        };
        match done {
            // A replica that has just started is not a member for a while.
            Ok(()) | Err(Error::Member(MemberError::NotAMember)) => self.changed(by),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Ends a process for good, and moves its clients to another one.
    fn stop(&mut self, gone: usize, next: usize) {
        self.remove(gone);
        (self.own.struck.gone, self.own.struck.at) = (Some(gone), self.now);
        for client in self.own.clients.iter_mut().filter(|it| it.at == gone) {
            client.at = next;
        }
    }

    /// Copies a process, and moves half of its clients to the copy.
    fn copy_one(&mut self) -> Result<(), String> {
        let at = self.random.index(MEMBERS);
        let replica = &self.nodes[at].replica;
        let held = replica.quota().budget(NAME).map_or(0, |it| it.rights.here);
        // A replica that has just started has no rights yet. Both copies would then retire its earlier writer
        // and receive its rights.
        if !self.nodes[at].alive || !replica.members().is_established() || held <= 0 {
            return Ok(());
        }
        let writer = replica.writer();
        self.own.struck.at = self.now;
        self.own.struck.clock = replica.clock();
        self.own.struck.held = held;
        let second = self.nodes.len();
        self.own.struck.copied = Some((at, second, writer));
        self.copy(at)?;
        let clients = self.own.clients.iter_mut().filter(|it| it.at == at);
        for client in clients.filter(|it| !it.asks).skip(1).step_by(2) {
            client.at = second;
        }
        Ok(())
    }
}
