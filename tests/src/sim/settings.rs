//! How a mesh is.

use tallymesh_core::{Millis, SyncConfig};

/// How a link treats its frames while there is trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// In order; what is lost is a tail, and then the link closes.
    Stream,
    /// Loses, repeats and reorders single frames, and stays open.
    Datagrams,
}

/// What befalls a mesh. All of it is over with the trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// How long it lasts, in milliseconds; with 0 there is none.
    pub ms: Millis,
    /// Frames lost, of 1000.
    pub lost: u64,
    /// Frames repeated, of 1000. Streams repeat none.
    pub twice: u64,
    /// Starts from a disk that was put back or whose last flushes were not done, of 1000.
    pub old: u64,
    /// How far wall clocks are apart at most, in milliseconds. They stay so.
    pub skew_ms: u64,
    /// Longest time from an input until what it changed is on the disk, in milliseconds; 0 for at once.
    pub flush_ms: Millis,
    /// Longest time until an end of a link finds out that it is closed, and until it is opened again, in
    /// milliseconds.
    pub notice_ms: Millis,
}

impl Trouble {
    /// None.
    pub const NONE: Trouble = Trouble {
        ms: 0,
        lost: 0,
        twice: 0,
        old: 0,
        skew_ms: 0,
        flush_ms: 0,
        notice_ms: 0,
    };
    /// Cuts, stalls and restarts for 15 s.
    pub const CUTS: Trouble = Trouble {
        ms: 15_000,
        ..Trouble::NONE
    };
    /// The same, and frames that are lost, repeated, reordered and late.
    pub const LOSSES: Trouble = Trouble {
        lost: 30,
        twice: 30,
        ..Trouble::CUTS
    };
    /// All that there is: also disks that are put back and written late, and clocks that jump.
    pub const ALL: Trouble = Trouble {
        old: 500,
        skew_ms: 1_000,
        flush_ms: 40,
        notice_ms: 300,
        ..Trouble::LOSSES
    };
}

/// How a mesh is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The settings of sync machines; their owners are the nodes'.
    pub sync: SyncConfig,
    /// How links treat frames.
    pub carrier: Carrier,
    /// One way of a link, in milliseconds.
    pub delay_ms: (Millis, Millis),
    /// How often replicas do their duties, in milliseconds; 0 for never.
    pub tend_ms: Millis,
    /// Time between two faults, in milliseconds.
    pub fault_ms: (Millis, Millis),
    /// What befalls it.
    pub trouble: Trouble,
}

impl Settings {
    /// The usual settings, and this trouble. Frames that are lost are datagrams.
    pub fn under(trouble: Trouble) -> Settings {
        Settings {
            sync: SyncConfig {
                interval_ms: 500,
                pull_timeout_ms: 1_000,
                ..SyncConfig::default()
            },
            carrier: match trouble.lost + trouble.twice {
                0 => Carrier::Stream,
                _ => Carrier::Datagrams,
            },
            delay_ms: (10, 30),
            tend_ms: 200,
            fault_ms: (200, 1_500),
            trouble,
        }
    }
}
