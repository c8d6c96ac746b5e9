//! The table of kinds.

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    CutBothWays,
    CutOneWay,
    Slow,
    DeadLink,
    Kill,
    Stop,
    RollingUpgrade,
    FullDisk,
    ReadOnly,
    ClockAhead,
    ClockBack,
    Midnight,
    Copy,
    Replacement,
    Wedge,
}

impl Kind {
    pub(crate) const ALL: [Kind; 15] = [
        Kind::CutBothWays,
        Kind::CutOneWay,
        Kind::Slow,
        Kind::DeadLink,
        Kind::Kill,
        Kind::Stop,
        Kind::RollingUpgrade,
        Kind::FullDisk,
        Kind::ReadOnly,
        Kind::ClockAhead,
        Kind::ClockBack,
        Kind::Midnight,
        Kind::Copy,
        Kind::Replacement,
        Kind::Wedge,
    ];

    /// Kinds that may come on top of another one.
    pub(super) const LINKS: [Kind; 4] = [
        Kind::CutBothWays,
        Kind::CutOneWay,
        Kind::Slow,
        Kind::DeadLink,
    ];

    /// Describes the faults that it counts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::CutBothWays => "links cut both ways",
            Kind::CutOneWay => "links cut one way",
            Kind::Slow => "ways made slow",
            Kind::DeadLink => "ways whose connections silently carry nothing",
            Kind::Kill => "kill -9, and started again",
            Kind::Stop => "stopped by SIGSTOP, and continued",
            Kind::RollingUpgrade => "rolling upgrades of all five nodes",
            Kind::FullDisk => "disks filled up, and started again with room",
            Kind::ReadOnly => "disks turned read-only, and started again after a repair",
            Kind::ClockAhead => "clocks of running nodes stepped ahead",
            Kind::ClockBack => "clocks of running nodes stepped back",
            Kind::Midnight => "midnights, at each node at another time",
            Kind::Copy => "copied data folders that ran beside their originals",
            Kind::Replacement => "members replaced, their disks lost",
            Kind::Wedge => "members dead for good while all others started again",
        }
    }
}
