//! `members`, `retire` and `id`: the members of a space, and the writers that are retired.

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, text};
use super::time;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tallymesh_node_ground::escape;

/// The longest wait of one request. A longer wait needs several requests.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The effects of a forced change.
const BREAKS: &str = "\
A forced change asks nobody. It is for members that are lost for ever.
- A member left out has no say any more. If it still runs, what it wrote and no other member has \
taken over is made again, under a new writer, or is counted no more.
- What only members left out had acknowledged is not waited for.
- If both sides of a cut force a change, the later one wins and the other is void.";

/// The arguments of `tallymesh members`.
#[derive(Args, Debug)]
pub struct MembersArgs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the members (the default)
    List,
    /// Make the node the first member of a space that has none
    Init,
    /// Make a node a member; waits until a majority of the members has agreed
    Add(ChangeArgs),
    /// Take a member out; waits until a majority of the members has agreed
    Remove(ChangeArgs),
    /// Replace all members without asking them, when a majority is lost for ever
    Force(ForceArgs),
}

#[derive(Args, Debug)]
struct ChangeArgs {
    /// The node's key, 64 hex digits: `tallymesh id` prints it there
    #[arg(value_name = "OWNER")]
    owner: String,

    /// How long to wait for the decision
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = time::duration)]
    timeout: Duration,
}

#[derive(Args, Debug)]
struct ForceArgs {
    /// The keys of all members that there are to be
    #[arg(value_name = "OWNER", required = true)]
    owners: Vec<String>,

    /// Do it; without this, what it breaks is printed and nothing is done
    #[arg(long)]
    yes: bool,
}

/// The arguments of `tallymesh retire`.
#[derive(Args, Debug)]
pub struct RetireArgs {
    /// The writer, 32 hex digits, or the key of an owner who is no member, 64 hex digits: all its
    /// writers
    #[arg(value_name = "WRITER|OWNER")]
    who: String,

    /// How long to wait until its part has been taken over, which takes a word of every member
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = time::duration)]
    timeout: Duration,
}

/// The advice where the connection broke before the answer about a change.
const AGAIN: &str =
    "give the same command again, which changes nothing twice, or look with `tallymesh members`";

pub(super) fn run(client: &Client, output: &mut Output, args: MembersArgs) -> Result<(), Failure> {
    let done = act(client, output, args);
    done.map_err(|failure| failure.if_broken(AGAIN))
}

fn act(client: &Client, output: &mut Output, args: MembersArgs) -> Result<(), Failure> {
    match args.action.unwrap_or(Action::List) {
        Action::List => {
            let members = client.get_in_space("members")?;
            output.line(&members, || describe(&members))
        }
        Action::Init => {
            let operator = client.as_operator()?;
            let members = operator.post_json_in_space("members/init", &json!({}))?;
            output.line(&members, || describe(&members))
        }
        Action::Add(args) => change(client, output, "members/add", &args),
        Action::Remove(args) => change(client, output, "members/remove", &args),
        Action::Force(args) => force(client, output, &args),
    }
}

/// Repeats the request until the change is decided, or the time is over. Each request may be
/// repeated.
fn change(
    client: &Client,
    output: &mut Output,
    path: &str,
    args: &ChangeArgs,
) -> Result<(), Failure> {
    let client = client.as_operator()?;
    let members = waiting(args.timeout, |wait| {
        let body = json!({ "owner": args.owner, "wait_ms": time::millis(wait) });
        match client.post_json_in_space(path, &body) {
            Err(Failure::Refused { code, .. }) if code == "undecided" && wait == WAIT_MAX => {
                Ok(None)
            }
            answer => answer.map(Some),
        }
    })?;
    output.line(&members, || describe(&members))
}

/// Repeats a request that waits, until it has an answer.
fn waiting(
    timeout: Duration,
    mut ask: impl FnMut(Duration) -> Result<Option<Value>, Failure>,
) -> Result<Value, Failure> {
    let begun = Instant::now();
    loop {
        let left = timeout.saturating_sub(begun.elapsed());
        if let Some(answer) = ask(left.min(WAIT_MAX))? {
            return Ok(answer);
        }
    }
}

