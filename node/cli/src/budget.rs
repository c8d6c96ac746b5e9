//! `tallymesh budget`: amounts that every member can spend, and whose value never goes below its
//! floor.

use super::asking::{BudgetWriteArgs, LevelArgs};
use super::audit;
use super::client::Client;
use super::doctor;
use super::failure::Failure;
use super::output::{Output, text};
use super::rows::{self, NamesArgs};
use super::time;
use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Value, json};
use std::time::Duration;
use tallymesh_core::LeaseId;
use tallymesh_node_ground::api::{self, AMOUNT_MAX, Call, PAGE_MAX};
use tallymesh_node_ground::escape;

/// The text below the help of the command.
const EXAMPLES: &str = "\
A node spends at once what it holds. What it lacks it asks other members for: \
wait for that with --rights-wait, or try again. `show` tells who holds what. Budgets need a space \
with members.

Examples:
  tallymesh budget mint gift 100
  tallymesh budget spend gift 5 --once 7c1b6d0e
  tallymesh budget spend gift 50 --rights-wait 5s
  tallymesh budget transfer shop cashback 3
  tallymesh budget lease gift 20 --for 1h
  tallymesh budget spend gift 3 --lease ID --once 2d60e8b1
  tallymesh budget grant gift 40 MEMBER";

/// The arguments of `tallymesh budget`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct BudgetArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Pay into a budget, which makes it if it is not there; prints its value
    Mint(AmountArgs),
    /// Spend of a budget what this node holds of it; prints its value
    Spend(SpendArgs),
    /// Lease rights that this node holds to somebody who may spend them without asking; prints the lease's
    /// id
    Lease(LeaseArgs),
    /// Take back what is left of a lease, whose holder has told all that it spent; prints the value
    EndLease(EndLeaseArgs),
    /// Give back what was spent, which is the same as to mint it; prints the value
    GiveBack(AmountArgs),
    /// Move rights that this node holds to another member; prints how many are left here
    Grant(GrantArgs),
    /// Let the value go lower, or less low; prints the floor
    Floor(LimitArgs),
    /// Let the value go higher, or less high; raising makes a budget with a cap. Prints the cap
    Cap(LimitArgs),
    /// Spend of one budget and pay that into others, all at once; prints their values
    Transfer(TransferArgs),
    /// Print a budget, and who holds what of it
    Show(ShowArgs),
    /// Print all budgets, or those whose names begin with a prefix
    List(NamesArgs),
    /// Check that what all hold adds up, print who holds what and the sum over the budgets, and compare
    /// with the nodes that are connected
    Audit(AuditArgs),
}

#[derive(Args, Debug)]
struct AmountArgs {
    /// The budget
    #[arg(value_name = "KEY")]
    key: String,

    /// How much, from 0 on
    #[arg(value_name = "AMOUNT", value_parser = amount())]
    amount: u64,

    #[command(flatten)]
    asking: BudgetWriteArgs,
}

#[derive(Args, Debug)]
struct SpendArgs {
    #[command(flatten)]
    amount: AmountArgs,

    /// Of which lease: what is not left of it here is spent of the rights that this node holds
    #[arg(long, value_name = "ID")]
    lease: Option<String>,
}

#[derive(Args, Debug)]
struct LeaseArgs {
    /// The budget
    #[arg(value_name = "KEY")]
    key: String,

    /// How much, from 0 on
    #[arg(value_name = "AMOUNT", value_parser = amount())]
    amount: u64,

    /// How long its holder may spend of it, from 1s to 30days
    #[arg(long = "for", value_name = "DURATION", value_parser = time::duration)]
    lasts: Duration,

    /// Its id, 32 hex digits, by which it is given once [default: drawn at random]
    #[arg(long, value_name = "ID")]
    id: Option<String>,

    #[command(flatten)]
    asking: BudgetWriteArgs,
}

#[derive(Args, Debug)]
struct EndLeaseArgs {
    /// The budget
    #[arg(value_name = "KEY")]
    key: String,

    /// The lease's id
    #[arg(value_name = "ID")]
    id: String,

    #[command(flatten)]
    asking: BudgetWriteArgs,
}

