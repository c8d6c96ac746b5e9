//! What a piece of work takes of the disk and of the processor.

use anyhow::{Context, Result};
use std::fs;
use std::ops::Sub;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What this process, and the device, have done so far.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    /// Seconds of processor time of this process, all threads.
    pub(super) cpu: f64,
    /// Bytes that were written to the device, by whomever: what the file system writes about the
    /// files is in it, and what others do too. Zero if the system does not tell.
    pub(super) device_bytes: f64,
}

/// Reads the meters; `folder` says which device counts.
pub(super) fn read(folder: &Path) -> Result<Reading> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Ok(Reading {
        cpu: time.tv_sec as f64 + time.tv_nsec as f64 / 1e9,
        device_bytes: device_bytes(folder)?,
    })
}

fn device_bytes(folder: &Path) -> Result<f64> {
    const SECTOR_BYTES: f64 = 512.0; // in this file, whatever the device's are
    const SECTORS_WRITTEN: usize = 6;
    let device = fs::metadata(folder)?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let Ok(text) = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")) else {
        return Ok(0.0); // Some file systems lie on no device of their own.
    };
    let sectors = text.split_whitespace().nth(SECTORS_WRITTEN);
    let sectors: f64 = sectors.context("no sectors in stat")?.parse()?;
    Ok(sectors * SECTOR_BYTES)
}

impl Sub for Reading {
    type Output = Reading;

    fn sub(self, before: Reading) -> Reading {
        Reading {
            cpu: self.cpu - before.cpu,
            device_bytes: self.device_bytes - before.device_bytes,
        }
    }
}
