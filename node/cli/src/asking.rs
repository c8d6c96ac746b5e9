//! Options that many commands share: idempotency keys, and levels.

use super::time;
use clap::{Args, ValueEnum};
use std::time::Duration;
use tallymesh_node_ground::model::bounds::ONCE_KEY_BYTES_MAX;

/// How many members it takes.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    /// This node alone
    Local,
    /// A majority of the members
    Quorum,
    /// All members
    All,
}

/// The level of a command.
#[derive(Args, Debug)]
pub(super) struct LevelArgs {
    /// How many members hold what is written before this ends, or are asked what they hold before it
    /// is read; anything but `local` needs a space with members [default: local]
    #[arg(long, value_enum, value_name = "LEVEL")]
    level: Option<Level>,

    /// How long to wait for the level, at most 20s [default: 5s]
    #[arg(long, value_name = "DURATION", requires = "level", value_parser = time::duration)]
    wait: Option<Duration>,
}

/// What a command that writes asks for.
#[derive(Args, Debug)]
pub(super) struct WriteArgs {
    /// Count once under this key, such as a UUID, however often and at whichever member the same is
    /// asked for; in a space without members, at this node only. A retry shows the counters as they
    /// are by then
    #[arg(long, value_name = "KEY", value_parser = key)]
    pub(super) once: Option<String>,

    #[command(flatten)]
    level: LevelArgs,
}

/// What a command that writes to budgets asks for.
#[derive(Args, Debug)]
pub(super) struct BudgetWriteArgs {
    #[command(flatten)]
    write: WriteArgs,

    /// How long to wait until the node holds the rights that are spent, or the room that is taken, at
    /// most 20s [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = time::duration)]
    rights_wait: Option<Duration>,
}

/// Reads an idempotency key in the form that the node accepts.
fn key(text: &str) -> Result<String, String> {
    let seen = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    match seen && (1..=ONCE_KEY_BYTES_MAX).contains(&text.len()) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "a key has 1 to {ONCE_KEY_BYTES_MAX} bytes of ASCII that can be seen, such as a UUID"
        )),
    }
}

/// A header of a request, and its value.
pub(super) type Header = (&'static str, String);

impl LevelArgs {
    pub(super) fn headers(&self) -> Vec<Header> {
        let level = self.level.and_then(|it| it.to_possible_value());
        let level = level.map(|it| ("tallymesh-level", it.get_name().to_owned()));
        let wait = self.wait.map(time::millis);
        let wait = wait.map(|millis| ("tallymesh-wait-ms", millis.to_string()));
        level.into_iter().chain(wait).collect()
    }
}

impl WriteArgs {
    pub(super) fn headers(&self) -> Vec<Header> {
        let once = self.once.clone().map(|key| ("idempotency-key", key));
        once.into_iter().chain(self.level.headers()).collect()
    }
}

impl BudgetWriteArgs {
    pub(super) fn headers(&self) -> Vec<Header> {
        let rights = self.rights_wait.map(time::millis);
        let rights = rights.map(|millis| ("tallymesh-rights-wait-ms", millis.to_string()));
        self.write.headers().into_iter().chain(rights).collect()
    }
}
