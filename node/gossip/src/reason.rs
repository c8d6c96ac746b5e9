//! The reasons for which peers and strangers are refused: their names in metrics, and their texts in the log.

use std::error::Error;
use std::fmt;

/// The reason for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reason {
    /// The number of connections is at its bound.
    Connections,
    /// The number of incoming connections is at its bound.
    Incoming,
    /// The guests by its ticket, or all guests, are at their bound.
    Guests,
    /// It has shown no ticket, and gave way to another peer.
    GaveWay,
    /// The number of connections of this peer is at its bound.
    PerPeer,
    /// Too many connections are being set up.
    Pending,
    /// Too many connections arrived from this address recently.
    Arrivals,
    /// The memory of the process is at its bound.
    Memory,
    /// All links are cut on purpose.
    Cut,
    /// It sent no hello in any space.
    Silent,
    /// It has shown no ticket, and is no member.
    Stranger,
    /// It has no right in the space of a frame.
    Space,
    /// It has shown an invalid ticket.
    Ticket,
    /// It continued to send while it was slowed down.
    Flood,
    /// Its pushes are above its rate.
    Pushes,
    /// A push is of another space than its topic, or of a space that is not open.
    Topic,
    /// Large frames in transfer use all of their memory.
    FrameMemory,
    /// Another process with its key connected, so the older connection is closed.
    SameKey,
    /// It may not use this node as its relay.
    Reservation,
    /// It may not be connected through this relay.
    Circuit,
}

impl Reason {
    /// The name in metrics and in the log.
    pub(super) fn name(self) -> &'static str {
        match self {
            Reason::Connections => "connections",
            Reason::Incoming => "incoming",
            Reason::Guests => "guests",
            Reason::GaveWay => "gave_way",
            Reason::PerPeer => "per_peer",
            Reason::Pending => "pending",
            Reason::Arrivals => "arrivals",
            Reason::Memory => "memory",
            Reason::Cut => "cut",
            Reason::Silent => "silent",
            Reason::Stranger => "stranger",
            Reason::Space => "space",
            Reason::Ticket => "ticket",
            Reason::Flood => "flood",
            Reason::Pushes => "pushes",
            Reason::Topic => "topic",
            Reason::FrameMemory => "frame_memory",
            Reason::SameKey => "same_key",
            Reason::Reservation => "relay_reservation",
            Reason::Circuit => "relay_circuit",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Connections => "there are as many connections as --connections allows",
            Reason::Incoming => "as many connections came in as --connections-in allows",
            Reason::Guests => {
                "guests by its ticket have half of --connections-in, or all guests three quarters of it"
            }
            Reason::GaveWay => "it had shown no ticket when another one found no room: --connections-in",
            Reason::PerPeer => "it has as many connections as --connections-per-peer allows",
            Reason::Pending => "too many connections are being set up",
            Reason::Arrivals => "connections from this address come faster than --connect-rate allows",
            Reason::Memory => "the node takes as much memory as --memory-max allows",
            Reason::Cut => "the links of this node are cut on purpose",
            Reason::Silent => "it sent no hello in any space",
            Reason::Stranger => "it is no member, and has shown no ticket; `tallymesh invite` makes one",
            Reason::Space => "it has no right in the space of what it sent",
            Reason::Ticket => "it has shown a ticket that is worth nothing here",
            Reason::Flood => "it went on sending frames while it was slowed",
            Reason::Pushes => "it pushes more than --peer-frames or --peer-bytes allows",
            Reason::Topic => "a push does not belong to its topic",
            Reason::FrameMemory => "large frames that are under way take as much memory as they, or those of this peer, may",
            Reason::SameKey => {
                "two processes have this key, and the newer one gets the link. If both run, one is a copy of \
                 the other's data folder: give it a folder of its own"
            }
            Reason::Reservation => "it may not listen at this relay: more than --relay-reservations, or too often",
            Reason::Circuit => "no circuit through this relay: more than --relay-circuits, too often, or nobody is there",
        })
    }
}

impl Error for Reason {}
