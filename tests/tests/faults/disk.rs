//! A disk of a node's own, which can be full and can be lost.
//!
//! Where this process may mount, it is a small one in memory, and it is full as any disk is: a file takes
//! what is left. Else the node may write no further than a few bytes into any file (RLIMIT_FSIZE).

use crate::node::told;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command as Blocking;
use tokio::process::Command;

/// The size of a disk.
const DISK_MIB: usize = 128;
/// The file that takes what is left.
const FILLER: &str = "filler";

pub(crate) struct Disk {
    /// Where it is, and the data folder on it.
    place: PathBuf,
    data: PathBuf,
    mounted: bool,
}

impl Disk {
    /// Makes the disk for a data folder, which is not there yet.
    pub(crate) fn make(data: &Path) -> Result<Disk, String> {
        let place = data.with_file_name("disk");
        fs::create_dir(&place).map_err(told)?;
        let mounted = Blocking::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={DISK_MIB}m"), "tmpfs"])
            .arg(&place)
            .output()
            .is_ok_and(|done| done.status.success());
        let on_disk = place.join("data");
        fs::create_dir(&on_disk).map_err(told)?;
        std::os::unix::fs::symlink(&on_disk, data).map_err(told)?;
        Ok(Disk {
            place,
            data: on_disk,
            mounted,
        })
    }

    /// What it is, for people.
    pub(crate) fn kind(&self) -> &'static str {
        match self.mounted {
            true => "each data folder on a tmpfs of its own, filled up",
            false => "RLIMIT_FSIZE of the node's process",
        }
    }

    /// The command that runs a program on this disk. Where it is full by a limit, the signal that comes
    /// with that is ignored, so that the program hears of it as of a full disk.
    pub(crate) fn command(&self, program: &Path) -> Command {
        if self.mounted {
            return Command::new(program);
        }
        let mut command = Command::new("sh");
        command
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
            .arg(program);
        command
    }

    /// Lets the disk of a process take nothing any more, or again.
    pub(crate) async fn fill(&self, process: Option<u32>, full: bool) -> Result<(), String> {
        let filler = self.place.join(FILLER);
        match (self.mounted, full, process) {
            (true, true, _) => {
                let mut file = File::create(filler).map_err(told)?;
                let zeros = vec![0; 1 << 16];
                loop {
                    match file.write_all(&zeros) {
                        Ok(()) => {}
                        Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
                        Err(error) => return Err(told(error)),
                    }
                }
            }
            (true, false, _) => fs::remove_file(filler).map_err(told),
            (false, true, Some(process)) => {
                let limited = Command::new("prlimit")
                    .args(["--fsize=1:", "--pid", &process.to_string()])
                    .output();
                match limited.await.map_err(told)?.status.success() {
                    true => Ok(()),
                    false => Err("prlimit failed".to_owned()),
                }
            }
            // The limit ended with the process.
            (false, ..) => Ok(()),
        }
    }

    /// Loses all that is on it.
    pub(crate) fn lose(&self) -> Result<(), String> {
        fs::remove_dir_all(&self.data).map_err(told)?;
        fs::create_dir(&self.data).map_err(told)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            // Lazily, as its node may still be ending.
            let _ = Blocking::new("umount").arg("-l").arg(&self.place).output();
        }
    }
}
