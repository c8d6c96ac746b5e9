//! Nodes that are members of one space, and their clients by both protocols.

use super::crowd::Answer;
use super::disk;
use crate::resp_bench::servers::{Durability, Kind, Server};
use crate::resp_client::Client;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const SPACE: &str = "/v1/spaces/default";
/// How long a client waits for rights that other nodes hold, in milliseconds.
const RIGHTS_WAIT_MS: &str = "1000";
/// The longest that nodes may take to become members, or to agree.
const AGREE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

/// How clients speak to a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Speech {
    Resp,
    Http,
}

impl Speech {
    pub(super) fn name(self) -> &'static str {
        match self {
            Speech::Resp => "RESP",
            Speech::Http => "HTTP",
        }
    }
}

/// What clients ask for: a unit at a time.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    Spend(String),
    Transfer(String, String),
}

/// A client of a node, who asks and waits for the answer.
pub(super) type Asker = Box<dyn FnMut(&Wish) -> Result<Answer> + Send>;

/// Nodes that are all linked, and members.
pub(super) struct Mesh<'a> {
    nodes: Vec<Server<'a>>,
}

impl<'a> Mesh<'a> {
    pub(super) fn start(program: &'a Path, count: usize) -> Result<Mesh<'a>> {
        disk()?;
        let mut nodes = vec![Server::start(Kind::Ours(program), Durability::Always)?];
        while nodes.len() < count {
            let others: Vec<&Server<'_>> = nodes.iter().collect();
            let node = Server::start_beside(program, Durability::Always, &others)?;
            nodes.push(node);
        }
        let mesh = Mesh { nodes };
        mesh.post("members/init", &json!({}))?;
        for node in &mesh.nodes[1..] {
            let status: Value = serde_json::from_str(&node.http("/v1/status")?)?;
            let asked = json!({ "owner": status["owner"], "wait_ms": 20_000 });
            mesh.post("members/add", &asked)?;
        }
        mesh.until("the nodes are members", |node| {
            let answer: Value = serde_json::from_str(&node.http(&format!("{SPACE}/members"))?)?;
            let rows = answer["members"].as_array().context("no members")?;
            let known = |row: &Value| !row["writer"].is_null() && row["unsure"] == false;
            Ok(rows.len() == count && rows.iter().all(known))
        })?;
        Ok(mesh)
    }

    /// How many nodes there are, in words.
    pub(super) fn name(&self) -> &'static str {
        match self.nodes.len() {
            1 => "one node",
            _ => "three nodes",
        }
    }

    /// Pays into a budget at the first node, and waits until all have received it.
    pub(super) fn mint(&self, budget: &str, amount: u64) -> Result<()> {
        let asked = json!({ "amount": amount });
        self.post(&format!("budgets/{budget}/mint"), &asked)?;
        self.agree_on(&[(budget, amount)])
    }

    /// Waits until all nodes show these values.
    ///
    /// # Errors
    /// When one still shows another value after a minute.
    pub(super) fn agree_on(&self, values: &[(&str, u64)]) -> Result<()> {
        self.until(&format!("all nodes show {values:?}"), |node| {
            for (budget, value) in values {
                // A budget that a node has not received yet is refused.
                let Ok(shown) = node.http(&format!("{SPACE}/budgets/{budget}")) else {
                    return Ok(false);
                };
                let shown: Value = serde_json::from_str(&shown)?;
                if shown["value"] != value.to_string().as_str() {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn until(&self, what: &str, is_so: impl Fn(&Server<'_>) -> Result<bool>) -> Result<()> {
        let begun = Instant::now();
        for node in &self.nodes {
            while !is_so(node)? {
                if begun.elapsed() > AGREE {
                    bail!("it did not come about that {what}");
                }
                thread::sleep(POLL);
            }
        }
        Ok(())
    }

    /// Asks the first node for a change.
    fn post(&self, path: &str, body: &Value) -> Result<()> {
        let url = format!("{}{SPACE}/{path}", self.nodes[0].base()?);
        let shown = format!("Bearer {}", self.nodes[0].token()?);
        ureq::post(url)
            .header("authorization", shown)
            .send(body.to_string())?;
        Ok(())
    }

    /// A client at one of the nodes, who connects now.
    pub(super) fn client(&self, number: usize, speech: Speech) -> Result<Asker> {
        let node = &self.nodes[number % self.nodes.len()];
        match speech {
            Speech::Resp => {
                let mut client = node.client()?;
                let waits = client.ask(&["CLIENT", "RIGHTS-WAIT", RIGHTS_WAIT_MS])?;
                if waits != "+OK" {
                    bail!("CLIENT RIGHTS-WAIT was answered with `{waits}`");
                }
                Ok(Box::new(move |wish| ask_resp(&mut client, wish)))
            }
            Speech::Http => {
                let base = node.base()?;
                let agent = ureq::Agent::config_builder().http_status_as_error(false);
                let agent: ureq::Agent = agent.build().into();
                // So the connection is there, as it is of the others.
                let mut answer = agent.get(format!("{base}/readyz")).call()?;
                answer.body_mut().read_to_string()?;
                Ok(Box::new(move |wish| ask_http(&agent, &base, wish)))
            }
        }
    }
}

fn ask_resp(client: &mut Client, wish: &Wish) -> Result<Answer> {
    let told = match wish {
        Wish::Spend(budget) => client.ask(&["BUDGET.SPEND", budget, "1"])?,
        Wish::Transfer(from, to) => client.ask(&["BUDGET.TRANSFER", from, to, "1"])?,
    };
    match told {
        told if told.starts_with(':') => Ok(Answer::Made),
        told if told.starts_with("-RIGHTSSHORT") => Ok(Answer::Refused),
        told => bail!("{wish:?} was answered with `{told}`"),
    }
}

fn ask_http(agent: &ureq::Agent, base: &str, wish: &Wish) -> Result<Answer> {
    let (url, body) = match wish {
        Wish::Spend(budget) => (
            format!("{base}{SPACE}/budgets/{budget}/spend"),
            String::from(r#"{"amount":"1"}"#),
        ),
        Wish::Transfer(from, to) => (
            format!("{base}{SPACE}/budgets/{from}/transfer"),
            format!(r#"{{"to":[{{"key":"{to}","amount":"1"}}]}}"#),
        ),
    };
    let asked = agent
        .post(url)
        .header("tallymesh-rights-wait-ms", RIGHTS_WAIT_MS);
    let mut answer = asked.send(body)?;
    let status = answer.status().as_u16();
    let text = answer.body_mut().read_to_string()?;
    match status {
        200 => Ok(Answer::Made),
        409 if text.contains("\"rights_short\"") => Ok(Answer::Refused),
        _ => bail!("{wish:?} was answered with {status}: {text}"),
    }
}