fn force(client: &Client, output: &mut Output, args: &ForceArgs) -> Result<(), Failure> {
    if !args.yes {
        return Err(Failure::Lines {
            problem: format!("{BREAKS}\nNothing was done. Add --yes to do it"),
        });
    }
    let body = json!({ "members": args.owners });
    let members = client
        .as_operator()?
        .post_json_in_space("members/force", &body)?;
    output.line(&members, || describe(&members))
}

/// Declares writers dead.
pub(super) fn retire(
    client: &Client,
    output: &mut Output,
    args: RetireArgs,
) -> Result<(), Failure> {
    let kind = match args.who.len() {
        64 => "owner",
        _ => "writer",
    };
    let client = client.as_operator()?;
    let answer = waiting(args.timeout, |wait| {
        let mut body = json!({ "wait_ms": time::millis(wait) });
        body[kind] = json!(args.who);
        let answer = client.post_json_in_space("retire", &body);
        let answer = answer.map_err(|failure| {
            failure.if_broken("give the same command again, which changes nothing twice, or look with `tallymesh writers`")
        })?;
        let rows = answer["writers"].as_array();
        let done = rows.is_some_and(|rows| rows.iter().all(|row| row["fate"] == "absorbed"));
        Ok((done || wait < WAIT_MAX).then_some(answer))
    })?;
    for row in answer["writers"].as_array().into_iter().flatten() {
        output.line(row, || match row["fate"] == "absorbed" {
            true => format!(
                "{}\tabsorbed: counts up to its clock {}",
                text(&row["writer"]),
                text(&row["upto"])
            ),
            false => format!(
                "{}\tdead: its part is taken over once every member has acknowledged it",
                text(&row["writer"])
            ),
        })?;
    }
    Ok(())
}

/// Prints the node's own key.
pub(super) fn id(client: &Client, output: &mut Output) -> Result<(), Failure> {
    let status = client.get("/v1/status")?;
    let own = json!({ "owner": status["owner"], "peer_id": status["peer_id"] });
    output.line(&own, || text(&status["owner"]))
}

fn describe(members: &Value) -> String {
    let configuration = &members["configuration"];
    if configuration.is_null() {
        return "no members: the space is open; `tallymesh members init` makes this node the first"
            .into();
    }
    let mut lines = vec![format!(
        "configuration {} of era {}",
        text(&configuration["number"]),
        text(&configuration["era"])
    )];
    lines.extend(rows(members, "members").map(member));
    let mut list = |title: &str, field: &str| {
        let names: Vec<String> = rows(members, field).map(text).collect();
        let more = count(members, field).saturating_sub(names.len() as u64);
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        if !names.is_empty() {
            lines.push(format!("{title}: {}{more}", names.join(", ")));
        }
    };
    list("attached here", "attached");
    list("waiting to be taken over", "waiting");
    list("proposed", "proposal");
    list("no answer yet from", "unanswered");
    lines.join("\n")
}

/// The number of rows that belong to a field. A node of an earlier version has no such number, and
/// lists all rows.
fn count(members: &Value, field: &str) -> u64 {
    let told = members[format!("{field}_count")].as_u64();
    told.unwrap_or_else(|| rows(members, field).count() as u64)
}

fn rows<'a>(members: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    members[field].as_array().into_iter().flatten()
}

fn member(row: &Value) -> String {
    let heard = match (row["own"] == true, row["last_heard_ms"].as_u64()) {
        (true, _) => "this node".to_owned(),
        (_, Some(millis)) => format!("heard {:.1} s ago", millis as f64 / 1000.0),
        (_, None) => "not heard yet".to_owned(),
    };
    let known = match (row["writer"].is_null(), row["unsure"] == true) {
        (true, _) => ", no start of it is known yet",
        (_, true) => ", its start is not known to all yet",
        _ => "",
    };
    format!(
        "{}  {heard}, {} unacknowledged{known}",
        text(&row["owner"]),
        text(&row["behind"])
    )
}

