//! `tallymesh invite` and `tallymesh ticket`: tickets for others.

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, text};
use super::{tickets, time};
use clap::Args;
use serde_json::{Value, json};
use std::time::Duration;
use tallymesh_node_engine::access::Grant;
use tallymesh_node_ground::clock::WallClock;
use tallymesh_node_ground::model::Role;

/// The arguments of `tallymesh invite`.
#[derive(Args, Debug)]
pub struct InviteArgs {
    /// What the holder may do: a `reader` reads, a `writer` adds, an `editor` resets, sets and deletes
    /// too, a `member` syncs on behalf of others and decides who may do what
    #[arg(long, value_name = "ROLE")]
    role: Role,

    /// For all spaces in which the node is a member, instead of --space
    #[arg(long)]
    every_space: bool,

    /// How long it is good for, such as 7d, or `never` for a ticket without an end
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = lasting)]
    expires: Lasting,

    /// The key of the only node that may use it: `tallymesh id` prints it there
    #[arg(long, value_name = "OWNER")]
    holder: Option<String>,
}

/// How long a ticket is valid; `None` without an end.
#[derive(Clone, Copy, Debug)]
struct Lasting(Option<Duration>);

fn lasting(text: &str) -> Result<Lasting, String> {
    if text == "never" {
        return Ok(Lasting(None));
    }
    match time::duration(text)? {
        Duration::ZERO => Err("it must be longer than nothing; `never` is without an end".into()),
        duration => Ok(Lasting(Some(duration))),
    }
}

/// The arguments of `tallymesh ticket`.
#[derive(Args, Debug)]
pub struct TicketArgs {
    /// The ticket, all of it
    #[arg(value_name = "TICKET")]
    text: String,
}

pub(super) fn run(
    client: &Client,
    space: &str,
    output: &mut Output,
    args: &InviteArgs,
) -> Result<(), Failure> {
    let space = if args.every_space { "*" } else { space };
    let mut body = json!({
        "role": args.role,
        "spaces": [space],
        "expires_in_ms": args.expires.0.map_or(0, time::millis),
    });
    if let Some(holder) = &args.holder {
        body["holder"] = holder.as_str().into();
    }
    let made = client.as_operator()?.post_json("/v1/tickets", &body);
    let made = made.map_err(|failure| {
        failure.if_broken("give the same command again, which makes another ticket; `tallymesh tickets` lists both")
    })?;
    output.line(&made, || text(&made["ticket"]).to_string())
}

/// Prints the contents of a ticket, and whether its signature and its time are valid. If a node
/// answers, it also prints whether the ticket is revoked. It does not check whether the issuer is a
/// member.
pub(super) fn show(client: &Client, output: &mut Output, args: &TicketArgs) -> Result<(), Failure> {
    let grant = Grant::read(&args.text, WallClock::default().now());
    let grant = grant.map_err(|error| Failure::Local {
        code: error.code(),
        problem: error.to_string(),
    })?;
    let spaces: Option<Vec<&str>> = grant
        .spaces
        .as_ref()
        .map(|spaces| spaces.iter().map(|it| it.as_str()).collect());
    let nodes: Vec<String> = grant.nodes.iter().map(ToString::to_string).collect();
    // Without a node, or without a ticket that it accepts, this is not known.
    let revoked_in = tickets::revoked_in(client, grant.id).ok();
    let (revoked_in, revoked) = tickets::told(revoked_in.as_deref());
    let at = |seconds: u64| time::shown(seconds.saturating_mul(1000));
    let value: Value = json!({
        "id": grant.id.to_string(),
        "role": grant.role,
        "spaces": spaces.clone().unwrap_or_else(|| vec!["*"]),
        "issuer": grant.issuer,
        "holder": grant.holder,
        "issued_at": at(grant.issued),
        "expires_at": grant.expires.map(at),
        "nodes": nodes,
        "revoked_in": revoked_in,
    });
    output.line(&value, || {
        let spaces = spaces.map_or_else(
            || "every space of its issuer".to_owned(),
            |names| format!("space {}", names.join(", ")),
        );
        let mut lines = vec![
            format!("role     {} in {spaces}", grant.role),
            format!("id       {}", grant.id),
            format!("issuer   {}", grant.issuer),
        ];
        lines.extend(grant.holder.map(|holder| format!("holder   {holder}")));
        lines.push(match grant.expires {
            Some(end) => format!("ends     {}", at(end)),
            None => "ends     never".to_owned(),
        });
        lines.extend(revoked);
        lines.extend(nodes.iter().map(|node| format!("node     {node}")));
        lines.join("\n")
    })
}
