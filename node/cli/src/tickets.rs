//! `tallymesh tickets` and `tallymesh revoke`: the tickets of a node, and their revocation.

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, text};
use super::time;
use clap::Args;
use serde_json::{Value, json};
use tallymesh_node_engine::access::{Grant, TicketId};
use tallymesh_node_ground::escape;

/// The arguments of `tallymesh revoke`.
#[derive(Args, Debug)]
pub struct RevokeArgs {
    /// The ticket's id, which `tallymesh tickets` prints, or all of the ticket. Of a ticket that another
    /// node signed give all, as it says its end: an id alone is remembered for ever
    #[arg(value_name = "ID|TICKET")]
    which: String,

    /// Only in these spaces, with commas between, instead of all in which the node has a say
    #[arg(long, value_name = "SPACE", value_delimiter = ',')]
    only_in: Vec<String>,
}

/// Prints the tickets that a node signed or was given, and further revoked ones.
pub(super) fn list(client: &Client, output: &mut Output) -> Result<(), Failure> {
    let answer = client.as_operator()?.get("/v1/tickets")?;
    for kind in ["issued", "held", "revoked"] {
        for row in rows(&answer[kind]) {
            let mut told = row.clone();
            told["kind"] = kind.into();
            output.line(&told, || line(kind, row))?;
        }
    }
    Ok(())
}

/// The spaces in which a node has the ticket as revoked.
pub(super) fn revoked_in(client: &Client, id: TicketId) -> Result<Vec<String>, Failure> {
    let answer = client.as_operator()?.get("/v1/tickets")?;
    let id = id.to_string();
    let revoked = rows(&answer["revoked"]).filter(|row| row["id"] == id.as_str());
    let mut spaces: Vec<String> = revoked.flat_map(|row| names(&row["spaces"])).collect();
    spaces.sort_unstable();
    spaces.dedup();
    Ok(spaces)
}

pub(super) fn revoke(
    client: &Client,
    output: &mut Output,
    args: &RevokeArgs,
) -> Result<(), Failure> {
    let (id, ends) = which(&args.which)?;
    let mut query: Vec<String> = Vec::new();
    if !args.only_in.is_empty() {
        query.push(format!("spaces={}", args.only_in.join(",")));
    }
    query.extend(ends.map(|end| format!("expires_at={}", end.saturating_mul(1000))));
    let path = format!("/v1/tickets/{id}?{}", query.join("&"));
    let revoked = client.as_operator()?.delete(&path);
    let revoked = revoked.map_err(|failure| {
        failure.if_broken("give the same command again, which revokes nothing twice, or look with `tallymesh tickets`")
    })?;
    output.line(&revoked, || {
        let spaces = shown(&names(&revoked["spaces"]), ", ");
        format!("revoked ticket {id} in space {spaces}")
    })?;
    match output.is_json() {
        true => Ok(()),
        false => output.remark(
            "Connected nodes learn of it within seconds, others once they connect. A door that asks for no \
             ticket, such as loopback without `--listen-tickets`, stays open to the holder. A node that the \
             ticket made a member stays one: `tallymesh members remove OWNER` ends that.",
        ),
    }
}

/// The id of a ticket and, if the text is a whole ticket, its end in seconds since 1970.
fn which(text: &str) -> Result<(TicketId, Option<u64>), Failure> {
    let text = text.trim();
    if !text.contains('.') {
        let id = text.parse();
        return id
            .map(|id| (id, None))
            .map_err(|problem| Failure::Usage { problem });
    }
    let grant = Grant::parse(text).map_err(|error| Failure::Local {
        code: error.code(),
        problem: error.to_string(),
    })?;
    Ok((grant.id, grant.expires))
}

fn rows(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn names(value: &Value) -> Vec<String> {
    let names = rows(value).filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

/// Names for people.
fn shown(names: &[String], between: &str) -> String {
    let names: Vec<_> = names.iter().map(|name| escape::value(name)).collect();
    names.join(between)
}

fn line(kind: &str, row: &Value) -> String {
    let spaces = shown(&names(&row["spaces"]), ",");
    let id = text(&row["id"]);
    if kind == "revoked" {
        return format!("revoked\t{id}\tin {spaces}\tby {}", text(&row["by"]));
    }
    let at = row["expires_at"].as_str().and_then(|at| at.parse().ok());
    let ends = at.map_or_else(|| "never".to_owned(), time::shown);
    let mut state = text(&row["state"]).to_string();
    let revoked = names(&row["revoked_in"]);
    if !revoked.is_empty() {
        state = format!("{state} in {}", shown(&revoked, ","));
    }
    let holder = row["holder"].as_str();
    let holder = holder.map_or_else(String::new, |holder| {
        format!("\tfor {}", escape::value(holder))
    });
    let role = text(&row["role"]);
    format!("{kind}\t{id}\t{state}\t{role} in {spaces}\tends {ends}{holder}")
}

/// The facts about a ticket in addition to its contents.
pub(super) fn told(revoked_in: Option<&[String]>) -> (Value, Option<String>) {
    let line = revoked_in.map(|spaces| match spaces {
        [] => "revoked  not as far as the node knows".to_owned(),
        spaces => format!("revoked  in {}", shown(spaces, ", ")),
    });
    (json!(revoked_in), line)
}
