//! A process on a copy of a node's data folder.

use super::Mesh;
use crate::node::{DEADLINE, Node, POLL, SPACE, program};
use serde_json::{Value, json};
use std::time::Instant;
use tokio::time::sleep;

/// A node on a copy of another one's data folder. It is killed when it is dropped.
pub(crate) struct Copy(Node);

impl Mesh {
    /// Starts a node on a copy of a node's data folder. Its links go the ways of the original.
    pub(crate) async fn start_copy(&self, node: usize) -> Result<Copy, String> {
        let mut copy = Node::new(node)?;
        self.disks[node].copy(&copy.data()).await?;
        copy.start(self.command(node, &program()?)).await?;
        Ok(Copy(copy))
    }
}

impl Copy {
    /// Whether it refuses all that only a member does.
    pub(crate) async fn is_refused(&self) -> Result<(), String> {
        let unit = json!({ "amount": 1 });
        let lease = json!({ "amount": 1, "lease_ms": 60_000 });
        let id = "0".repeat(32);
        for (method, path, body) in [
            ("POST", "budgets/gift/spend".to_owned(), &unit),
            ("POST", "budgets/gift/mint".to_owned(), &unit),
            ("PUT", format!("budgets/gift/leases/{id}"), &lease),
            ("POST", "sequences/visits/next".to_owned(), &Value::Null),
            ("POST", "limits/login:copied/allow".to_owned(), &json!({})),
        ] {
            let deadline = Instant::now() + DEADLINE;
            let body = match body {
                Value::Null => String::new(),
                body => body.to_string(),
            };
            loop {
                let path = format!("{SPACE}/{path}");
                match self.0.ask(method, &path, "", &body).await {
                    Ok(done) => return Err(format!("a copy did {path}: {done}")),
                    Err(why) if why.contains("\"folder_copied\"") => break,
                    // While it starts, it does not know yet.
                    Err(why) if why.contains(": 503 ") && Instant::now() < deadline => {
                        sleep(POLL).await;
                    }
                    Err(why) => return Err(format!("{why}\n{}", self.0.log())),
                }
            }
        }
        Ok(())
    }

    /// Adds to a counter. Other nodes hear of it if the copy has a turn before it ends.
    pub(crate) async fn add(&self, counter: &str, by: i64) -> Result<(), String> {
        let path = format!("{SPACE}/counters/{counter}/add");
        let body = json!({ "by": by.to_string() }).to_string();
        self.0.ask("POST", &path, "", &body).await.map(|_| ())
    }
    /// Ends it without any warning.
    pub(crate) async fn kill(mut self) -> Result<(), String> {
        self.0.kill().await.map(|_| ())
    }
}