#[derive(Args, Debug)]
struct GrantArgs {
    /// The budget
    #[arg(value_name = "KEY")]
    key: String,

    /// How much, from 0 on
    #[arg(value_name = "AMOUNT", value_parser = amount())]
    amount: u64,

    /// To whom: a member's key or its present writer, as `tallymesh members` prints them
    #[arg(value_name = "MEMBER")]
    to: String,

    /// Move room under the cap instead, which is what can be minted
    #[arg(long)]
    room: bool,

    #[command(flatten)]
    asking: BudgetWriteArgs,
}

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("how").required(true).args(["raise", "lower"])))]
struct LimitArgs {
    /// The budget
    #[arg(value_name = "KEY")]
    key: String,

    /// By how much it is to be higher
    #[arg(long, value_name = "AMOUNT", value_parser = amount())]
    raise: Option<u64>,

    /// By how much it is to be lower
    #[arg(long, value_name = "AMOUNT", value_parser = amount())]
    lower: Option<u64>,

    #[command(flatten)]
    asking: BudgetWriteArgs,
}

#[derive(Args, Debug)]
#[command(
    override_usage = "tallymesh budget transfer [OPTIONS] <FROM> <TO> <AMOUNT> [<TO> <AMOUNT>]..."
)]
struct TransferArgs {
    /// The budget to spend from
    #[arg(value_name = "FROM")]
    from: String,

    /// The budgets to pay into, each followed by how much it gets
    #[arg(value_name = "TO AMOUNT", required = true, num_args = 2..)]
    to: Vec<String>,

    #[command(flatten)]
    asking: BudgetWriteArgs,
}

#[derive(Args, Debug)]
struct ShowArgs {
    /// The budget
    #[arg(value_name = "KEY")]
    key: String,

    #[command(flatten)]
    level: LevelArgs,
}

#[derive(Args, Debug)]
struct AuditArgs {
    /// Only names that begin so
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,
}

/// Reads an amount of a budget or a limit.
pub(super) fn amount() -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(..=AMOUNT_MAX)
}

pub(super) fn run(
    client: &Client,
    space: &str,
    output: &mut Output,
    args: BudgetArgs,
) -> Result<(), Failure> {
    let one = |call: &Call, args: &AmountArgs| json!({ "op": call.op, "key": args.key, "amount": args.amount.to_string() });
    match args.action {
        Action::Mint(args) | Action::GiveBack(args) => {
            let operation = one(&api::MINT, &args);
            make(client, output, &args.asking, &operation, "value")
        }
        Action::Spend(args) => {
            let mut operation = one(&api::SPEND, &args.amount);
            if let Some(lease) = &args.lease {
                operation["lease"] = json!(lease);
            }
            make(client, output, &args.amount.asking, &operation, "value")
        }
        Action::Lease(args) => lease(client, output, &args),
        Action::EndLease(args) => {
            let operation = json!({ "op": api::END_LEASE.op, "key": args.key, "id": args.id });
            make(client, output, &args.asking, &operation, "value")
        }
        Action::Grant(args) => grant(client, output, &args),
        Action::Floor(args) => {
            let calls = (&api::RAISE_FLOOR, &api::LOWER_FLOOR);
            limit(client, output, calls, "floor", &args)
        }
        Action::Cap(args) => {
            let calls = (&api::RAISE_CAP, &api::LOWER_CAP);
            limit(client, output, calls, "cap", &args)
        }
        Action::Transfer(args) => transfer(client, output, &args),
        Action::Show(args) => {
            let (key, level) = (&args.key, &args.level);
            rows::show(client, output, &api::READ_BUDGET, key, level, describe)
        }
        Action::List(args) => {
            let call = (&api::LIST_BUDGETS, PAGE_MAX);
            rows::list(client, output, call, (&args.prefix, &args.level), "value")
        }
        Action::Audit(args) => self::audit(client, space, output, &args.prefix),
    }
}

/// Makes one operation, and prints a field of the resulting budget.
fn make(
    client: &Client,
    output: &mut Output,
    asking: &BudgetWriteArgs,
    operation: &Value,
    field: &str,
) -> Result<(), Failure> {
    let result = made(client, asking, operation)?;
    let budget = &result["budget"];
    output.line(budget, || text(&budget[field]))
}

