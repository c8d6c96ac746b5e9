//! The state that a link has on this side, and what its peer's hello says.

#[cfg(feature = "guests")]
use super::follow;
use super::{Link, Millis};
use super::{forks, own, scope};
#[cfg(feature = "members")]
use super::{rights, rounds};
use crate::message::records::Owner;
use crate::optional::{Empty, GuestPart, MemberPart};
use crate::writer_id::WriterId;
use alloc::string::String;
use alloc::vec::Vec;

/// A link, and all that is known of its peer.
#[derive(Clone)]
pub(super) struct Session {
    pub(super) link: Link,
    pub(super) broadcast: bool,
    /// Set by the peer's hello.
    pub(super) hello: Option<PeerHello>,
    pub(super) next_digest: Millis,
    pub(super) traffic: MemberPart<Traffic>,
    /// Whether its last delta was rejected. Until its next digest, the machine does not pull from it.
    pub(super) rests: bool,
    /// Whether this replica once had all that the peer had.
    pub(super) level: bool,
    /// Whether its hello named a writer that has been forgotten here. Nothing from this writer counts since.
    pub(super) forgotten: bool,
    /// Whether it was asked for its record of forgotten writers.
    pub(super) asked_memory: bool,
    /// The own clock up to which other peers may already have received this replica's transactions.
    pub(super) published: u64,
    /// Forked writers of which the next pull requests everything.
    pub(super) whole: MemberPart<Vec<WriterId>>,
    /// Whether the next pull requests everything of some writer.
    pub(super) all: bool,
    pub(super) heal: MemberPart<forks::Heal>,
    /// The owner whose key the link has authenticated, if the driver has told it.
    pub(super) owner: MemberPart<Option<Owner>>,
    /// Its scope, if it has fewer rights than a member.
    pub(super) scope: MemberPart<Option<scope::Scope>>,
    /// The writers that it has proved to be its owner's, the latest last.
    pub(super) proved: MemberPart<Vec<WriterId>>,
    /// How many more it may prove.
    #[cfg(feature = "members")]
    pub(super) proofs: rights::Proofs,
    /// Whether the digest was sent to it that a start of a member needs while guests delay this member's
    /// acknowledgement.
    pub(super) delayed: MemberPart<bool>,
    /// The own writers whose proof it has accepted.
    pub(super) taken: GuestPart<Vec<WriterId>>,
    pub(super) compared: GuestPart<own::Compared>,
    #[cfg(feature = "guests")]
    pub(super) following: GuestPart<follow::Following>,
    #[cfg(feature = "members")]
    pub(super) sent: rounds::Sent,
}

/// The traffic of a link, for its [status](super::LinkStatus).
#[derive(Clone)]
pub(super) struct Traffic {
    pub(super) last_heard: Option<Millis>,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

impl Empty for Traffic {
    const EMPTY: Traffic = Traffic {
        last_heard: None,
        bytes_in: 0,
        bytes_out: 0,
    };
    const NOTHING: &'static Traffic = &Traffic::EMPTY;
}

/// The contents of a peer's hello.
#[derive(Clone)]
pub(super) struct PeerHello {
    pub(super) session: u64,
    pub(super) agent: MemberPart<Option<String>>,
    pub(super) writer: WriterId,
    /// The clock of this writer in the message.
    pub(super) clock: GuestPart<u64>,
    /// The records that it accepts from this replica, as its capabilities.
    pub(super) takes: GuestPart<u64>,
    /// Whether it stores the record of forgotten writers.
    pub(super) remembers: bool,
    /// Whether it lacked some of this record and has not received it yet.
    pub(super) lacks: bool,
    /// Whether it answers questions about what it has stored durably.
    #[cfg(feature = "members")]
    pub(super) answers: bool,
    /// The kinds of rights that it gives on request, as capabilities.
    #[cfg(feature = "budgets")]
    pub(super) gives: u64,
    /// Whether it runs on a copy of a member's data, and stands aside.
    pub(super) copy: MemberPart<bool>,
    /// Whether it follows rounds.
    #[cfg(feature = "members")]
    pub(super) follows: bool,
    /// Whether it took its writer while the link was open.
    #[cfg(feature = "members")]
    pub(super) is_fresh: bool,
    /// When it may next be told this member's time. `None` if it does not take that.
    #[cfg(feature = "members")]
    pub(super) time_due: Option<Millis>,
}
