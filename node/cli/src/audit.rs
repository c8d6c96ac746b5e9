//! `tallymesh audit`: compares the counters of a node with those of the connected nodes, of other
//! nodes, and of its data folder.
//!
//! It compares counters, and the counters in which budgets are stored. Replicas with the same
//! transactions must show the same values. So they are compared only where the digests of their
//! version vectors are equal, writer by writer. Nothing is changed, even if they differ.

use super::client::{Client, encoded};
use super::failure::Failure;
use super::output::Output;
use clap::Args;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use tallymesh_core::{Fate, RESERVED, Replica, Space, WriterId, budget_name};
use tallymesh_node_engine::driver::replay::Replay;
use tallymesh_node_ground::escape;
use tallymesh_node_store as store;
use tallymesh_node_store::StoreError;

/// How often it tries to find both sides with the same transactions.
const TRIES: u32 = 10;
/// The pause between two tries. Linked replicas exchange their transactions within that time.
const PAUSE: Duration = Duration::from_millis(300);
/// The time after which no further try begins, for slow nodes.
const PATIENCE: Duration = Duration::from_secs(15);

/// The arguments of `tallymesh audit`.
#[derive(Args, Debug)]
pub struct AuditArgs {
    /// Only keys that begin so
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,

    /// Another node of the space, to be compared with, by the address of its HTTP; may be given
    /// several times. Without this and --data, all nodes are that are connected
    #[arg(long, value_name = "URL")]
    with: Vec<String>,
}

/// The counters of one replica: for each counter, the value of each writer's part. A part of 0 is
/// left out, because a replica that has collected cancelled adds does not show it.
type Shown = BTreeMap<String, BTreeMap<String, String>>;

/// These, with the digest of the version vector at that moment.
struct Side {
    digest: String,
    shown: Shown,
}

/// A part on which two sides differ.
#[derive(Debug, PartialEq, Eq)]
struct Difference {
    key: String,
    writer: String,
    here: Option<String>,
    there: Option<String>,
}

pub(super) fn run(
    client: &Client,
    space: &str,
    output: &mut Output,
    args: &AuditArgs,
) -> Result<(), Failure> {
    let scope = Scope {
        prefix: &args.prefix,
        counters: true,
    };
    let mut audit = Audit::new(client, output, scope);
    for url in &args.with {
        let other = client.at(url)?;
        audit.compare(url, |digest| side(&other, scope, None, Some(digest)))?;
    }
    if let Some(folder) = client.data() {
        let name = folder.display().to_string();
        audit.compare(&name, |digest| {
            kept(folder, space, scope, client, digest).map(Some)
        })?;
    }
    if args.with.is_empty() && client.data().is_none() {
        audit.compare_peers(space)?;
    }
    audit.end()
}

/// Compares the budgets with this prefix with all connected nodes. Without a connected node there
/// is nothing to compare.
pub(super) fn budgets(
    client: &Client,
    space: &str,
    output: &mut Output,
    prefix: &str,
) -> Result<(), Failure> {
    let scope = Scope {
        prefix,
        counters: false,
    };
    let mut audit = Audit::new(client, output, scope);
    audit.compare_peers(space)?;
    match audit.compared + audit.skipped {
        0 => Ok(()),
        _ => audit.end(),
    }
}

/// The counters and budgets to compare.
#[derive(Clone, Copy)]
struct Scope<'a> {
    /// The prefix of their names.
    prefix: &'a str,
    /// Whether counters are compared, and not only budgets.
    counters: bool,
}

impl Scope<'_> {
    /// The prefixes of the keys to list.
    fn lists(&self) -> Vec<String> {
        let counters = self.counters.then(|| self.prefix.to_owned());
        counters.into_iter().chain([RESERVED.to_string()]).collect()
    }

    /// Whether the counter under this key is compared.
    fn has(&self, key: &str) -> bool {
        let name = budget_name(key).unwrap_or(match key.starts_with(RESERVED) {
            true => "",
            false => key,
        });
        name.starts_with(self.prefix)
    }
}

