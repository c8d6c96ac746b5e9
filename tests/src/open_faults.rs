//! Seeds that find a known fault of the core that is not fixed yet. This is the one place that lists them.
//!
//! A listed seed has to fail. Once it passes, the test that plays it fails until its line is removed, so the
//! list cannot outlive the fault. The list has the seeds of `tests/trace.txt`, and those that were found among the
//! 5,000 that `cargo xtask test --long` plays. Beyond these there are more. `TALLYMESH_SEED=n` plays a listed seed
//! as any other, and shows how it fails. A fault that no listed seed has was found with a seed whose history is
//! another one since; it is not mended.
//!
//! # The faults
//! **What a guest handed to a member is lost** ([`LOST`]). A member that is cut off from the other members takes
//! transactions from a guest, and confirms them. So the guest drops them from its journal. Then the member has to
//! rejoin, and takes the whole state of another member. With its old state go the transactions that it alone had.
//! There are two causes:
//! - An older copy of another member's disk is put back. The first member merges the records of that start, and the
//!   others reject them (`tabs`).
//! - The first member restarts while it is cut off. The others declare its start dead as a silent guest, before it
//!   has announced itself (`keyed`).
//!
//! A guest keeps what it makes while it knows of a start whose place is not certain. So it loses only what was
//! confirmed before. A replica that counted before there were members loses its transactions in the same way.

/// A member loses the transactions that a guest, or a replica that is not a member yet, sent to it.
pub const LOST: &str = "what a guest handed to a member is lost";

/// Scenario, seed and fault.
pub const OPEN: [(&str, u64, &str); 2] = [("keyed", 1708, LOST), ("tabs", 2642, LOST)];

/// The outcome of a seed. Returns `None` if the seed is listed and fails.
///
/// # Errors
/// The failure of a seed that is not listed. Also if a listed seed passes.
pub fn judge<F>(scenario: &str, seed: u64, played: Result<F, String>) -> Result<Option<F>, String> {
    let listed = OPEN.iter().find(|it| (it.0, it.1) == (scenario, seed));
    match (played, listed) {
        (Ok(metrics), None) => Ok(Some(metrics)),
        (Err(failure), None) => Err(failure),
        (Err(_), Some(_)) => Ok(None),
        (Ok(_), Some((_, _, fault))) => Err(format!(
            "seed {seed} of {scenario} passes, and tests/src/open_faults.rs lists it: {fault}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{OPEN, judge};

    #[test]
    fn a_listed_seed_has_to_fail_and_any_other_one_to_pass() {
        let (scenario, seed, _) = OPEN[0];
        let failed = || Err::<u64, String>("it failed".into());
        assert_eq!(judge(scenario, seed, failed()), Ok(None));
        assert!(judge(scenario, seed, Ok(1)).is_err());
        assert_eq!(judge(scenario, seed + 1, failed()), failed().map(Some));
        assert_eq!(judge(scenario, seed + 1, Ok(1)), Ok(Some(1)));
        assert_eq!(judge("another", seed, failed()), failed().map(Some));
    }
}
