//! `tallymesh status`: the state of a node.

use super::client::Client;
use super::doctor;
use super::failure::Failure;
use super::members::{self, KeyForm};
use super::output::{Output, text};
use serde_json::Value;
use tallymesh_node_ground::escape;

pub(super) fn run(client: &Client, output: &mut Output) -> Result<(), Failure> {
    let status = client.get("/v1/status")?;
    output.line(&status, || describe(&status))
}

fn describe(status: &Value) -> String {
    let mut lines = vec![
        format!("version  {}", text(&status["version"])),
        format!("peer id  {}", text(&status["peer_id"])),
        format!("owner    {}", text(&status["owner"])),
    ];
    for address in status["listen"].as_array().into_iter().flatten() {
        lines.push(format!("listen   {}", text(address)));
    }
    if let Some(address) = status["resp"].as_str() {
        lines.push(format!("redis    {}", escape::value(address)));
    }
    lines.push(format!("durable  {}", text(&status["durability"])));
    if status["demo"] == true {
        let cut = match status["cut"] == true {
            true => "and they are cut",
            false => "and they are up",
        };
        lines.push(format!("demo     links can be cut over HTTP, {cut}"));
    }
    for space in status["spaces"].as_array().into_iter().flatten() {
        lines.push(format!(
            "space    {}: {} counters, {} shards, {} writers, digest {}",
            text(&space["space"]),
            text(&space["counters"]),
            text(&space["shards"]),
            text(&space["writers"]),
            text(&space["digest"]),
        ));
        lines.push(format!(
            "         writer {}, clock {}, contents {}, faults {}, renewals {}",
            text(&space["writer"]),
            text(&space["clock"]),
            text(&space["contents"]),
            text(&space["faults"]),
            text(&space["renewals"]),
        ));
        lines.extend(members::summary(&space["membership"]));
        if space["copied"] == true {
            lines.push(
                "         runs on a copy of another node's data folder, or lost its place to a copy, and spends, draws \
                 and decides nothing: `tallymesh adopt` if the other node is gone for good"
                    .to_owned(),
            );
        }
        let copies = space["copies"].as_array().into_iter().flatten();
        lines.extend(copies.map(|row| format!("         {}", doctor::copy_named(row))));
        lines.extend(members::stuck(space, KeyForm::default()).map(|it| format!("         {it}")));
    }
    lines.join("\n")
}