/// A key for people.
fn shown_key(key: &str) -> String {
    match budget_name(key) {
        Some(name) => format!("budget {}", escape::value(name)),
        None => escape::value(key).into_owned(),
    }
}

/// An audit under way.
struct Audit<'a> {
    client: &'a Client,
    scope: Scope<'a>,
    output: &'a mut Output,
    /// Sides that were compared.
    compared: usize,
    /// Parts that differ.
    wrong: usize,
    /// Sides that could not be compared.
    skipped: usize,
}

impl<'a> Audit<'a> {
    fn new(client: &'a Client, output: &'a mut Output, scope: Scope<'a>) -> Audit<'a> {
        Audit {
            client,
            scope,
            output,
            compared: 0,
            wrong: 0,
            skipped: 0,
        }
    }

    /// Compares with all connected nodes, through this one.
    fn compare_peers(&mut self, space: &str) -> Result<(), Failure> {
        let answer = self.client.get("/v1/peers")?;
        let rows = answer["peers"].as_array().into_iter().flatten();
        for row in rows.filter(|row| row["kind"] == "libp2p" && row["space"] == space) {
            let name = text(&row["peer"]);
            // The node may not have the space open, and then it is no peer of this audit.
            if row["state"] == "greeting" {
                self.tell_skipped(&name, "it has sent no hello in this space")?;
                continue;
            }
            let (client, scope) = (self.client, self.scope);
            self.compare(&name, |digest| {
                side(client, scope, Some(&name), Some(digest))
            })?;
        }
        Ok(())
    }

    /// Compares with another side, which gets the digest at which to compare, and prints the
    /// result.
    fn compare(
        &mut self,
        name: &str,
        there: impl Fn(&str) -> Result<Option<Side>, Failure>,
    ) -> Result<(), Failure> {
        let begun = Instant::now();
        let mut why = String::new();
        for attempt in 0..TRIES {
            if attempt > 0 {
                thread::sleep(PAUSE);
            }
            if begun.elapsed() > PATIENCE {
                break;
            }
            why = "it holds other transactions than this node".to_owned();
            let Some(here) = side(self.client, self.scope, None, None)? else {
                continue;
            };
            match there(&here.digest) {
                Ok(Some(there)) if there.digest == here.digest => {
                    return self.tell(name, &here, &there);
                }
                Ok(_) => {}
                Err(Failure::Refused { code, detail, .. }) if code.starts_with("peer_") => {
                    why = detail;
                }
                Err(failure) => return Err(failure),
            }
        }
        self.skipped += 1;
        self.tell_skipped(name, &why)
    }

    /// Prints the differences of two sides with the same transactions.
    fn tell(&mut self, name: &str, here: &Side, there: &Side) -> Result<(), Failure> {
        let found = differences(&here.shown, &there.shown);
        for it in &found {
            let line = json!({
                "with": name, "key": it.key, "writer": it.writer,
                "here": it.here, "there": it.there,
            });
            self.output.line(&line, || {
                let part = |of: &Option<String>| {
                    let of = of.as_deref().unwrap_or("nothing");
                    escape::value(of).into_owned()
                };
                format!(
                    "{}\twriter {}: {} here, {} at {}",
                    shown_key(&it.key),
                    escape::value(&it.writer),
                    part(&it.here),
                    part(&it.there),
                    escape::value(name)
                )
            })?;
        }
        self.compared += 1;
        self.wrong += found.len();
        let (counters, differ) = (here.shown.len(), found.len());
        let line = json!({
            "with": name, "compared": true, "digest": here.digest,
            "counters": counters, "differences": differ,
        });
        self.output.line(&line, || {
            let name = escape::value(name);
            format!("{name}: {counters} counters compared, {differ} parts differ")
        })
    }

    fn tell_skipped(&mut self, name: &str, why: &str) -> Result<(), Failure> {
        let line = json!({ "with": name, "compared": false, "why": why });
        self.output.line(&line, || {
            let (name, why) = (escape::value(name), escape::value(why));
            format!("{name}: not compared, as {why}")
        })
    }

    /// The result of the audit.
    fn end(self) -> Result<(), Failure> {
        let failed = |code, problem| Err(Failure::Local { code, problem });
        match (self.wrong, self.skipped) {
            (0, 0) if self.compared == 0 => failed(
                "not_compared",
                "no node is connected that has sent a hello in this space: see `tallymesh peers`, or \
                 name one with --with"
                    .to_owned(),
            ),
            (0, 0) => Ok(()),
            (0, skipped) => failed(
                "not_compared",
                format!(
                    "{skipped} could not be compared, as it never held the same as this node or did \
                     not answer: try again when less is written, and see that it is linked"
                ),
            ),
            (wrong, _) => failed(
                "differs",
                format!(
                    "{wrong} parts differ between replicas that hold the same transactions; nothing \
                     was changed. One of them was tampered with, damaged or copied while it ran: \
                     compare with a third, and put the wrong one back from a backup or an empty \
                     folder"
                ),
            ),
        }
    }
}

/// The counters of a node or, through it, of one of its peers. Returns `None` if the version vector
/// changed meanwhile, or is not the expected one.
fn side(
    client: &Client,
    scope: Scope<'_>,
    peer: Option<&str>,
    expected: Option<&str>,
) -> Result<Option<Side>, Failure> {
    let mut side: Option<Side> = None;
    for listed in scope.lists() {
        let mut asked = format!("audit?prefix={}", encoded(&listed));
        if let Some(peer) = peer {
            asked.push_str(&format!("&peer={}", encoded(peer)));
        }
        let mut after = String::new();
        loop {
            let page = client.get_in_space(&format!("{asked}{after}"))?;
            let digest = text(&page["digest"]);
            let side = side.get_or_insert_with(|| Side {
                digest: digest.clone(),
                shown: Shown::new(),
            });
            if side.digest != digest || expected.is_some_and(|expected| expected != digest) {
                return Ok(None);
            }
            let counters = page["counters"].as_array().into_iter().flatten();
            for counter in counters.filter(|it| scope.has(&text(&it["key"]))) {
                let shards = counter["shards"].as_array().into_iter().flatten();
                let parts = shards.map(|it| (text(&it["writer"]), text(&it["total"])));
                note(&mut side.shown, text(&counter["key"]), parts);
            }
            match page["next"].as_str() {
                Some(next) => after = format!("&after={}", encoded(next)),
                None => break,
            }
        }
    }
    Ok(side)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The counters that result from a data folder's last snapshot and the records after it. A node forgets
/// writers of which nothing is left, and its folder keeps them until the next snapshot. So they are left
/// out if the folder then has the expected version vector of the node.
fn kept(
    folder: &Path,
    space: &str,
    scope: Scope<'_>,
    client: &Client,
    expected: &str,
) -> Result<Side, Failure> {
    let mut replay = None;
    let read = store::check(
        folder,
        &mut |of, kept, bytes| match of.as_str() == space {
            true => replay
                .get_or_insert_with(|| replay_of(of))
                .take(kept.kind, bytes),
            false => Ok(()),
        },
        &mut |_| (),
    );
    let failed = |error: StoreError| Failure::Local {
        code: error.code(),
        problem: error.to_string(),
    };
    read.map_err(failed)?;
    let replica = replay.map(Replay::end);
    let mut shown = Shown::new();
    let hex =
        |digest: [u8; 16]| -> String { digest.iter().map(|byte| format!("{byte:02x}")).collect() };
    let mut digest = hex(replica.as_ref().map_or([0; 16], Replica::digest));
    let mut forgotten = BTreeSet::new();
    if let Some(replica) = replica.as_ref().filter(|_| digest != expected) {
        let gone = forgotten_writers(replica, &client.get_in_space("writers")?);
        let rest = replica.vector().restricted(|writer| !gone.contains(writer));
        if hex(rest.digest()) == expected {
            (digest, forgotten) = (expected.to_owned(), gone);
        }
    }
    if let Some(replica) = &replica {
        let counters = replica.counters().filter(|_| scope.counters);
        let all = counters.chain(replica.quota().budget_parts());
        for (counter, key) in all.filter(|it| scope.has(it.1)) {
            let shards = replica.shards(counter);
            let shards = shards.filter(|it| !forgotten.contains(&it.writer));
            let parts = shards.map(|it| (it.writer.to_string(), it.total.to_string()));
            note(&mut shown, key.to_owned(), parts);
        }
    }
    Ok(Side { digest, shown })
}

/// The writers in a folder that were taken over, and that the node does not list any more.
fn forgotten_writers(replica: &Replica, listed: &Value) -> BTreeSet<WriterId> {
    let rows = listed["writers"].as_array().into_iter().flatten();
    let listed: BTreeSet<String> = rows.map(|it| text(&it["writer"])).collect();
    let table = replica.members().writer_table();
    let absorbed = table
        .filter(|it| it.fate == Fate::Absorbed)
        .map(|it| it.writer);
    absorbed
        .filter(|it| !listed.contains(&it.to_string()))
        .collect()
}

fn replay_of(space: &Space) -> Replay {
    Replay::new(space.clone(), WriterId::mint(space, &[0; 32], &[0; 16]))
}

fn note(shown: &mut Shown, key: String, parts: impl Iterator<Item = (String, String)>) {
    shown.insert(key, parts.filter(|it| it.1 != "0").collect());
}

/// The differences of two sides, by key and writer.
fn differences(here: &Shown, there: &Shown) -> Vec<Difference> {
    let mut found = Vec::new();
    let nothing = BTreeMap::new();
    let keys = here
        .keys()
        .chain(there.keys().filter(|key| !here.contains_key(*key)));
    for key in keys {
        let (ours, theirs) = (here.get(key), there.get(key));
        let [a, b] = [ours, theirs].map(|parts| parts.unwrap_or(&nothing));
        let writers = a
            .keys()
            .chain(b.keys().filter(|writer| !a.contains_key(*writer)));
        for writer in writers.filter(|writer| a.get(*writer) != b.get(*writer)) {
            found.push(Difference {
                key: key.clone(),
                writer: writer.clone(),
                here: a.get(writer).cloned(),
                there: b.get(writer).cloned(),
            });
        }
    }
    found.sort_by(|a, b| (&a.key, &a.writer).cmp(&(&b.key, &b.writer)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_differ_where_a_part_does() {
        let side = |parts: &[(&str, &str, &str)]| {
            let mut shown = Shown::new();
            for (key, writer, total) in parts {
                let parts = shown.entry((*key).to_owned()).or_default();
                parts.insert((*writer).to_owned(), (*total).to_owned());
            }
            shown
        };
        let here = side(&[("a", "1", "5"), ("a", "2", "7"), ("b", "1", "3")]);
        assert_eq!(differences(&here, &here), []);
        let there = side(&[("a", "1", "5"), ("a", "2", "8"), ("c", "1", "3")]);
        let found = differences(&here, &there);
        let text = |it: &Option<String>| it.clone().unwrap_or_default();
        let found: Vec<_> = found
            .iter()
            .map(|it| {
                format!(
                    "{} {} {}/{}",
                    it.key,
                    it.writer,
                    text(&it.here),
                    text(&it.there)
                )
            })
            .collect();
        assert_eq!(found, ["a 2 7/8", "b 1 3/", "c 1 /3"]);
    }

    #[test]
    fn a_part_of_0_is_as_none() {
        let mut shown = Shown::new();
        let parts = [("1", "0"), ("2", "-1")].map(|it| (it.0.to_owned(), it.1.to_owned()));
        note(&mut shown, "a".to_owned(), parts.into_iter());
        assert_eq!(shown["a"].len(), 1);
    }
}
