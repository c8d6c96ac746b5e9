//! The time budget of each stage, from xtask/budgets.toml.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::repo::{self, Repo};

/// Budgets in seconds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Budget {
    total_s: u64,
    stages_s: BTreeMap<String, u64>,
}

impl Budget {
    pub(super) fn read(repo: &Repo) -> Result<Budget> {
        toml::from_str(&repo::read(&repo.path("xtask/budgets.toml"))?).context("xtask/budgets.toml")
    }

    /// The time of a stage beside its budget. A stage over its budget is reported and does not fail. Only the
    /// total is a promise, because machines differ.
    pub(super) fn stage_line(&self, stage: &str, took: Duration) -> Result<String> {
        let budget = self
            .stages_s
            .get(stage)
            .with_context(|| format!("xtask/budgets.toml has no budget for the stage {stage}"))?;
        Ok(line(took, *budget))
    }

    pub(super) fn total_line(&self, took: Duration) -> String {
        line(took, self.total_s)
    }

    /// Whether a whole run took too long.
    pub(super) fn is_over(&self, took: Duration) -> bool {
        took.as_secs() > self.total_s
    }
}

fn line(took: Duration, budget_s: u64) -> String {
    let over = if took.as_secs() > budget_s {
        ", OVER BUDGET"
    } else {
        ""
    };
    format!("{:.0} s of {budget_s} s{over}", took.as_secs_f32())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::stages;

    #[test]
    fn each_stage_has_a_budget_within_the_total() {
        let budget = Budget::read(&Repo::find().unwrap()).unwrap();
        let named: Vec<&str> = budget.stages_s.keys().map(String::as_str).collect();
        let mut stages = stages::NAMES.to_vec();
        stages.sort_unstable();
        assert_eq!(named, stages);
        assert!(budget.stages_s.values().sum::<u64>() <= budget.total_s);
    }
}