/// The first 8 digits of a key, by which people distinguish members.
pub(super) fn short(key: &Value) -> String {
    key.as_str().unwrap_or("?").chars().take(8).collect()
}

/// How much of a member's key is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum KeyForm {
    /// The first digits, by which people distinguish members.
    #[default]
    Short,
    /// All of it, as commands take it.
    Whole,
}

impl KeyForm {
    /// A key in this form.
    pub(super) fn key(self, key: &Value) -> String {
        match self {
            KeyForm::Short => short(key) + "…",
            KeyForm::Whole => text(key),
        }
    }

    /// How people tell a member: by its key, and the address of its node.
    pub(super) fn named(self, row: &Value) -> String {
        let key = self.key(&row["owner"]);
        match row["address"].as_str() {
            Some(address) => format!("{key} at {}", escape::value(address)),
            None => key,
        }
    }
}

/// A number of things, with the word for one of them.
fn counted(number: &Value, one: &str) -> Option<String> {
    match text(number).as_str() {
        "0" => None,
        "1" => Some(format!("1 {one}")),
        many => Some(format!("{many} {one}s")),
    }
}

/// Whether a change of the members can be decided, as far as the node can tell. A node of an earlier version does not
/// tell it.
pub(super) fn decides(membership: &Value) -> bool {
    membership["decides"] != false
}

/// What each member that is away holds or has not acknowledged, and the command that frees it, from the status of a
/// space.
pub(super) fn stuck(space: &Value, keys: KeyForm) -> impl Iterator<Item = String> {
    rows(space, "stuck").flat_map(move |row| {
        let key = text(&row["owner"]);
        let mut members = rows(&space["membership"], "members");
        let member = members.find(|it| it["owner"] == row["owner"]);
        let silent = match row["silent_ms"].as_u64() {
            Some(ms) => format!("for {} s", ms / 1000),
            None => "since this node started".to_owned(),
        };
        let more = if row["more"] == true { " or more" } else { "" };
        let rights = counted(&row["rights"], "right");
        let rights = rights.zip(counted(&row["budgets"], "budget"));
        let rights = rights.map(|(rights, budgets)| format!("{rights} of {budgets}{more}"));
        let numbers = counted(&row["sequences"], "sequence");
        let numbers = numbers.map(|it| format!("all further numbers of {it}{more}"));
        // Earlier versions tell no limits, and nothing that is awaited.
        let later = |field: &str| Some(&row[field]).filter(|it| !it.is_null());
        let limits = later("limits").and_then(|it| counted(it, "limit"));
        let limits = limits.map(|it| format!("shares of {it} in each period"));
        let held: Vec<String> = rights.into_iter().chain(numbers).chain(limits).collect();
        let held = (!held.is_empty()).then(|| format!("{} are with", held.join(", and ")));
        let awaited = later("awaited").and_then(|it| counted(it, "right"));
        let awaited =
            awaited.map(|it| format!("{it}{more} can't be spent before the acknowledgement of"));
        let named = keys.named(member.unwrap_or(row));
        let cure = match decides(&space["membership"]) {
            true => format!("if it is gone for good, `tallymesh members remove {key}` frees them"),
            false => "no removal can be decided now, and `tallymesh doctor` says what is missing"
                .to_owned(),
        };
        let told = held.into_iter().chain(awaited).map(move |what| {
            format!("{what} member {named}, of which nothing was heard {silent}: {cure}")
        });
        told.collect::<Vec<_>>()
    })
}

/// A line about the members, from the status of a space.
pub(super) fn summary(membership: &Value) -> Option<String> {
    let configuration = &membership["configuration"];
    if configuration.is_null() {
        return None;
    }
    Some(format!(
        "         configuration {} of era {}: {} members{}, {} attached here, {} waiting to be \
         taken over",
        text(&configuration["number"]),
        text(&configuration["era"]),
        rows(membership, "members").count(),
        match membership["member"] == true {
            true => " with this node",
            false => " without this node",
        },
        count(membership, "attached"),
        count(membership, "waiting"),
    ))
}
