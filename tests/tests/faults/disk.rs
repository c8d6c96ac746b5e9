//! A disk of a node's own, which can be full, can turn read-only, and can be lost.
//!
//! If this process may mount, the disk is a small file system (ext4) in memory. A file that fills the rest
//! makes it full, as any disk. If the kernel finds it damaged, it is read-only from then on, also for files
//! that are open. A test can tell the kernel so.
//!
//! Without such a device the disk is plain memory (tmpfs), and without any mount a folder. Then the node is
//! limited to a few bytes in any file (RLIMIT_FSIZE) where nothing else makes its writes fail.

use crate::node::told;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command as Blocking;
use tokio::process::Command;

/// The size of a disk, and of the memory that has the file of its file system.
const DISK_MIB: u64 = 128;
const MEMORY_MIB: u64 = DISK_MIB + 16;
/// The file that fills the rest of the disk.
const FILLER: &str = "filler";

/// How a disk is made.
enum Kind {
    /// A file system on a loop device of this name. The file of the device is in memory.
    Device(String),
    Memory,
    Folder,
}

pub(crate) struct Disk {
    /// The path of the disk, with the data folder on it.
    place: PathBuf,
    /// The path of the memory with the file of a device.
    memory: PathBuf,
    data: PathBuf,
    kind: Kind,
}

impl Disk {
    /// Makes the disk for a data folder that does not exist yet.
    pub(crate) fn make(data: &Path) -> Result<Disk, String> {
        let mut disk = Disk {
            place: data.with_file_name("disk"),
            memory: data.with_file_name("memory"),
            data: data.with_file_name("disk").join("data"),
            kind: Kind::Folder,
        };
        for folder in [&disk.place, &disk.memory] {
            fs::create_dir(folder).map_err(told)?;
        }
        if let Some(device) = disk.device() {
            disk.kind = Kind::Device(device);
        } else if mount_memory(&disk.place, DISK_MIB) {
            disk.kind = Kind::Memory;
        }
        fs::create_dir(&disk.data).map_err(told)?;
        std::os::unix::fs::symlink(&disk.data, data).map_err(told)?;
        Ok(disk)
    }

    /// Makes a device with a file system, and mounts it. `None` if this process can't, or if the kernel takes no
    /// word of a damage.
    fn device(&self) -> Option<String> {
        if !mount_memory(&self.memory, MEMORY_MIB) {
            return None;
        }
        let made = File::create(self.file()).and_then(|file| file.set_len(DISK_MIB << 20));
        let made = made.is_ok()
            && is_done(
                Blocking::new("mkfs.ext4")
                    .args(["-q", "-F", "-m", "0"])
                    .arg(self.file()),
            );
        let device = Some(()).filter(|()| made && self.mount());
        let device = device.and_then(|()| self.mounted_device());
        if device.as_ref().is_none_or(|it| !damage(it).exists()) {
            unmount(&self.place);
            unmount(&self.memory);
            return None;
        }
        device
    }

    fn file(&self) -> PathBuf {
        self.memory.join("file")
    }

    fn mount(&self) -> bool {
        is_done(
            Blocking::new("mount")
                .args(["-t", "ext4", "-o", "loop,errors=remount-ro"])
                .arg(self.file())
                .arg(&self.place),
        )
    }

