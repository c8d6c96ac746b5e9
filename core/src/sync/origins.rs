//! Attribution: the link on which each writer's clocks came first, and which writer contradicts it.
//!
//! The machine believes a member, so a member can push shards in another's name, and no version vector says
//! who did. The machine therefore keeps, for each writer, the links that raised its clock last, as runs of
//! clocks. A replica that receives a clock of its own writer which it has not made denies it to all nodes.
//! Earlier versions skip the frame. Each node that has that clock then knows which link brought it.
//!
//! An accusation is a testimony, no proof: the writer, or the link, lies. Shards are not signed.

use super::members::origin;
use super::{Body, Link, SyncMachine, Why};
use crate::bounds::{FAULTS_KEPT_MAX, WRITERS_MAX};
use crate::forks::{Contents, Evidence, Fault};
use crate::message::Message;
use crate::replica::Replica;
use crate::writer_id::WriterId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Maximum number of stored runs of clocks for each writer. With one, the next link that raises the clock
/// would hide the link that forged it.
const RUNS: usize = 3;
/// Maximum number of denials of one writer's clocks by a replica. Each one sends a frame to all nodes.
const DENIALS_MAX: u32 = 8;

/// Maximum number of accusations of one link that wait to be taken. With fewer, a second forger on a link
/// that passes records on could be missed. With more, one link could fill the room of all links.
const OF_LINK_MAX: usize = 8;

/// Whether the machine attributes faults to links. A page takes no accusations.
const ATTRIBUTES: bool = !cfg!(target_family = "wasm");

/// A fault, with the links of both sides: the one that brought the present shard, and the one that
/// contradicts it. It does not say which of them is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accusation {
    /// The evidence of the fault.
    pub fault: Fault,
    /// The link that first brought the present shard, if that was after the start of this process. For the
    /// own writer, it is the link that contradicts it.
    pub first: Option<Link>,
    /// The link whose peer contradicted it. `None` if this replica did, because the writer is its own.
    pub denied: Option<Link>,
    /// How many times this link brought a fault of this kind and writer since accusations were last taken.
    pub times: u64,
}

impl Accusation {
    /// The link that showed the fault.
    pub fn by(&self) -> Option<Link> {
        self.denied.or(self.first)
    }
}

/// Clocks of a writer that one link brought, after those of the run before.
#[derive(Clone, Copy, Default)]
struct Run {
    link: Option<Link>,
    /// The clock before. Only a run with a link counts.
    since: u64,
}

/// The clocks that each link brought.
#[derive(Clone, Default)]
pub(super) struct Origins {
    /// The newest run first.
    of: BTreeMap<WriterId, [Run; RUNS]>,
    /// The oldest first.
    accusations: Vec<Accusation>,
    /// The own writer whose clocks were denied, and how many times.
    denials: Option<(WriterId, u32)>,
}

impl Origins {
    /// The link that brought the first clock after this one.
    fn after(&self, writer: &WriterId, clock: u64) -> Option<Link> {
        let runs = self.of.get(writer)?;
        let known = runs.iter().filter(|run| run.link.is_some());
        known.into_iter().find(|run| run.since <= clock)?.link
    }

    fn raised(&mut self, writer: WriterId, link: Link, since: u64) {
        let runs = self.of.entry(writer).or_default();
        if runs[0].link != Some(link) {
            runs.rotate_right(1);
            runs[0] = Run {
                link: Some(link),
                since,
            };
        }
    }

    /// Stores an accusation: the newest of each link. No link's accusation replaces that of a link with
    /// fewer.
    fn accuse(&mut self, new: Accusation) {
        let (all, by) = (&mut self.accusations, new.by());
        let same = |it: &&mut Accusation| it.by() == by && it.fault.repeats(&new.fault);
        if let Some(known) = all.iter_mut().find(same) {
            known.times += new.times;
            return;
        }
        let of = |link: Option<Link>| all.iter().filter(|it| it.by() == link).count();
        let over = match (of(by) >= OF_LINK_MAX, all.len() >= FAULTS_KEPT_MAX) {
            (true, _) => Some(by),
            (false, true) => all.iter().map(Accusation::by).max_by_key(|link| of(*link)),
            (false, false) => None,
        };
        let oldest = over.and_then(|link| all.iter().position(|it| it.by() == link));
        if let Some(oldest) = oldest {
            all.remove(oldest);
        }
        all.push(new);
    }
}

