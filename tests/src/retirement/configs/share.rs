//! The configurations that every test run explores.

use super::{Config, base, collecting, refreshes, singles, voting};
use crate::explore::Act;

/// The share that every test run explores.
pub fn share() -> Vec<Config> {
    let small = |config| Config {
        ops: 1,
        snapshots: 2,
        ..config
    };
    vec![
        Config {
            leaves: 1,
            snapshots: 2,
            ..base(1, 2)
        },
        small(Config {
            fences: 1,
            crashes: true,
            ..collecting(2, 1, 2)
        }),
        small(Config {
            restarts: 1,
            ..collecting(2, 1, 1)
        }),
        small(Config {
            fences: 1,
            returns: 1,
            ..collecting(2, 1, 1)
        }),
        voting(3, [&[0, 1], &[0, 2]]),
        Config {
            snapshots: 1,
            alphabet: singles(&[Act::Add, Act::Expire]),
            times: vec![1_000, 2_000],
            passes: 2,
            ..collecting(2, 0, 1)
        },
        small(Config {
            leaves: 1,
            fences: 1,
            ..collecting(2, 1, 0)
        }),
        Config {
            alphabet: singles(&[Act::Add, Act::Delete, Act::Add]),
            keyed: 1,
            snapshots: 2,
            leaves: 1,
            ..collecting(1, 1, 1)
        },
    ]
    .into_iter()
    .chain(refreshes::share())
    .collect()
}
