//! Timing: rounds of all contestants in turn, so that a machine that drifts hurts all alike; and what
//! else all benchmarks count with.

use std::fs;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::time::Instant;

/// One contestant: does `count` operations and returns how long they took, in nanoseconds.
pub(crate) type Contestant<'a> = (&'a str, Box<dyn FnMut() -> (f64, u64) + 'a>);

/// Times one closure that does `count` operations.
pub(crate) fn timed<T>(count: u64, work: impl FnOnce() -> T) -> (f64, u64) {
    let begin = Instant::now();
    black_box(work());
    (begin.elapsed().as_nanos() as f64, count)
}

/// What was measured.
pub(crate) struct Report {
    rounds: usize,
    print: bool,
    figures: serde_json::Map<String, serde_json::Value>,
}

impl Report {
    pub(crate) fn new(rounds: usize, print: bool) -> Report {
        Report {
            rounds,
            print,
            figures: serde_json::Map::new(),
        }
    }

    pub(crate) fn json(&self) -> String {
        serde_json::Value::Object(self.figures.clone()).to_string()
    }

    /// Runs the contestants in turn and prints the median of each, in nanoseconds an operation.
    /// The first one is ours; `target` says what it is to be at most, in nanoseconds.
    pub(crate) fn race(&mut self, title: &str, target: &Target, contestants: Vec<Contestant<'_>>) {
        let mut contestants = contestants;
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); contestants.len()];
        for round in 0..=self.rounds {
            for ((_, work), times) in contestants.iter_mut().zip(&mut times) {
                let (ns, count) = work();
                // The first round warms up.
                if round > 0 {
                    times.push(ns / count as f64);
                }
            }
        }
        let rows: Vec<(&str, f64)> = contestants
            .iter()
            .zip(&mut times)
            .map(|((name, _), times)| (*name, median(times)))
            .collect();
        self.table(title, "ns", target, &rows);
    }

    /// Prints figures; the first one is ours.
    pub(crate) fn table(&mut self, title: &str, unit: &str, target: &Target, rows: &[(&str, f64)]) {
        let ours = rows[0].1;
        let limit = match target {
            Target::AtMost(limit) => Some(*limit),
            Target::Times(factor, of) => {
                let base = rows.iter().find(|row| row.0 == *of);
                base.map(|row| row.1 * factor)
            }
        };
        for (name, figure) in rows {
            self.figures
                .insert(format!("{title}: {name} [{unit}]"), (*figure).into());
        }
        if !self.print {
            return;
        }
        println!("\n{title} ({unit})");
        for (at, (name, figure)) in rows.iter().enumerate() {
            let note = match (at, limit) {
                (0, Some(limit)) if ours <= limit => format!("target {limit:.2}: met"),
                (0, Some(limit)) => format!("target {limit:.2}: MISSED"),
                (0, None) => String::new(),
                _ => format!("ours / this = {:.2}", ours / figure),
            };
            println!("  {name:<44} {figure:>10.2}   {note}");
        }
    }
}

/// What our figure is judged by.
pub(crate) enum Target {
    AtMost(f64),
    Times(f64, &'static str),
}

/// The median; `times` are in order afterwards.
pub(crate) fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The median of one value of several figures.
pub(crate) fn median_of<T>(figures: &[T], of: impl Fn(&T) -> f64) -> f64 {
    median(&mut figures.iter().map(of).collect::<Vec<f64>>())
}

/// Seconds of processor time that a process took so far.
pub(crate) fn cpu_seconds(process: u32) -> io::Result<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in parentheses may have blanks.
    let rest = text.rsplit(')').next().unwrap_or_default();
    let fields = rest.split_whitespace().skip(11).take(2);
    let ticks: f64 = fields.flat_map(str::parse::<f64>).sum();
    Ok(ticks / 100.0)
}

/// Bytes of all files in a folder and below it.
pub(crate) fn bytes_under(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => bytes_under(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes)
}
