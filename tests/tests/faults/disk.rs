//! A disk of a node's own, which can be full and can be lost.
//!
//! If this process may mount, the disk is a small one in memory. A file that fills the rest makes it full, as
//! any disk. Otherwise the node is limited to a few bytes in any file (RLIMIT_FSIZE).

use crate::node::told;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command as Blocking;
use tokio::process::Command;

/// The size of a disk.
const DISK_MIB: usize = 128;
/// The file that fills the rest of the disk.
const FILLER: &str = "filler";

pub(crate) struct Disk {
    /// The path of the disk, with the data folder on it.
    place: PathBuf,
    data: PathBuf,
    mounted: bool,
}

impl Disk {
    /// Makes the disk for a data folder that does not exist yet.
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

    /// Describes the kind of disk.
    pub(crate) fn kind(&self) -> &'static str {
        match self.mounted {
            true => "each data folder on a tmpfs of its own, filled up",
            false => "RLIMIT_FSIZE of the node's process",
        }
    }

    /// The command that runs a program on this disk. If a limit makes the disk full, the signal of this limit
    /// is ignored. Then the program gets an error, as with a full disk.
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

    /// Makes the disk of a process full, or gives it room again.
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

    /// Loses everything on it.
    pub(crate) fn lose(&self) -> Result<(), String> {
        fs::remove_dir_all(&self.data).map_err(told)?;
        fs::create_dir(&self.data).map_err(told)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            // Lazily, because its node may still be ending.
            let _ = Blocking::new("umount").arg("-l").arg(&self.place).output();
        }
    }
}
