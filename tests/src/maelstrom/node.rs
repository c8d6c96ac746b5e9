//! A node: one counter behind Maelstrom's requests.

use super::Workload;
use super::message::{Message, Refusal};
use super::shared::{FRAME, Shared};
use serde_json::{Value, json};
use std::collections::VecDeque;
use tallymesh_core::Millis;

/// A source of 16 random bytes for a node.
pub type Nonces = Box<dyn FnMut() -> [u8; 16]>;

/// The settings of a node.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The requests that the node serves.
    pub workload: Workload,
    /// Mean time between two comparisons with each other node, and the time until a lost message is sent
    /// again, in milliseconds. A lower value makes nodes agree sooner after a loss, and costs more messages.
    pub interval_ms: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            workload: Workload::GrowAndShrink,
            interval_ms: 500,
        }
    }
}

/// A line that a node prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A line for standard output.
    Line(String),
    /// A line for standard error: the node received something that it cannot answer.
    Note(String),
}

/// A Maelstrom node without its process.
///
/// Pass each input line to [`Node::line`], and call [`Node::tick`] no later than [`Node::next_deadline`].
/// After each call, print the results of [`Node::poll`] until it returns `None`.
///
/// The node returns the answer of an add only after the add is in the replica. It stores nothing on a disk.
/// If a process ends, the changes that no other node has received are lost.
pub struct Node {
    config: Config,
    /// The source of random bytes until `init`, which takes it.
    nonces: Option<Nonces>,
    started: Option<Started>,
    said: VecDeque<Said>,
}

struct Started {
    id: String,
    ids: Vec<String>,
    shared: Shared,
}

impl Node {
    /// A node that waits for `init`.
    pub fn new(config: Config, nonces: Nonces) -> Node {
        Node {
            config,
            nonces: Some(nonces),
            started: None,
            said: VecDeque::new(),
        }
    }

    /// Handles a line that came at `now`.
    pub fn line(&mut self, now: Millis, line: &str) {
        if let Err(refusal) = self.message(now, line) {
            self.said.push_back(Said::Note(refusal.to_string()));
        }
    }

    /// Handles the time that has passed.
    pub fn tick(&mut self, now: Millis) {
        if let Some(started) = &mut self.started {
            started.shared.tick(now);
        }
    }

    /// When [`Node::tick`] is due, if anything waits.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.started.as_ref()?.shared.next_deadline()
    }

    /// The next thing to be printed.
    pub fn poll(&mut self) -> Option<Said> {
        let said = self.said.pop_front();
        said.or_else(|| self.started.as_mut()?.shared.poll())
    }

    /// Executes the request of a line. It returns an error only if it cannot send the error as an answer.
    fn message(&mut self, now: Millis, line: &str) -> Result<(), Refusal> {
        let message = Message::parse(line)?;
        if message.kind() == Ok(FRAME) {
            let kind = FRAME.to_owned();
            let started = self.started.as_mut();
            let started = started.ok_or(Refusal::NotStarted { kind })?;
            return started.shared.take(now, &message);
        }
        // Without an id there is no answer, and an operation without an answer belongs to no client.
        let id = message.integer("msg_id")?;
        let outcome = self.request(now, &message);
        let answer = message.answer(id, outcome);
        self.said.push_back(Said::Line(answer.line()));
        Ok(())
    }

    fn request(&mut self, now: Millis, message: &Message) -> Result<Value, Refusal> {
        let kind = message.kind()?;
        match kind {
            "init" => return self.init(message),
            "add" | "read" => {}
            _ => {
                return Err(Refusal::NotSupported {
                    kind: kind.to_owned(),
                });
            }
        }
        let started = self.started.as_mut();
        let started = started.ok_or_else(|| Refusal::NotStarted {
            kind: kind.to_owned(),
        })?;
        started.shared.open(now);
        if kind == "read" {
            let value = started.shared.value();
            let fits = i64::try_from(value).map_err(|_| Refusal::TooWide { value })?;
            return Ok(json!({"type": "read_ok", "value": fits}));
        }
        let delta = message.integer("delta")?;
        if delta < 0 && self.config.workload == Workload::Grow {
            return Err(Refusal::Negative { delta });
        }
        let added = started.shared.add(now, delta);
        added.map_err(Refusal::Counter)?;
        Ok(json!({"type": "add_ok"}))
    }

    /// Starts to count. The same `init` again changes nothing, because its answer may have been lost.
    fn init(&mut self, message: &Message) -> Result<Value, Refusal> {
        let (id, ids) = (message.text("node_id")?, message.texts("node_ids")?);
        if let Some(nonces) = self.nonces.take() {
            let others = ids.iter().filter(|other| *other != id).cloned();
            self.started = Some(Started {
                shared: Shared::new(id, others.collect(), self.config.interval_ms, nonces),
                id: id.to_owned(),
                ids,
            });
        } else if let Some(it) = self
            .started
            .as_ref()
            .filter(|it| it.id != id || it.ids != ids)
        {
            let id = it.id.clone();
            return Err(Refusal::Started { id });
        }
        Ok(json!({"type": "init_ok"}))
    }
}

#[cfg(test)]
mod tests;
