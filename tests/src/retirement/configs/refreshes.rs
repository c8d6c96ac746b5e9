//! Refreshes and ends of a counter that has an expiry, at replicas whose clocks are wrong by any amount.
//!
//! At the start all replicas see a counter that expires at 10. Each replica may end it at any time, and may set
//! other expiries, earlier and later ones.

use super::{Config, base, collecting, singles};
use crate::explore::Act;

/// All operations of a counter, beside its end.
const ALL: [Act; 6] = [
    Act::Add,
    Act::Expire,
    Act::Persist,
    Act::Reset,
    Act::Delete,
    Act::Set,
];

/// The same replicas with a counter that expires, which each of them may end early.
fn refreshed(acts: &[Act], config: Config) -> Config {
    Config {
        start: singles(&[Act::Add, Act::Expire]),
        alphabet: singles(acts),
        times: vec![10, 20, 5, 30],
        early: true,
        settle_each: 100,
        ..config
    }
}

/// Every configuration of refreshes that is explored.
pub(super) fn full() -> Vec<Config> {
    let two = |acts: &[Act]| {
        let config = Config {
            ops: 3,
            ..base(2, 0)
        };
        refreshed(acts, config)
    };
    let three = |acts: &[Act]| {
        let config = Config {
            snapshots: 2,
            wholes: true,
            ops: 3,
            ..base(3, 0)
        };
        refreshed(acts, config)
    };
    vec![
        two(&ALL),
        three(&[Act::Add, Act::Expire]),
        three(&[Act::Expire, Act::Persist]),
        three(&[Act::Expire, Act::Delete]),
        three(&[Act::Expire, Act::Set]),
        refreshed(
            &[Act::Add, Act::Expire, Act::Delete],
            Config {
                leaves: 1,
                ..base(2, 1)
            },
        ),
        refreshed(
            &[Act::Add, Act::Expire],
            Config {
                leaves: 1,
                ..collecting(2, 1, 2)
            },
        ),
        refreshed(&ALL, collecting(2, 0, 3)),
        refreshed(
            &[Act::Add, Act::Expire],
            Config {
                ops: 3,
                snapshots: 4,
                ..collecting(2, 0, 4)
            },
        ),
        refreshed(
            &[Act::Add, Act::Expire],
            Config {
                snapshots: 2,
                wholes: true,
                ..collecting(3, 0, 3)
            },
        ),
        refreshed(
            &[Act::Add, Act::Expire],
            Config {
                restarts: 1,
                snapshots: 2,
                ..collecting(2, 0, 2)
            },
        ),
        refreshed(
            &[Act::Add, Act::Expire],
            Config {
                fences: 1,
                returns: 1,
                snapshots: 2,
                ..collecting(2, 1, 1)
            },
        ),
    ]
}

/// The share that every test run explores.
pub(super) fn share() -> Vec<Config> {
    vec![
        refreshed(
            &ALL,
            Config {
                snapshots: 2,
                ..base(2, 0)
            },
        ),
        refreshed(
            &[Act::Add, Act::Expire],
            Config {
                ops: 3,
                snapshots: 2,
                ..base(2, 0)
            },
        ),
        refreshed(
            &[Act::Add, Act::Expire, Act::Persist],
            Config {
                snapshots: 2,
                wholes: true,
                ..base(3, 0)
            },
        ),
        refreshed(
            &[Act::Add, Act::Expire],
            Config {
                snapshots: 2,
                ..collecting(2, 0, 2)
            },
        ),
        refreshed(
            &[Act::Add, Act::Expire],
            Config {
                snapshots: 1,
                leaves: 1,
                ops: 1,
                ..collecting(1, 1, 1)
            },
        ),
    ]
}
