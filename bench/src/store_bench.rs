//! The node's log beside stores that could have been used in its place: one durable commit for each
//! batch of records, and all of it read back.

mod meter;
mod peers;

use crate::measure::{bytes_under, median, median_of};
use crate::random::Random;
use crate::report::Sections;
use anyhow::{Result, bail};
use peers::{ALL, Open};
use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

/// The sections, in the order in which they run.
pub(crate) const SECTIONS: [&str; 2] = ["commits", "reading"];

/// Bytes of one record: a key, a clock and a total of a counter take about that.
const RECORD_BYTES: usize = 40;

/// Records of one batch, and how many batches are committed in a round.
const BATCHES: [(usize, usize); 3] = [(1, 2_000), (50, 2_000), (1_000, 1_000)];

/// What is read back: records in all, in batches of so many.
const READ_RECORDS: usize = 1_000_000;
const READ_BATCH: usize = 50;

/// Room for what a store may keep beside the batches themselves.
const ROOM_BYTES: u64 = 1 << 20;

/// Measures the sections that are named in `only`; `quick` does a tenth of the work.
pub(crate) fn run(rounds: usize, quick: bool, only: &[&str], sections: &Sections) -> Result<()> {
    let scale = if quick { 10 } else { 1 };
    for &section in only {
        let text = match section {
            "commits" => commits(rounds, scale)?,
            _ => reading(rounds, scale)?,
        };
        sections.put(section, &text)?;
    }
    Ok(())
}

/// What one store did in one round, for each commit.
struct Figure {
    rate: f64,
    /// Microseconds.
    median: f64,
    p99: f64,
    cpu: f64,
    device_bytes: f64,
}

fn commits(rounds: usize, scale: usize) -> Result<String> {
    let mut text = String::from(
        "Each batch is one value and one durable commit, in a fresh folder each round, the stores in \
         turn. Commits a second, CPU (of all threads) and KB have in them what a store does between \
         commits and behind them, such as the log's making of its next segment; the median and the \
         99 % are of the commits alone. KB to the device are all that it wrote meanwhile: also of \
         the file system, and of others that write there.\n\n\
         | records of 40 bytes | store | commits/s | ours / this | median, us | 99 %, us | us CPU | KB to the device |\n\
         |---:|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for (records, commits) in BATCHES {
        let commits = commits / scale;
        let mut figures: Vec<Vec<Figure>> = ALL.iter().map(|_| Vec::new()).collect();
        for _ in 0..rounds {
            for ((_, open), figures) in ALL.iter().zip(&mut figures) {
                figures.push(round(*open, records, commits)?);
            }
        }
        let rate = |figures: &[Figure]| median_of(figures, |it| it.rate);
        let ours = rate(&figures[0]);
        for ((name, _), figures) in ALL.iter().zip(&figures) {
            let line = format!(
                "| {records} | {name} | {:.0} | {:.2} | {:.0} | {:.0} | {:.0} | {:.1} |",
                rate(figures),
                ours / rate(figures),
                median_of(figures, |it| it.median),
                median_of(figures, |it| it.p99),
                median_of(figures, |it| it.cpu),
                median_of(figures, |it| it.device_bytes) / 1e3,
            );
            println!("{line}");
            // Writing to a string does not fail.
            let _ = writeln!(text, "{line}");
        }
    }
    Ok(text)
}

/// Commits batches to a store in a fresh folder.
fn round(open: Open, records: usize, commits: usize) -> Result<Figure> {
    let folder = folder()?;
    let warm_up = commits / 10;
    let batches = batches(records);
    let mut batches = batches.iter().cycle();
    let mut store = open(folder.path(), bytes_for(records, warm_up + commits))?;
    for batch in batches.by_ref().take(warm_up) {
        store.commit(batch)?;
        store.tidy()?;
    }
    // Or what another store left behind would be written now, on this one's account.
    rustix::fs::sync();
    let mut times = Vec::with_capacity(commits);
    let (before, begun) = (meter::read(folder.path())?, Instant::now());
    for batch in batches.take(commits) {
        let begun = Instant::now();
        store.commit(batch)?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
        store.tidy()?;
    }
    let took = begun.elapsed().as_secs_f64();
    let used = meter::read(folder.path())? - before;
    times.sort_by(f64::total_cmp);
    let count = commits as f64;
    Ok(Figure {
        rate: count / took,
        median: times[commits / 2],
        p99: times[commits * 99 / 100],
        cpu: used.cpu * 1e6 / count,
        device_bytes: used.device_bytes / count,
    })
}

fn reading(rounds: usize, scale: usize) -> Result<String> {
    let records = READ_RECORDS / scale;
    let count = records / READ_BATCH;
    let mut text = format!(
        "{records} records, written in {count} commits and closed in order: from opening until all was \
         read, in turn. The files are in the system's cache.\n\n\
         | store | files, MB | median, ms | slowest, ms |\n|---|---:|---:|---:|\n"
    );
    let bytes = bytes_for(READ_BATCH, count);
    let batches = batches(READ_BATCH);
    let mut folders = Vec::new();
    for (_, open) in ALL {
        let folder = folder()?;
        let mut store = open(folder.path(), bytes)?;
        for batch in batches.iter().cycle().take(count) {
            store.commit(batch)?;
            store.tidy()?;
        }
        folders.push(folder);
    }
    let mut times: Vec<Vec<f64>> = ALL.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (((name, open), folder), times) in ALL.iter().zip(&folders).zip(&mut times) {
            let (mut found, mut sum) = (0, 0);
            let begun = Instant::now();
            open(folder.path(), bytes)?.read(&mut |batch| {
                found += 1;
                sum += black_box(batch).len();
            })?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            if (found, sum) != (count, records * RECORD_BYTES) {
                bail!("{name} gave {found} batches of {sum} bytes back, of {count}");
            }
        }
    }
    for (((name, _), folder), times) in ALL.iter().zip(&folders).zip(&mut times) {
        let line = format!(
            "| {name} | {:.0} | {:.0} | {:.0} |",
            bytes_under(folder.path())? as f64 / 1e6,
            median(times),
            times.iter().copied().fold(0.0, f64::max),
        );
        println!("{line}");
        // Writing to a string does not fail.
        let _ = writeln!(text, "{line}");
    }
    Ok(text)
}

/// A folder on the disk that the checkout is on.
fn folder() -> Result<tempfile::TempDir> {
    Ok(tempfile::tempdir_in(std::env::current_dir()?)?)
}

/// Bytes that so many batches take at the most.
fn bytes_for(records: usize, batches: usize) -> u64 {
    ((records * RECORD_BYTES + 64) * batches) as u64 + ROOM_BYTES
}

/// Batches that are committed in turn, of random bytes, so that no store can make them smaller.
fn batches(records: usize) -> Vec<Vec<u8>> {
    let mut random = Random::new(1);
    let mut batch = || {
        let mut bytes = Vec::with_capacity(records * RECORD_BYTES);
        while bytes.len() < records * RECORD_BYTES {
            bytes.extend_from_slice(&random.next().to_le_bytes());
        }
        bytes
    };
    (0..8).map(|_| batch()).collect()
}