impl SyncMachine {
    /// The accusations since the last call, the oldest first: the newest ones of each link.
    pub fn take_accusations(&mut self) -> Vec<Accusation> {
        core::mem::take(&mut self.origins.accusations)
    }

    /// Records after a merge which link raised the clocks of which writers. These are the writers of the
    /// message, with their clocks before.
    pub(super) fn note_raised(
        &mut self,
        replica: &Replica,
        link: Option<Link>,
        raised: &[(WriterId, u64)],
    ) {
        let Some(link) = link.filter(|_| ATTRIBUTES) else {
            return;
        };
        for (writer, since) in raised {
            if *writer != replica.writer() {
                self.origins.raised(*writer, link, *since);
            }
        }
        if self.origins.of.len() > WRITERS_MAX {
            self.origins
                .of
                .retain(|writer, _| replica.state.knows(writer));
        }
    }

    /// Attributes the faults since the last call to the link that brought their evidence.
    pub(super) fn attribute(&mut self, replica: &mut Replica, link: Option<Link>) {
        let faults = replica.forks.take_fresh_faults().into_iter();
        for fault in faults.filter(|_| ATTRIBUTES) {
            let own = fault.writer == replica.writer();
            let since = match fault.evidence {
                Evidence::Ahead { own } => own,
                _ => fault.clock.saturating_sub(1),
            };
            let held = self.origins.after(&fault.writer, since);
            self.origins.accuse(Accusation {
                fault,
                first: if own { link } else { held },
                denied: link.filter(|_| !own),
                times: 1,
            });
        }
    }

    /// Announces to all nodes that the own writer has reached no more than its clock.
    pub(super) fn deny(&mut self, replica: &Replica) {
        let writer = replica.writer();
        let times = match self.origins.denials {
            Some((of, times)) if of == writer => times,
            _ => 0,
        };
        // A vector has no writer of clock 0.
        if times >= DENIALS_MAX || replica.clock() == 0 {
            return;
        }
        self.origins.denials = Some((writer, times + 1));
        let nodes = self.open_sessions().filter(|peer| {
            let hello = peer.hello.as_ref();
            hello.is_some_and(|it| it.remembers)
        });
        let nodes: Vec<Link> = nodes.map(|peer| peer.link).collect();
        for link in nodes {
            let body = Body::Contents {
                why: Why::Forked,
                vector: replica.digest(),
                writers: [Contents::only_clock(writer, replica.clock())].into(),
            };
            self.send(replica, link, body);
        }
    }

    /// Handles a peer's statement that its own writer has reached no more than a clock.
    pub(super) fn denied(&mut self, replica: &mut Replica, link: Link, body: &Body) {
        let Body::Contents {
            why: Why::Forked,
            writers,
            ..
        } = body
        else {
            return;
        };
        let own = self.writer_of(link);
        for it in writers {
            let held = replica.state.held(&it.writer);
            if own != Some(it.writer) || !it.is_unknown() || held <= it.clock {
                continue;
            }
            self.attribute(replica, None);
            replica.forks.note_fault(|| Fault {
                writer: it.writer,
                clock: held,
                evidence: Evidence::Ahead { own: it.clock },
            });
            self.attribute(replica, Some(link));
        }
    }

    /// Handles a push whose clocks are here already, from another link. Both links must have brought the
    /// same.
    pub(super) fn compare_known(
        &mut self,
        replica: &mut Replica,
        link: Option<Link>,
        message: &Message,
    ) {
        let Some(writer) = origin(message).filter(|_| ATTRIBUTES && link.is_some()) else {
            return;
        };
        let hi = message.hi(&writer).unwrap_or_default();
        let first = self.origins.after(&writer, hi.saturating_sub(1));
        // The link that brought them sends the same again.
        if writer != replica.writer() && first == link {
            return;
        }
        self.attribute(replica, None);
        replica.forks.compare_rows(&replica.state, message, &writer);
        self.attribute(replica, link);
    }
}

#[cfg(test)]
mod tests;