fn made(client: &Client, asking: &BudgetWriteArgs, operation: &Value) -> Result<Value, Failure> {
    let client = client.asking(asking.headers());
    let answer = client.call(&api::TRANSACT, &[], Some(&json!({ "ops": [operation] })));
    // There is only one operation, so its index is of no use.
    let answer = answer.map_err(Failure::without_op)?;
    Ok(answer["results"][0].clone())
}

fn lease(client: &Client, output: &mut Output, args: &LeaseArgs) -> Result<(), Failure> {
    let id = match &args.id {
        Some(id) => id.clone(),
        None => {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes).map_err(|error| Failure::Local {
                code: "random",
                problem: format!("no random bytes can be drawn: {error}; give an id with --id"),
            })?;
            LeaseId::from_bytes(bytes).to_string()
        }
    };
    let lease_ms = time::millis(args.lasts).to_string();
    let operation = json!({
        "op": api::LEASE.op, "key": args.key, "id": id, "amount": args.amount.to_string(), "lease_ms": lease_ms,
    });
    let result = made(client, &args.asking, &operation)?;
    output.line(&result["lease"], || id)
}

fn grant(client: &Client, output: &mut Output, args: &GrantArgs) -> Result<(), Failure> {
    let (call, held) = match args.room {
        true => (&api::GRANT_ROOM, "room"),
        false => (&api::GRANT, "rights"),
    };
    let amount = args.amount.to_string();
    let operation = json!({ "op": call.op, "key": args.key, "to": args.to, "amount": amount });
    let result = made(client, &args.asking, &operation)?;
    let budget = &result["budget"];
    output.line(budget, || text(&budget[held]["here"]))
}

fn limit(
    client: &Client,
    output: &mut Output,
    (raise, lower): (&Call, &Call),
    what: &str,
    args: &LimitArgs,
) -> Result<(), Failure> {
    let (call, amount) = match (args.raise, args.lower) {
        (Some(amount), _) => (raise, amount),
        (None, amount) => (lower, amount.unwrap_or(0)), // The command line asks for one of them.
    };
    let operation = json!({ "op": call.op, "key": args.key, "amount": amount.to_string() });
    make(client, output, &args.asking, &operation, what)
}

fn transfer(client: &Client, output: &mut Output, args: &TransferArgs) -> Result<(), Failure> {
    let operation =
        transfer_op(&args.from, &args.to).map_err(|problem| Failure::Usage { problem })?;
    let result = made(client, &args.asking, &operation)?;
    if output.is_json() {
        return output.line(&result, String::new);
    }
    let to = result["to"].as_array().into_iter().flatten();
    for budget in std::iter::once(&result["budget"]).chain(to) {
        output.line(&Value::Null, || {
            format!("{}\t{}", text(&budget["key"]), text(&budget["value"]))
        })?;
    }
    Ok(())
}

/// A transfer in the node's form, from pairs of a budget and an amount.
pub(super) fn transfer_op(from: &str, pairs: &[impl AsRef<str>]) -> Result<Value, String> {
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err("a transfer names budgets to pay into, each followed by an amount".into());
    }
    let shares = pairs.chunks(2).map(|pair| {
        let amount = quantity(pair[1].as_ref())?;
        Ok(json!({ "key": pair[0].as_ref(), "amount": amount }))
    });
    let shares: Result<Vec<Value>, String> = shares.collect();
    Ok(json!({ "op": api::TRANSFER.op, "key": from, "to": shares? }))
}

/// An amount of a budget in the node's form.
pub(super) fn quantity(text: &str) -> Result<String, String> {
    let parsed: Option<u64> = text.parse().ok();
    match parsed.filter(|it| *it <= AMOUNT_MAX) {
        Some(amount) => Ok(amount.to_string()),
        None => Err(format!(
            "`{text}` is no whole number from 0 to {AMOUNT_MAX}"
        )),
    }
}

