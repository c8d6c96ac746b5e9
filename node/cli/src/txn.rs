//! `tallymesh txn`: several operations, all or none.

use super::asking::BudgetWriteArgs;
use super::budget::{quantity, transfer_op};
use super::client::Client;
use super::failure::Failure;
use super::output::{Output, text};
use super::time;
use clap::Args;
use serde_json::{Value, json};
use std::io::{self, Read};
use tallymesh_node_ground::api;

/// Most bytes that are read from standard input; the node has the same limit.
const INPUT_BYTES_MAX: u64 = tallymesh_node_ground::model::bounds::BULK_BYTES_MAX as u64;

/// The text below the help of the command.
const OPERATIONS: &str = r#"Operations on counters:
  add KEY [N]            reset KEY              expire KEY DURATION
  set KEY VALUE          del KEY                expire KEY --at TIME
                                                persist KEY
On budgets:
  mint KEY N             spend KEY N            transfer FROM TO N [TO N]...

Words are parted by blanks, or by tabs if there are any, for keys with blanks in them. Deleting,
expiring or persisting an absent counter does nothing and is no failure.

Examples:
  tallymesh txn "add from -5" "add to 5"
  tallymesh txn "spend gift 5" "add sold 1"
  printf 'del %s\n' a b c | tallymesh txn -"#;

/// The arguments of `tallymesh txn`.
#[derive(Args, Debug)]
#[command(after_help = OPERATIONS)]
pub struct TxnArgs {
    /// The operations, each as one argument; or `-` to read one a line from standard input
    #[arg(value_name = "OPERATION", required = true)]
    operations: Vec<String>,

    #[command(flatten)]
    asking: BudgetWriteArgs,
}

pub(super) fn run(client: &Client, output: &mut Output, args: TxnArgs) -> Result<(), Failure> {
    let client = client.asking(args.asking.headers());
    let operations = match args.operations.as_slice() {
        [only] if only == "-" => lines()?,
        _ => args.operations,
    };
    let mut ops = Vec::with_capacity(operations.len());
    // The place of each operation in the input, to name a refused one.
    let mut places = Vec::with_capacity(operations.len());
    for (place, operation) in operations.iter().enumerate() {
        if operation.trim().is_empty() {
            continue;
        }
        ops.push(parse(operation).map_err(|problem| Failure::Usage {
            problem: format!("operation {}, `{operation}`: {problem}", place + 1),
        })?);
        places.push(place);
    }
    let answer = client.call(&api::TRANSACT, &[], Some(&json!({ "ops": ops })));
    let answer = answer.map_err(|failure| named(failure, &places, &operations))?;
    for result in answer["results"].as_array().into_iter().flatten() {
        output.line(result, || {
            let of_budget = result["budget"].is_object();
            let shown = if of_budget { &result["budget"] } else { result };
            format!("{}\t{}", text(&result["key"]), text(&shown["value"]))
        })?;
    }
    Ok(())
}

fn lines() -> Result<Vec<String>, Failure> {
    let failed = |problem: String| Failure::Local {
        code: "input",
        problem: format!("can't read standard input: {problem}"),
    };
    let mut input = String::new();
    let read = io::stdin().lock().take(INPUT_BYTES_MAX + 1);
    let bytes = { read }.read_to_string(&mut input);
    if bytes.map_err(|error| failed(error.to_string()))? as u64 > INPUT_BYTES_MAX {
        let problem = format!("it is over the limit of {INPUT_BYTES_MAX} bytes");
        return Err(failed(problem));
    }
    Ok(input.lines().map(str::to_owned).collect())
}

/// Names the refused operation in the form in which it was typed.
fn named(failure: Failure, places: &[usize], operations: &[String]) -> Failure {
    match failure {
        Failure::Refused {
            code,
            detail,
            applied,
            line,
            op: Some(op),
            members,
        } if op < places.len() => {
            let place = places[op];
            Failure::Refused {
                code,
                detail: format!("operation {}, `{}`: {detail}", place + 1, operations[place]),
                applied,
                line,
                op: Some(place),
                members,
            }
        }
        other => other,
    }
}

/// One operation in the node's form.
fn parse(operation: &str) -> Result<Value, String> {
    let words: Vec<&str> = match operation.contains('\t') {
        true => operation.split('\t').map(str::trim).collect(),
        false => operation.split_whitespace().collect(),
    };
    let amount = |text: &str| {
        let parsed: Result<i64, _> = text.parse();
        parsed
            .map(|amount| amount.to_string())
            .map_err(|_| format!("`{text}` is no integer from {} to {}", i64::MIN, i64::MAX))
    };
    Ok(match words.as_slice() {
        ["add", key] => json!({ "op": "add", "key": key, "by": "1" }),
        ["add", key, by] => json!({ "op": "add", "key": key, "by": amount(by)? }),
        ["set", key, value] => json!({ "op": "set", "key": key, "value": amount(value)? }),
        ["reset", key] => json!({ "op": "reset", "key": key }),
        ["del" | "delete", key] => json!({ "op": "delete", "key": key }),
        ["expire", key, "--at", at] => {
            let at = time::unix_millis(time::at(at)?);
            json!({ "op": "expire", "key": key, "at": at.to_string() })
        }
        ["expire", key, duration @ ..] if !duration.is_empty() => {
            let millis = time::millis(time::duration(&duration.join(" "))?);
            json!({ "op": "expire", "key": key, "in_ms": millis.to_string() })
        }
        ["persist", key] => json!({ "op": "persist", "key": key }),
        [op @ ("mint" | "spend"), key, amount] => {
            json!({ "op": op, "key": key, "amount": quantity(amount)? })
        }
        ["transfer", from, to @ ..] => transfer_op(from, to)?,
        _ => {
            return Err(
                "it must be add KEY [N], set KEY VALUE, reset KEY, del KEY, expire KEY DURATION, \
                 expire KEY --at TIME, persist KEY, mint KEY N, spend KEY N or transfer FROM TO N"
                    .into(),
            );
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read_as_the_commands_are() {
        for (typed, expected) in [
            ("add a", json!({"op": "add", "key": "a", "by": "1"})),
            (" add  a -5 ", json!({"op": "add", "key": "a", "by": "-5"})),
            ("add\ta b\t7", json!({"op": "add", "key": "a b", "by": "7"})),
            ("set b 2", json!({"op": "set", "key": "b", "value": "2"})),
            ("reset c", json!({"op": "reset", "key": "c"})),
            ("del d", json!({"op": "delete", "key": "d"})),
            ("persist e", json!({"op": "persist", "key": "e"})),
            (
                "expire f 1m 30s",
                json!({"op": "expire", "key": "f", "in_ms": "90000"}),
            ),
            (
                "expire f --at 1970-01-01T00:00:01Z",
                json!({"op": "expire", "key": "f", "at": "1000"}),
            ),
            (
                "spend g 5",
                json!({"op": "spend", "key": "g", "amount": "5"}),
            ),
            (
                "transfer a b 5",
                json!({"op": "transfer", "key": "a", "to": [{"key": "b", "amount": "5"}]}),
            ),
        ] {
            assert_eq!(parse(typed), Ok(expected), "{typed}");
        }
        for wrong in [
            "incr a",
            "add",
            "add a b c",
            "add a x",
            "set a",
            "set a 9223372036854775808",
            "reset a b",
            "expire a",
            "expire a soon",
            "expire a --at never",
            "spend a -1",
            "mint a",
            "transfer a b",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
