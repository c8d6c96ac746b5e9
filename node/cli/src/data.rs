//! `tallymesh check`, `backup` and `restore`: commands on a data folder, without a node.

use super::failure::Failure;
use super::output::Output;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tallymesh_core::{Space, WriterId};
use tallymesh_node_config::{ConfigError, default_data};
use tallymesh_node_engine::access::Ledger;
use tallymesh_node_engine::driver::replay::{self, Replay};
use tallymesh_node_ground::escape;
use tallymesh_node_store as store;
use tallymesh_node_store::{Progress, RecordInfo, Report, StoreError};

/// The arguments of `tallymesh check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    #[command(flatten)]
    data: Data,
}

/// The arguments of `tallymesh backup`.
#[derive(Args, Debug)]
pub struct BackupArgs {
    /// The folder to make, or an empty one
    to: PathBuf,

    #[command(flatten)]
    data: Data,
}

/// The arguments of `tallymesh restore`.
#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// The backup
    from: PathBuf,

    #[command(flatten)]
    data: Data,
}

/// Which data folder.
#[derive(Args, Debug)]
pub(super) struct Data {
    /// The data folder [default: that of `tallymesh up`]
    #[arg(long, value_name = "DIR", env = "TALLYMESH_DATA")]
    data: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Data {
    pub(super) fn output(&self) -> Output {
        Output::new(self.json)
    }

    /// The given folder.
    pub(super) fn named(&self) -> Option<&Path> {
        self.data.as_deref()
    }

    pub(super) fn folder(self) -> Result<PathBuf, Failure> {
        let wrong = |error: ConfigError| Failure::Usage {
            problem: error.to_string(),
        };
        self.data.map_or_else(|| default_data().map_err(wrong), Ok)
    }
}

impl CheckArgs {
    pub(super) fn output(&self) -> Output {
        self.data.output()
    }
}

impl BackupArgs {
    pub(super) fn output(&self) -> Output {
        self.data.output()
    }
}

impl RestoreArgs {
    pub(super) fn output(&self) -> Output {
        self.data.output()
    }
}

pub(super) fn check(output: &mut Output, args: CheckArgs) -> Result<(), Failure> {
    let folder = args.data.folder()?;
    let mut bar = Bar::new("reading");
    let mut start = Start::default();
    let report = store::check(
        &folder,
        &mut |space, kept, bytes| start.take(space, kept, bytes),
        &mut |progress| bar.tell(progress),
    );
    drop(bar);
    let report = report.map_err(failed)?;
    start.files(&folder)?;
    let counters = start.counters();
    tell(output, "checked", &folder, &report, Some(&counters))
}

pub(super) fn backup(output: &mut Output, args: BackupArgs) -> Result<(), Failure> {
    let folder = args.data.folder()?;
    copy(output, "copied to", &folder, &args.to)
}

pub(super) fn restore(output: &mut Output, args: RestoreArgs) -> Result<(), Failure> {
    let folder = args.data.folder()?;
    copy(output, "restored", &args.from, &folder)
}

/// Copies a data folder with which a node would start, and refuses any other.
fn copy(output: &mut Output, done: &str, from: &Path, to: &Path) -> Result<(), Failure> {
    let mut bar = Bar::new("copying");
    let mut start = Start::default();
    start.files(from)?;
    let report = store::backup(
        from,
        to,
        &mut |space, kept, bytes| start.take(space, kept, bytes),
        &mut |progress| bar.tell(progress),
    );
    drop(bar);
    tell(output, done, to, &report.map_err(failed)?, None)
}

/// Reads a data folder as the start of a node does: it builds each space from its records.
#[derive(Default)]
struct Start(BTreeMap<Space, Replay>);

impl Start {
    /// Takes the next record of a space.
    fn take(&mut self, space: &Space, kept: RecordInfo, bytes: &[u8]) -> Result<(), StoreError> {
        let replay = self.0.entry(space.clone()).or_insert_with(|| {
            let writer = WriterId::mint(space, &[0; 32], &[0; 16]);
            Replay::new(space.clone(), writer)
        });
        replay.take(kept.kind, bytes)
    }

    /// Reads the files next to the log.
    fn files(&self, folder: &Path) -> Result<(), Failure> {
        replay::check_files(folder).map_err(failed)?;
        Ledger::open(Some(folder))
            .map(drop)
            .map_err(|error| Failure::Local {
                code: error.code(),
                problem: error.to_string(),
            })
    }

    /// The number of counters of each space.
    fn counters(self) -> BTreeMap<Space, usize> {
        let replays = self.0.into_iter();
        replays
            .map(|(space, replay)| (space, replay.end().len()))
            .collect()
    }
}

/// Prints the contents of a folder.
fn tell(
    output: &mut Output,
    done: &str,
    folder: &Path,
    report: &Report,
    counters: Option<&BTreeMap<Space, usize>>,
) -> Result<(), Failure> {
    let (first, last) = report.commits;
    let spaces = report.spaces.iter().map(|space| {
        let counters = counters.map(|all| all.get(&space.space).copied().unwrap_or(0));
        json!({
            "space": space.space.as_str(),
            "counters": counters,
            "records": space.records,
            "bytes": space.bytes,
            "needed_bytes": space.needed_bytes,
        })
    });
    let torn = report
        .torn
        .as_ref()
        .map(|torn| json!({ "file": torn.file, "offset": torn.offset, "bytes": torn.bytes }));
    let value = json!({
        "folder": folder.display().to_string(),
        "commits": { "first": first, "last": last },
        "segments": report.segments,
        "segment_bytes": report.segment_bytes,
        "identity": report.has_identity,
        "spaces": spaces.collect::<Vec<_>>(),
        "torn": torn,
    });
    output.line(&value, || {
        let shown = folder.display().to_string();
        let mut lines = vec![format!("{done} {}", escape::value(&shown))];
        lines.push(format!(
            "log      commits {first} to {last} in {} segments, {} bytes",
            report.segments, report.segment_bytes
        ));
        for space in &report.spaces {
            let counters = counters.and_then(|all| all.get(&space.space));
            let counters = counters.map_or(String::new(), |count| format!("{count} counters, "));
            lines.push(format!(
                "space    {}: {counters}{} records, {} bytes, of which a start reads {}",
                space.space, space.records, space.bytes, space.needed_bytes
            ));
        }
        if let Some(torn) = &report.torn {
            lines.push(format!(
                "torn     {} bytes at {} of {}: a commit that was under way, and that nobody was \
                 told of",
                torn.bytes, torn.offset, torn.file
            ));
        }
        if !report.has_identity {
            lines.push("identity missing: a node that starts here takes a new key".into());
        }
        lines.join("\n")
    })
}

fn failed(error: StoreError) -> Failure {
    Failure::Local {
        code: error.code(),
        problem: error.to_string(),
    }
}

/// A progress bar on a terminal, which is removed at the end.
struct Bar(ProgressBar);

impl Bar {
    fn new(doing: &'static str) -> Bar {
        let bar = ProgressBar::new(0).with_message(doing);
        let style = ProgressStyle::with_template("{msg} {bar:40} {bytes}/{total_bytes}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Bar(bar)
    }

    fn tell(&mut self, progress: Progress) {
        self.0.set_length(progress.total);
        self.0.set_position(progress.done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
