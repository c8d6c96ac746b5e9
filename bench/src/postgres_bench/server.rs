//! A PostgreSQL of its own: a fresh cluster in a temporary folder, on a free port of loopback, with the
//! settings that it comes with.

use super::disk;
use crate::resp_bench::servers::free_port;
use anyhow::{Context, Result, bail};
use postgres::{Client, Config, NoTls};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Where Debian has the programs of a server, by its version.
const PROGRAMS: &str = "/usr/lib/postgresql";
/// The superuser of the cluster, and the database that it comes with.
const NAME: &str = "postgres";
/// More than any number of clients; 100 is what it comes with.
const CONNECTIONS: usize = 200;
/// The longest that it may take to start, and to end.
const START: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

/// A server that listens. Dropped, it is ended, and all is deleted.
pub(super) struct Postgres {
    child: Child,
    folder: tempfile::TempDir,
    port: u16,
}

impl Postgres {
    pub(super) fn start() -> Result<Postgres> {
        let programs = programs()?;
        let user = User::find()?;
        let folder = tempfile::tempdir_in(disk()?)?;
        if let Some(user) = &user {
            chown(folder.path(), Some(user.id), Some(user.group))?;
        }
        let data = folder.path().join("data");
        let run = |program: &str| {
            let mut command = as_user(user.as_ref(), &programs.join(program));
            command.current_dir(folder.path()).arg("-D").arg(&data);
            command
        };
        let mut made = run("initdb");
        made.args(["--username", NAME, "--auth", "trust", "--encoding", "UTF8"])
            .args(["--locale", "C", "--no-instructions"]);
        let made = made.output().context("initdb")?;
        if !made.status.success() {
            bail!("initdb: {}", String::from_utf8_lossy(&made.stderr));
        }
        let log = File::create(folder.path().join("log"))?;
        let port = free_port()?;
        let mut command = run("postgres");
        command
            .args(["-p", &port.to_string(), "-h", "127.0.0.1", "-k"])
            .arg(folder.path())
            .args(["-N", &CONNECTIONS.to_string()])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let child = command.spawn().context("postgres")?;
        let mut server = Postgres {
            child,
            folder,
            port,
        };
        server.wait()?;
        Ok(server)
    }

    fn wait(&mut self) -> Result<()> {
        let begun = Instant::now();
        while self.client().is_err() {
            let ended = self.child.try_wait()?;
            if ended.is_some() || begun.elapsed() > START {
                let log = fs::read_to_string(self.folder.path().join("log"));
                bail!("PostgreSQL does not answer ({ended:?}): {log:?}");
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// A connection of its own.
    pub(super) fn client(&self) -> Result<Client> {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.port);
        config.user(NAME).dbname(NAME);
        Ok(config.connect(NoTls)?)
    }

    /// What it is, and what an acknowledged commit of it survives.
    pub(super) fn about(&self) -> Result<String> {
        let mut client = self.client()?;
        let mut show = |setting: &str| -> Result<String> {
            let row = client.query_one(&format!("SHOW {setting}"), &[])?;
            Ok(row.get(0))
        };
        let version = show("server_version")?;
        let mut said = Vec::new();
        for setting in [
            "fsync",
            "synchronous_commit",
            "commit_delay",
            "wal_sync_method",
        ] {
            said.push(format!("`{setting}` {}", show(setting)?));
        }
        if said[0] != "`fsync` on" || said[1] != "`synchronous_commit` on" {
            bail!("PostgreSQL does not keep what it acknowledges: {said:?}");
        }
        Ok(format!(
            "PostgreSQL {version} as it comes ({}); nodes as they come, with `--durability always`.",
            said.join(", ")
        ))
    }

    fn has_ended(&mut self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < END {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return true;
            }
            thread::sleep(POLL);
        }
        false
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // It ends its own processes, and gives back what it shared with them, if it is asked to; they
        // find out by themselves if it is killed.
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        if !self.has_ended() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The folder of the newest version that is installed.
fn programs() -> Result<PathBuf> {
    let missing = || format!("there is no server of PostgreSQL in {PROGRAMS}");
    let mut newest = None;
    for entry in fs::read_dir(PROGRAMS).with_context(missing)? {
        let entry = entry?;
        let version = entry.file_name().to_string_lossy().parse::<u32>();
        let programs = entry.path().join("bin");
        if let Ok(version) = version
            && programs.join("postgres").is_file()
        {
            newest = newest.max(Some((version, programs)));
        }
    }
    newest.map(|it| it.1).with_context(missing)
}

/// Whom PostgreSQL runs as where this program runs as root, as whom it refuses to run.
struct User {
    id: u32,
    group: u32,
}

impl User {
    /// None if this program does not run as root.
    fn find() -> Result<Option<User>> {
        if !rustix::process::getuid().is_root() {
            return Ok(None);
        }
        let users = fs::read_to_string("/etc/passwd")?;
        let named = |name: &str| {
            let line = users.lines().find(|it| it.split(':').next() == Some(name));
            let mut numbers = line?.split(':').skip(2).map(str::parse);
            Some(User {
                id: numbers.next()?.ok()?,
                group: numbers.next()?.ok()?,
            })
        };
        let user = named("postgres").or_else(|| named("nobody"));
        let user = user.context("there is no user `postgres` or `nobody` in /etc/passwd")?;
        Ok(Some(user))
    }
}

/// A program that runs as a user, and that is asked to end when this one is gone, however it ended.
fn as_user(user: Option<&User>, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if let Some(User { id, group }) = user {
        command.arg(format!("--reuid={id}"));
        command.arg(format!("--regid={group}"));
        command.arg("--clear-groups");
    }
    command.args(["--pdeathsig", "INT", "--"]).arg(program);
    command
}
