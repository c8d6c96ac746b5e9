//! The settings of a mesh.

use tallymesh_core::{Millis, SyncConfig};

/// How a link treats its frames while there is trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Keeps the order. It loses a tail of frames, and then the link closes.
    Stream,
    /// Loses, repeats and reorders single frames, and stays open.
    Datagrams,
}

/// The faults of a mesh. All of them end with the trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// How long the trouble lasts, in milliseconds. 0 means no trouble.
    pub ms: Millis,
    /// Frames lost, of 1000.
    pub lost: u64,
    /// Frames repeated, of 1000. Streams repeat none.
    pub twice: u64,
    /// Starts of 1000 from a disk that was put back or whose last flushes were not done.
    pub old: u64,
    /// Largest distance between wall clocks, in milliseconds. It stays after the trouble.
    pub skew_ms: u64,
    /// Longest time from an input until its changes are on the disk, in milliseconds. 0 writes at once.
    pub flush_ms: Millis,
    /// Longest time until an end of a link notices that it is closed, and until the link is opened again, in
    /// milliseconds.
    pub notice_ms: Millis,
}

impl Trouble {
    /// No trouble.
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
    /// The same, and frames are lost, repeated, reordered and late.
    pub const LOSSES: Trouble = Trouble {
        lost: 30,
        twice: 30,
        ..Trouble::CUTS
    };
    /// All faults: also disks that are put back and written late, and clocks that jump.
    pub const ALL: Trouble = Trouble {
        old: 500,
        skew_ms: 1_000,
        flush_ms: 40,
        notice_ms: 300,
        ..Trouble::LOSSES
    };
}

/// The settings of a mesh.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The settings of the sync machines. The owner in them is replaced by the node's.
    pub sync: SyncConfig,
    /// How links treat frames.
    pub carrier: Carrier,
    /// Time of a frame on a link in one direction, in milliseconds.
    pub delay_ms: (Millis, Millis),
    /// Milliseconds between a replica's duties. 0 means never.
    pub tend_ms: Millis,
    /// Time after which a start is announced although it has not caught up, in milliseconds. `None` means
    /// never.
    pub late_ms: Option<Millis>,
    /// Time between two faults, in milliseconds.
    pub fault_ms: (Millis, Millis),
    /// The faults of the mesh.
    pub trouble: Trouble,
}

impl Settings {
    /// The usual settings with this trouble. If it loses frames, links carry datagrams.
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
            late_ms: Some(5_000),
            fault_ms: (200, 1_500),
            trouble,
        }
    }
}