/// A budget, for people.
fn describe(budget: &Value) -> String {
    let mut lines = vec![format!(
        "{}\tvalue {}",
        text(&budget["key"]),
        text(&budget["value"])
    )];
    lines[0].push_str(&format!("\tfloor {}", text(&budget["floor"])));
    if budget["cap"].is_string() {
        lines[0].push_str(&format!("\tcap {}", text(&budget["cap"])));
    }
    for name in ["rights", "room"] {
        let of = &budget[name];
        if of.is_object() {
            let [here, pending, elsewhere] =
                ["here", "pending", "elsewhere"].map(|field| text(&of[field]));
            lines.push(format!(
                "{name}: {here} here, {pending} pending, {elsewhere} elsewhere"
            ));
        }
    }
    if budget["leased"].is_string() {
        lines.push(format!("leased: {}", text(&budget["leased"])));
    }
    for holder in budget["holders"].as_array().into_iter().flatten() {
        lines.push(describe_holder(holder));
    }
    for lease in budget["leases"].as_array().into_iter().flatten() {
        let until = lease["until"].as_str().and_then(|it| it.parse().ok());
        lines.push(format!(
            "  lease {}\tleft {}\tback at {}",
            text(&lease["id"]),
            text(&lease["left"]),
            time::shown(until.unwrap_or(0)),
        ));
    }
    lines.join("\n")
}

fn describe_holder(holder: &Value) -> String {
    let mut line = format!(
        "  {}\trights {}",
        text(&holder["writer"]),
        text(&holder["rights"])
    );
    if holder["leased"].is_string() {
        line.push_str(&format!("\tleased {}", text(&holder["leased"])));
    }
    if holder["room"].is_string() {
        line.push_str(&format!("\troom {}", text(&holder["room"])));
    }
    match (holder["own"] == true, holder["owner"].as_str()) {
        (true, _) => line.push_str("\tthis node"),
        (false, Some(owner)) => line.push_str(&format!("\tmember {}", escape::value(owner))),
        (false, None) => {}
    }
    line
}

/// The sums over all budgets.
#[derive(Default)]
struct Sums {
    budgets: usize,
    value: i128,
    rights: i128,
    wrong: usize,
}

/// The error of a budget, if it has one. The rights of all members have to add up, and no member
/// may have fewer than 0.
fn wrong(budget: &Value) -> Option<String> {
    let number = |value: &Value| -> i128 {
        let number = value.as_str().and_then(|text| text.parse().ok());
        number.unwrap_or(i128::MIN / 4)
    };
    // The answer contains leased rights only if there are some.
    let number = |value: &Value| match value.is_null() {
        true => 0,
        false => number(value),
    };
    let holders = || budget["holders"].as_array().into_iter().flatten();
    let held = |field: &str| -> i128 { holders().map(|it| number(&it[field])).sum() };
    let (value, floor) = (number(&budget["value"]), number(&budget["floor"]));
    let rights = held("rights") + held("leased");
    if rights != value - floor {
        let due = value - floor;
        return Some(format!(
            "{rights} rights are held, and the value less the floor is {due}"
        ));
    }
    if budget["cap"].is_string() {
        let (room, due) = (held("room"), number(&budget["cap"]) - value);
        if room != due {
            return Some(format!(
                "room for {room} is held, and the cap less the value is {due}"
            ));
        }
    }
    let short = |it: &&Value| {
        ["rights", "leased", "room"]
            .iter()
            .any(|field| it[*field].is_string() && number(&it[*field]) < 0)
    };
    let short = holders().find(short)?;
    Some(format!(
        "{} holds less than nothing",
        text(&short["writer"])
    ))
}

