//! A native node with the interface of a driver, over its HTTP interface.

use crate::answer::{Outcome, Position, Vector, number};
use crate::check::{Shows, Tell, optional, reader, shown};
use crate::node::{DEADLINE, Node, POLL, SPACE, program, told};
use crate::pull::pull;
use crate::wire::{Connection, Wire, http_answer, http_request};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Instant;
use tallymesh_core::{Encode, WriterId};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

/// A node.
pub(crate) struct Native {
    node: Node,
    /// Whether it is cut off from all other replicas.
    pub(crate) cut: bool,
}

impl Native {
    pub(crate) fn new(number: usize) -> Result<Native, String> {
        Ok(Native {
            node: Node::new(number)?,
            cut: false,
        })
    }

    /// Starts it, for the first time or again on its folder. It dials these peers.
    pub(crate) async fn start(&mut self, peers: &[String]) -> Result<(), String> {
        let mut command = Command::new(program()?);
        command
            .args(["up", "--demo", "--durability", "always"])
            .args(["--listen", "/ip4/127.0.0.1/tcp/0"])
            .env("TALLYMESH_LOG", "warn");
        for peer in peers {
            command.args(["--peer", peer]);
        }
        self.cut = false;
        self.node.start(command).await
    }

    /// Ends it without a leave.
    pub(crate) async fn kill(&mut self) -> Result<(), String> {
        self.node.kill().await.map(drop)
    }

    pub(crate) fn http(&self) -> Result<SocketAddr, String> {
        self.node.http.parse().map_err(told)
    }

    /// Its address for other nodes.
    pub(crate) fn listen(&self) -> &str {
        &self.node.listen
    }

    pub(crate) fn peer_id(&self) -> &str {
        &self.node.peer_id
    }

    /// Cuts it off from another node or from all of them, or ends that.
    pub(crate) async fn cut(&mut self, peer: Option<&str>, cut: bool) -> Result<(), String> {
        let mut body = json!({ "cut": cut });
        match peer {
            Some(peer) => body["peer"] = peer.into(),
            None => self.cut = cut,
        }
        self.node.post("/v1/demo/cut", &body).await.map(drop)
    }

    /// Its position.
    pub(crate) async fn position(&self) -> Result<Position, String> {
        let status = self.node.get("/v1/status").await?;
        let faults = &status["spaces"][0]["faults"];
        if *faults != "0" && *faults != 0 {
            return Err(format!("it met a fault: {status}"));
        }
        let answer = self.node.get(&format!("{SPACE}/writers")).await?;
        let mut writer = None;
        let mut vector = Vector::new();
        for row in answer["writers"].as_array().into_iter().flatten() {
            let id = row["writer"].as_str().and_then(WriterId::parse);
            let (Some(id), Some(clock)) = (id, number(&row["clock"])) else {
                return Err(format!("no writers: {answer}"));
            };
            if row["own"] == true {
                writer = Some(id);
            }
            if clock > 0 {
                vector.insert(id, clock);
            }
        }
        let own = status["spaces"][0]["writer"].as_str();
        let writer = writer.or_else(|| own.and_then(WriterId::parse));
        let writer = writer.ok_or_else(|| format!("no own writer: {answer}"))?;
        Ok(Position { writer, vector })
    }

    pub(crate) async fn transact(&self, ops: &Value) -> Result<Outcome, String> {
        let body = json!({ "ops": ops }).to_string();
        let path = format!("{SPACE}/transactions");
        let (status, answer) = self.request("POST", &path, &body).await?;
        if let (400.., Some(code)) = (status, answer["code"].as_str()) {
            return Ok(Outcome::Refused(code.to_owned()));
        }
        let rows = answer["results"].as_array();
        let told = |row: &Value| row["existed"].as_bool().or(row["had_expiry"].as_bool());
        let results = rows.and_then(|rows| rows.iter().map(told).collect());
        let results = results.map(Outcome::Results);
        results.ok_or_else(|| format!("no outcome: {status} {answer}"))
    }

    /// The whole state at one moment. The requests are repeated until no change came between them.
    pub(crate) async fn tell(&self, keys: &[String]) -> Result<Tell, String> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let position = self.position().await?;
            let ways = vec![
                ("list", self.list().await?),
                ("read", self.reads(keys).await?),
            ];
            // A node that is cut off sends nothing to peers.
            let message = match self.cut {
                true => None,
                false => Some(pull(&self.node).await?),
            };
            let still = match &message {
                Some(message) => reader(message, 0)?.1 == position.vector,
                None => true,
            };
            if still && self.position().await? == position {
                return Ok(Tell {
                    position,
                    ways,
                    state: message.map(|message| message.encode()),
                });
            }
            if Instant::now() > deadline {
                return Err("a node never rests".to_owned());
            }
            sleep(POLL).await;
        }
    }

    async fn list(&self) -> Result<Shows, String> {
        let answer = self
            .node
            .get(&format!("{SPACE}/counters?limit=1000"))
            .await?;
        let row = |row: &Value| {
            let expiry = optional(&row["expires_at"])?;
            Some((
                row["key"].as_str()?.to_owned(),
                shown(&row["value"], Some(expiry))?,
            ))
        };
        let rows = answer["counters"].as_array();
        let shows = rows.and_then(|rows| rows.iter().map(row).collect());
        shows.ok_or_else(|| format!("no list: {answer}"))
    }

    async fn reads(&self, keys: &[String]) -> Result<Shows, String> {
        let body = json!({ "keys": keys });
        let answer = self.node.post(&format!("{SPACE}/read"), &body).await?;
        let rows = answer["counters"].as_array().into_iter().flatten();
        let rows = keys.iter().zip(rows).filter(|(_, row)| !row.is_null());
        let row = |(key, row): (&String, &Value)| Some((key.clone(), shown(&row["value"], None)?));
        let shows = rows.map(row).collect::<Option<Shows>>();
        shows.ok_or_else(|| format!("no reads: {answer}"))
    }

    async fn request(&self, method: &str, path: &str, body: &str) -> Result<(u16, Value), String> {
        let asked = async {
            let mut connection = Connection::open(Wire::Http, self.http()?)
                .await
                .map_err(told)?;
            let request = http_request(method, path, "", body);
            let answer = connection.ask(&request).await.map_err(told)?;
            let (status, body) = http_answer(&answer)?;
            Ok((status, serde_json::from_str(&body).map_err(told)?))
        };
        let answer = timeout(DEADLINE, asked).await.map_err(told)?;
        answer.map_err(|why: String| format!("{why}\n{}", self.node.log()))
    }
}
