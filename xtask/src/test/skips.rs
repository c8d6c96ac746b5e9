//! The tests that may be skipped, each with its reason, from xtask/skips.toml.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Tally;
use crate::repo::{self, Repo};

/// The list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Skips {
    #[serde(default)]
    skip: Vec<Skip>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Skip {
    stage: String,
    test: String,
    reason: String,
}

impl Skips {
    pub(super) fn read(repo: &Repo) -> Result<Skips> {
        toml::from_str(&repo::read(&repo.path("xtask/skips.toml"))?).context("xtask/skips.toml")
    }

    /// Adds a failure for each skip of a stage that is not listed.
    pub(super) fn judge(&self, stage: &str, tally: &mut Tally) {
        let unlisted: Vec<String> = tally
            .skipped
            .iter()
            .filter(|test| {
                !self
                    .skip
                    .iter()
                    .any(|skip| skip.stage == stage && skip.test == **test)
            })
            .cloned()
            .collect();
        for test in unlisted {
            tally.fail(format!(
                "{test} was skipped: run it, or list it with its reason in xtask/skips.toml (stage = {stage:?})"
            ));
        }
    }

    /// The skipped tests, with their reasons in the list.
    pub(super) fn reasons<'a>(
        &'a self,
        tally: &'a Tally,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        tally.skipped.iter().map(|test| {
            let listed = self.skip.iter().find(|skip| skip.test == *test);
            (
                test.as_str(),
                listed.map_or("not listed", |skip| skip.reason.as_str()),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_skips_pass() {
        let skips: Skips = toml::from_str(
            "[[skip]]\nstage = \"native\"\ntest = \"slow\"\nreason = \"needs a second machine\"\n",
        )
        .unwrap();
        let mut tally = Tally::default();
        tally.skip("slow");
        skips.judge("native", &mut tally);
        assert_eq!(tally.failed, 0);
        skips.judge("e2e", &mut tally);
        assert_eq!(tally.failed, 1);
    }
}