    /// The name of the device that is mounted, such as `loop3`.
    fn mounted_device(&self) -> Option<String> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let place = self.place.to_str()?;
        let mut rows = mounts.lines().map(|row| row.split(' '));
        rows.find_map(|mut row| {
            let device = row.next()?;
            (row.next() == Some(place)).then(|| device.trim_start_matches("/dev/").to_owned())
        })
    }

    /// Describes how the disk is filled up.
    pub(crate) fn how_full(&self) -> &'static str {
        match self.kind {
            Kind::Device(_) => "each data folder on an ext4 of its own, filled up",
            Kind::Memory => "each data folder on a tmpfs of its own, filled up",
            Kind::Folder => "RLIMIT_FSIZE of the node's process",
        }
    }

    /// Describes how the disk turns read-only.
    pub(crate) fn how_read_only(&self) -> &'static str {
        match self.kind {
            Kind::Device(_) => "the kernel is told that the ext4 is damaged",
            Kind::Memory | Kind::Folder => "RLIMIT_FSIZE of the node's process",
        }
    }

    /// Whether the disk stays read-only for the next process too.
    pub(crate) fn stays_read_only(&self) -> bool {
        matches!(self.kind, Kind::Device(_))
    }

    /// The command that runs a program on this disk. If a limit makes its writes fail, the signal of this
    /// limit is ignored. Then the program gets an error, as with a full disk.
    pub(crate) fn command(&self, program: &Path) -> Command {
        if matches!(self.kind, Kind::Device(_)) {
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
        match (&self.kind, full) {
            (Kind::Folder, true) => limit(process).await,
            // The limit ended with the process.
            (Kind::Folder, false) => Ok(()),
            (_, true) => {
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
            (_, false) => fs::remove_file(filler).map_err(told),
        }
    }

    /// Makes the disk of a process read-only.
    pub(crate) async fn turn_read_only(&self, process: Option<u32>) -> Result<(), String> {
        match &self.kind {
            Kind::Device(device) => fs::write(damage(device), "a test").map_err(told),
            Kind::Memory | Kind::Folder => limit(process).await,
        }
    }

    /// Repairs a disk that is read-only. No process may use it.
    pub(crate) fn repair(&mut self) -> Result<(), String> {
        if !self.stays_read_only() {
            return Ok(());
        }
        let unmounted = Blocking::new("umount").arg(&self.place).output();
        let unmounted = unmounted.map_err(told)?;
        if !unmounted.status.success() {
            return Err(String::from_utf8_lossy(&unmounted.stderr).into_owned());
        }
        let checked = Blocking::new("e2fsck").arg("-fp").arg(self.file()).output();
        let checked = checked.map_err(told)?;
        // 1 is the code of errors that were corrected.
        if !matches!(checked.status.code(), Some(0 | 1)) || !self.mount() {
            return Err(format!("not repaired: {checked:?}"));
        }
        self.kind = Kind::Device(self.mounted_device().ok_or("it is not mounted")?);
        Ok(())
    }

    /// Copies the data folder on it, as an operator does.
    pub(crate) async fn copy(&self, to: &Path) -> Result<(), String> {
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(&self.data).arg(to);
        match copy.status().await.map_err(told)?.success() {
            true => Ok(()),
            false => Err(format!("{} is not copied", self.data.display())),
        }
    }

    /// Loses everything on it.
    pub(crate) fn lose(&self) -> Result<(), String> {
        fs::remove_dir_all(&self.data).map_err(told)?;
        fs::create_dir(&self.data).map_err(told)
    }
}

/// The file by which the kernel is told that the file system of a device is damaged.
fn damage(device: &str) -> PathBuf {
    Path::new("/sys/fs/ext4")
        .join(device)
        .join("trigger_fs_error")
}

fn is_done(command: &mut Blocking) -> bool {
    command.output().is_ok_and(|done| done.status.success())
}

fn mount_memory(place: &Path, mib: u64) -> bool {
    let size = format!("size={mib}m");
    let mut mount = Blocking::new("mount");
    is_done(mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(place))
}

/// Unmounts lazily, because a node may still be ending.
fn unmount(place: &Path) {
    let _ = Blocking::new("umount").arg("-l").arg(place).output();
}

/// Lets a process write nothing beyond the first byte of a file.
async fn limit(process: Option<u32>) -> Result<(), String> {
    let process = process.ok_or("it does not run")?.to_string();
    let mut limit = Command::new("prlimit");
    limit.args(["--fsize=1:", "--pid", &process]);
    match limit.output().await.map_err(told)?.status.success() {
        true => Ok(()),
        false => Err("prlimit failed".to_owned()),
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if !matches!(self.kind, Kind::Folder) {
            unmount(&self.place);
        }
        if matches!(self.kind, Kind::Device(_)) {
            unmount(&self.memory);
        }
    }
}
