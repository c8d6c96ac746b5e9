//! `tallymesh audit`: compares what a node shows with other nodes and with what its folder keeps.
//!
//! Replicas that hold the same transactions must show the same, so they are compared only where the
//! digests of their version vectors are equal, writer by writer. Nothing is changed, whatever is found.

use super::client::{Client, encoded};
use super::failure::Failure;
use super::output::Output;
use crate::driver::replay::Replay;
use crate::store::{self, StoreError};
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tallymesh_core::{Replica, Space, WriterId};

/// How often it is tried to see both sides hold the same.
const TRIES: u32 = 10;
/// How long is waited between two tries. Replicas that are linked tell each other within that.
const PAUSE: Duration = Duration::from_millis(300);

/// The arguments of `tallymesh audit`.
#[derive(Args, Debug)]
pub struct AuditArgs {
    /// Only keys that begin so
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,

    /// Another node of the space, to be compared with; may be given several times
    #[arg(long, value_name = "URL")]
    with: Vec<String>,

    /// The node's data folder, to be read and recounted
    #[arg(long, value_name = "DIR", required_unless_present = "with")]
    data: Option<PathBuf>,
}

/// What one replica shows: for each counter, what each writer's part comes to. A part of 0 is left out,
/// since who has collected what was cancelled does not show it.
type Shown = BTreeMap<String, BTreeMap<String, String>>;

/// It, and the digest of the vector at which that was.
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
    let mut wrong = 0;
    let mut skipped = 0;
    for url in &args.with {
        let other = Client::new(url, space)?;
        let there = || side(&other, &args.prefix);
        tell(
            output,
            client,
            &args.prefix,
            url,
            there,
            (&mut wrong, &mut skipped),
        )?;
    }
    if let Some(folder) = &args.data {
        let there = || kept(folder, space, &args.prefix).map(Some);
        let name = folder.display().to_string();
        tell(
            output,
            client,
            &args.prefix,
            &name,
            there,
            (&mut wrong, &mut skipped),
        )?;
    }
    let failed = |code, problem| Err(Failure::Local { code, problem });
    match (wrong, skipped) {
        (0, 0) => Ok(()),
        (0, skipped) => failed(
            "not_compared",
            format!(
                "{skipped} could not be compared, as it never held the same as this node: try again \
                 when less is written, and see that it is linked"
            ),
        ),
        (wrong, _) => failed(
            "differs",
            format!(
                "{wrong} parts differ between replicas that hold the same transactions; nothing was \
                 changed. One of them was tampered with, damaged or copied while it ran: compare with \
                 a third, and put the wrong one back from a backup or an empty folder"
            ),
        ),
    }
}

/// Compares with another side, and prints what comes of it.
fn tell(
    output: &mut Output,
    client: &Client,
    prefix: &str,
    name: &str,
    there: impl Fn() -> Result<Option<Side>, Failure>,
    (wrong, skipped): (&mut usize, &mut usize),
) -> Result<(), Failure> {
    for attempt in 0..TRIES {
        if attempt > 0 {
            thread::sleep(PAUSE);
        }
        let (Some(here), Some(there)) = (side(client, prefix)?, there()?) else {
            continue;
        };
        if here.digest != there.digest {
            continue;
        }
        let found = differences(&here.shown, &there.shown);
        for it in &found {
            let line = json!({
                "with": name, "key": it.key, "writer": it.writer,
                "here": it.here, "there": it.there,
            });
            output.line(&line, || {
                let part = |of: &Option<String>| of.clone().unwrap_or_else(|| "nothing".into());
                format!(
                    "{}\twriter {}: {} here, {} at {name}",
                    it.key,
                    it.writer,
                    part(&it.here),
                    part(&it.there)
                )
            })?;
        }
        *wrong += found.len();
        let (counters, differ) = (here.shown.len(), found.len());
        let line = json!({
            "with": name, "compared": true, "digest": here.digest,
            "counters": counters, "differences": differ,
        });
        return output.line(&line, || {
            format!("{name}: {counters} counters compared, {differ} parts differ")
        });
    }
    *skipped += 1;
    let line = json!({ "with": name, "compared": false });
    output.line(&line, || {
        format!("{name}: not compared, as it holds other transactions than this node")
    })
}

/// What a node shows; `None` if its vector changed meanwhile.
fn side(client: &Client, prefix: &str) -> Result<Option<Side>, Failure> {
    let mut side: Option<Side> = None;
    let prefix = encoded(prefix);
    let mut after = String::new();
    loop {
        let page = client.get_in_space(&format!("audit?prefix={prefix}{after}"))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let digest = text(&page["digest"]);
        let side = side.get_or_insert_with(|| Side {
            digest: digest.clone(),
            shown: Shown::new(),
        });
        if side.digest != digest {
            return Ok(None);
        }
        for counter in page["counters"].as_array().into_iter().flatten() {
            let shards = counter["shards"].as_array().into_iter().flatten();
            let parts = shards.map(|it| (text(&it["writer"]), text(&it["total"])));
            note(&mut side.shown, text(&counter["key"]), parts);
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={}", encoded(next)),
            None => break,
        }
    }
    Ok(side)
}

/// What comes of a data folder's last snapshot and all that it keeps since.
fn kept(folder: &Path, space: &str, prefix: &str) -> Result<Side, Failure> {
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
    let digest = replica.as_ref().map_or([0; 16], Replica::digest);
    if let Some(replica) = &replica {
        for (counter, key) in replica.counters().filter(|it| it.1.starts_with(prefix)) {
            let shards = replica.shards(counter);
            let parts = shards.map(|it| (it.writer.to_string(), it.total.to_string()));
            note(&mut shown, key.to_owned(), parts);
        }
    }
    let digest = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Side { digest, shown })
}

fn replay_of(space: &Space) -> Replay {
    Replay::new(space.clone(), WriterId::mint(space, &[0; 32], &[0; 16]))
}

fn note(shown: &mut Shown, key: String, parts: impl Iterator<Item = (String, String)>) {
    shown.insert(key, parts.filter(|it| it.1 != "0").collect());
}

/// Where two sides differ, by key and writer.
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
