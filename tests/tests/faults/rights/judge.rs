//! What must be true of rights in the end.

use super::{CAP, Ledgers, MINTED};
use crate::history::History;
use crate::ledger::Ledger;
use crate::mesh::{Mesh, NODES};
use crate::node::SPACE;
use serde_json::Value;

impl Ledgers {
    /// What is wrong at a node; empty if nothing is. All leases must have come back.
    pub(crate) async fn wrong(
        &self,
        mesh: &Mesh,
        node: usize,
        history: &History,
    ) -> Result<String, String> {
        let mut wrong = String::new();
        let mut counted = Vec::new();
        for ledger in [&self.spent, &self.leased, &self.taken, &self.given_back] {
            let ledger: &Ledger = ledger;
            let verdict = ledger.judge(&mesh.values(node, &ledger.counters()).await?);
            if !verdict.is_right() {
                let told = verdict.tell(|number| history.of(&ledger.key(number)));
                wrong += &format!("node {node}: {told}");
            }
            counted.push(verdict.counted as i128);
        }
        let gift = mesh.get(node, &format!("{SPACE}/budgets/gift")).await?;
        let seats = mesh.get(node, &format!("{SPACE}/budgets/seats")).await?;
        let left = MINTED - counted[0] - counted[1];
        let taken = counted[2] - counted[3];
        for (budget, value) in [(&gift, left), (&seats, taken)] {
            let rights = ["here", "pending", "elsewhere"].map(|it| number(&budget["rights"][it]));
            let sum: i128 = rights.iter().sum();
            if number(&budget["value"]) != value || sum != value || !budget["leased"].is_null() {
                wrong += &format!("node {node}: not {value}, or not all rights: {budget}\n");
            }
        }
        wrong += &self.expiring_wrong(mesh, node).await?;
        if !(0..=CAP).contains(&taken) {
            wrong += &format!("node {node}: {taken} seats are taken\n");
        }
        Ok(wrong)
    }

    /// Checks the budgets of all nodes by the command line, as an operator does. Returns how many nodes there
    /// are.
    pub(crate) async fn audit(mesh: &Mesh) -> Result<usize, String> {
        for node in 0..NODES {
            let output = mesh.tool(node, &["budget", "audit"]).await?;
            let text = String::from_utf8_lossy(&output.stdout);
            if !output.status.success() {
                let error = String::from_utf8_lossy(&output.stderr);
                return Err(format!("budget audit of node {node}: {text}{error}"));
            }
        }
        Ok(NODES)
    }
}

fn number(value: &Value) -> i128 {
    let text = value.as_str().unwrap_or_default();
    text.parse().unwrap_or(i128::MIN / 4)
}
