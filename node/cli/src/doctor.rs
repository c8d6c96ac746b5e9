//! `tallymesh doctor`: checks a running node, and reports the problems.
//!
//! The data of the node ([`Facts`]) is fetched apart from the [`checks`]. So tests can run every
//! check without a node in that state.

mod checks;
mod facts;
#[cfg(test)]
mod tests;

pub(super) use checks::copies::named as copy_named;

use super::client::Client;
use super::failure::Failure;
use super::members::KeyForm;
use super::output::Output;
use clap::Args;
use facts::Facts;
use serde_json::{Value, json};
use tallymesh_node_ground::escape;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    /// Nothing was found.
    Ok,
    /// Information only; no action is needed.
    Notice,
    /// It will be a problem without an action.
    Warning,
    /// It is a problem now.
    Problem,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Severity::Ok => "ok",
            Severity::Notice => "notice",
            Severity::Warning => "warning",
            Severity::Problem => "problem",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    severity: Severity,
    /// The space of the finding, if it belongs to one.
    space: Option<String>,
    /// The facts, with metrics.
    what: String,
    /// The advice.
    advice: &'static str,
}

/// The arguments of the command.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Print the whole keys of members, and not their first 8 digits. --json has them always
    #[arg(long)]
    keys: bool,
}

pub(super) fn run(client: &Client, output: &mut Output, args: DoctorArgs) -> Result<(), Failure> {
    let keys = match args.keys || output.is_json() {
        true => KeyForm::Whole,
        false => KeyForm::Short,
    };
    let facts = Facts::fetch(client, keys)?;
    let mut worst = (0, 0);
    for (code, finding) in checks::all(&facts) {
        match finding.severity {
            Severity::Ok | Severity::Notice => {}
            Severity::Warning => worst.0 += 1,
            Severity::Problem => worst.1 += 1,
        }
        output.line(&told(code, &finding), || line(code, &finding))?;
    }
    match worst {
        (0, 0) => Ok(()),
        (warnings, problems) => Err(Failure::Local {
            code: "findings",
            problem: format!(
                "{} and {} at this node",
                count(problems, "problem"),
                count(warnings, "warning")
            ),
        }),
    }
}

/// A number of things, of which `one` is the word for one.
fn count(number: u32, one: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {one}{plural}")
}

fn told(code: &str, finding: &Finding) -> Value {
    json!({
        "severity": finding.severity.word(),
        "code": code,
        "space": finding.space,
        "detail": finding.what,
        "advice": finding.advice,
    })
}

fn line(code: &str, finding: &Finding) -> String {
    let space = finding.space.as_ref();
    let space = space.map_or(String::new(), |space| {
        format!("space {}: ", escape::value(space))
    });
    let word = finding.severity.word();
    let what = escape::value(&finding.what);
    match finding.advice {
        "" => format!("{word:<8} {code:<16} {space}{what}"),
        advice => format!("{word:<8} {code:<16} {space}{what}\n{:<26}{advice}", ""),
    }
}