fn audit(client: &Client, space: &str, output: &mut Output, prefix: &str) -> Result<(), Failure> {
    let mut sums = Sums::default();
    let pages = rows::each(client, &api::LIST_BUDGETS, PAGE_MAX, prefix, |budget| {
        let wrong = wrong(budget);
        sums.budgets += 1;
        sums.wrong += usize::from(wrong.is_some());
        let number = |value: &Value| value.as_str().and_then(|text| text.parse::<i128>().ok());
        let value = number(&budget["value"]).unwrap_or(0);
        sums.value += value;
        sums.rights += value - number(&budget["floor"]).unwrap_or(0);
        let mut line = budget.clone();
        line["wrong"] = json!(wrong);
        output.line(&line, || match &wrong {
            None => describe(budget),
            Some(why) => format!("{}\nWRONG: {why}", describe(budget)),
        })
    })?;
    if pages > 1 {
        output.remark("the budgets are of several moments, and so are their sums")?;
    }
    let (value, rights) = (sums.value.to_string(), sums.rights.to_string());
    let (copied, copies) = copies(client, space);
    let line = json!({
        "budgets": sums.budgets, "value": value, "rights": rights, "wrong": sums.wrong, "copied": copied,
        "copies": copies,
    });
    output.line(&line, || {
        format!(
            "{} budgets: the values add up to {value}, the rights to {rights}, {} do not add up",
            sums.budgets, sums.wrong
        )
    })?;
    if copied {
        output.remark(
            "this node runs on a copy of another node's data folder, and spends nothing; see `tallymesh doctor`",
        )?;
    }
    for row in &copies {
        let copy = doctor::copy_named(row);
        output.remark(&format!(
            "{copy}; it spends nothing, see `tallymesh doctor`"
        ))?;
    }
    if sums.wrong > 0 {
        return Err(Failure::Local {
            code: "overdrawn",
            problem: format!(
                "{} budgets do not add up; nothing was changed. A process was copied while it ran, or a \
                 state was damaged: see `tallymesh doctor`, and the faults in the log of each node",
                sums.wrong
            ),
        });
    }
    audit::budgets(client, space, output, prefix)
}

/// Whether the node runs on a copy of a data folder, and the copies that it knows of. It tells that of all spaces
/// at once, so not everybody who may read budgets may see it.
fn copies(client: &Client, space: &str) -> (bool, Vec<Value>) {
    let status = client.get("/v1/status").unwrap_or_default();
    let mut spaces = status["spaces"].as_array().into_iter().flatten();
    let told = spaces.find(|it| it["space"] == space);
    let told = told.unwrap_or(&Value::Null);
    let copies = told["copies"].as_array().cloned().unwrap_or_default();
    (told["copied"] == true, copies)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(value: &str, holders: &[(&str, &str)]) -> Value {
        let holders: Vec<Value> = holders
            .iter()
            .map(|(writer, rights)| json!({ "writer": writer, "rights": rights, "own": false }))
            .collect();
        json!({ "key": "gift", "value": value, "floor": "-5", "holders": holders })
    }

    #[test]
    fn what_all_hold_has_to_add_up() {
        assert_eq!(wrong(&budget("10", &[("a", "9"), ("b", "6")])), None);
        assert_eq!(wrong(&budget("-5", &[])), None);
        for (value, holders) in [
            ("10", &[("a", "9"), ("b", "5")][..]),
            ("10", &[][..]),
            ("10", &[("a", "16"), ("b", "-1")][..]),
            ("10", &[("a", "?"), ("b", "6")][..]),
        ] {
            assert!(wrong(&budget(value, holders)).is_some(), "{holders:?}");
        }
        let mut leased = budget("10", &[("a", "9")]);
        leased["holders"][0]["leased"] = json!("6");
        assert_eq!(wrong(&leased), None);
        let mut capped = budget("10", &[("a", "15")]);
        capped["cap"] = json!("12");
        capped["holders"][0]["room"] = json!("2");
        assert_eq!(wrong(&capped), None);
        capped["holders"][0]["room"] = json!("3");
        assert!(wrong(&capped).is_some_and(|why| why.contains("room for 3")));
    }

    #[test]
    fn a_transfer_names_pairs() {
        let shares = ["b", "1", "c", "9223372036854775807"];
        let expected = json!({
            "op": "transfer", "key": "a",
            "to": [{ "key": "b", "amount": "1" }, { "key": "c", "amount": "9223372036854775807" }],
        });
        assert_eq!(transfer_op("a", &shares), Ok(expected));
        for wrong in [
            &["b"][..],
            &[],
            &["b", "-1"],
            &["b", "9223372036854775808"],
            &["b", "1", "c"],
        ] {
            assert!(transfer_op("a", wrong).is_err(), "{wrong:?}");
        }
    }
}
