//! The resources of the process and of its disk, read when the metrics are requested.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use tallymesh_node_ground::{logging, rate};
use tallymesh_node_store::{Health, Trouble};

/// The process, under the names that are usual for all programs.
#[derive(Debug)]
pub(super) struct Process {
    started: f64,
}

impl Process {
    /// This process, which has just started.
    pub(super) fn new() -> Process {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Process {
            started: since.map_or(0.0, |since| since.as_secs_f64()),
        }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        gauge(
            &mut encoder,
            "process_start_time_seconds",
            "When the node started, in seconds since 1970",
            Some(self.started),
        )?;
        gauge(
            &mut encoder,
            "process_resident_memory_bytes",
            "Memory that is resident",
            resident(),
        )?;
        gauge(
            &mut encoder,
            "process_open_fds",
            "File descriptors that are open",
            open_files(),
        )?;
        gauge(
            &mut encoder,
            "process_max_fds",
            "Most file descriptors that may be open",
            most_files(),
        )
    }
}

/// The log of this process.
#[derive(Debug)]
pub(super) struct Log;

impl Collector for Log {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let row = encoder.encode_descriptor(
            "log_lines_dropped",
            "Lines of the log that were dropped, as nobody read them or there was no room",
            None,
            MetricType::Counter,
        )?;
        ConstCounter::new(logging::dropped()).encode(row)?;
        let row = encoder.encode_descriptor(
            "log_lines_left_out",
            "Lines of the log that others caused, and that were left out as there were too many",
            None,
            MetricType::Counter,
        )?;
        ConstCounter::new(rate::left_out()).encode(row)
    }
}

/// Whether the store answers.
#[derive(Debug)]
pub(super) struct Store(pub(super) Health);

impl Collector for Store {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let trouble = self.0.trouble();
        let waited = match &trouble {
            Some(Trouble::Waits(waited)) => waited.as_secs_f64(),
            Some(Trouble::Lost(_)) | None => 0.0,
        };
        gauge(
            &mut encoder,
            "store_waits_seconds",
            "For how long the store has not answered, 0 while it does",
            Some(waited),
        )?;
        let lost = matches!(trouble, Some(Trouble::Lost(_)));
        gauge(
            &mut encoder,
            "store_lost",
            "1 if the data folder is no longer the one that was opened",
            Some(f64::from(u8::from(lost))),
        )
    }
}

/// The disk with the data folder.
#[derive(Debug)]
pub(super) struct Disk(pub(super) PathBuf, pub(super) Health);

impl Collector for Disk {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if self.1.trouble().is_some() {
            return Ok(()); // The disk might hang as well.
        }
        let used = fs::read_dir(&self.0).map(|entries| {
            let entries = entries.filter_map(|entry| entry.and_then(|it| it.metadata()).ok());
            entries
                .filter(|it| it.is_file())
                .map(|it| it.len())
                .sum::<u64>() as f64
        });
        gauge(
            &mut encoder,
            "data_bytes",
            "Bytes of the files in the data folder",
            used.ok(),
        )?;
        let room = room(&self.0);
        gauge(
            &mut encoder,
            "disk_free_bytes",
            "Free bytes of the disk with the data folder, as this user may fill them",
            room.map(|room| room.0),
        )?;
        gauge(
            &mut encoder,
            "disk_bytes",
            "Bytes of that disk",
            room.map(|room| room.1),
        )
    }
}

/// Writes a figure, if the system reports it.
fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: Option<f64>,
) -> fmt::Result {
    match value {
        Some(value) => {
            let row = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(row)
        }
        None => Ok(()),
    }
}

/// The number after a word in one of this process's files of `/proc`.
fn told(file: &str, word: &str) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/self/{file}")).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(word))?;
    rest.split_whitespace().next()?.parse().ok()
}

pub(super) fn resident() -> Option<f64> {
    told("status", "VmRSS:").map(|kib| kib * 1024.0)
}

fn open_files() -> Option<f64> {
    // The folder itself is open while it is read.
    let open = fs::read_dir("/proc/self/fd").ok()?.count();
    Some(open.saturating_sub(1) as f64)
}

fn most_files() -> Option<f64> {
    told("limits", "Max open files")
}

/// The free bytes and all bytes of the disk with this folder.
#[cfg(unix)]
fn room(folder: &std::path::Path) -> Option<(f64, f64)> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    let bytes = |blocks: u64| blocks as f64 * disk.f_frsize as f64;
    Some((bytes(disk.f_bavail), bytes(disk.f_blocks)))
}

#[cfg(not(unix))]
fn room(_: &std::path::Path) -> Option<(f64, f64)> {
    None
}
