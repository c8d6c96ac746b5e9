//! The servers, each a process of its own in a folder of its own, and what can be seen of them from outside.

use crate::measure::{bytes_under, cpu_seconds};
use crate::resp_bench::servers::free_port;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The longest that a server may take to start, and to answer a request.
const START: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(20);
/// How often it is looked whether it is there.
const POLL: Duration = Duration::from_millis(10);
const SPACE: &str = "/v1/spaces/default";
/// The file that a server writes its address to.
const READY_FILE: &str = "ready.json";
/// The folder of the npm packages, from the root of the repository.
const PACKAGES: &str = "bench/js";

/// Whose server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Ours,
    Yjs,
    Floor,
}

impl Who {
    pub(super) const ALL: [Who; 3] = [Who::Ours, Who::Yjs, Who::Floor];

    pub(super) fn name(self) -> &'static str {
        match self {
            Who::Ours => "Tallymesh",
            Who::Yjs => "y-websocket",
            Who::Floor => "broadcast",
        }
    }
}

/// The programs, which [`Programs::find`] has found.
pub(super) struct Programs {
    node: PathBuf,
    floor: PathBuf,
    /// The server of y-websocket, if npm has it.
    yjs: Option<PathBuf>,
}

impl Programs {
    /// Finds the programs, which `cargo xtask bench` has built. It has npm install the server of y-websocket, if npm
    /// is there.
    pub(super) fn find(node: &Path) -> Result<Programs> {
        let floor = std::env::current_exe()?.with_file_name("ws_floor");
        for program in [node, &floor] {
            anyhow::ensure!(program.exists(), "there is no {}", program.display());
        }
        let yjs = Path::new(PACKAGES).join("node_modules/y-websocket-server/bin/server.js");
        if !yjs.exists() {
            eprintln!("visitors: y-websocket is not measured, as npm did not install it");
        }
        Ok(Programs {
            node: node.to_owned(),
            floor,
            yjs: yjs.exists().then_some(yjs),
        })
    }

    pub(super) fn has(&self, who: Who) -> bool {
        who != Who::Yjs || self.yjs.is_some()
    }
}

/// A server that listens. Dropped, it is ended.
pub(super) struct Server {
    who: Who,
    child: Child,
    folder: tempfile::TempDir,
    program: PathBuf,
    /// Most sockets, and the nodes that it is to be linked to.
    links: usize,
    peers: Vec<String>,
    pub(super) address: SocketAddr,
}

impl Server {
    /// Starts one that has room for so many pages.
    pub(super) fn start(
        programs: &Programs,
        who: Who,
        links: usize,
        peers: Vec<String>,
    ) -> Result<Server> {
        // On a disk, and not in memory: a node that is killed goes on from its folder.
        let folder = tempfile::tempdir_in(std::env::current_dir()?)?;
        let program = match who {
            Who::Ours => programs.node.clone(),
            Who::Floor => programs.floor.clone(),
            Who::Yjs => programs.yjs.clone().context("no y-websocket")?,
        };
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let child = spawn(who, &program, (links, &peers), folder.path(), address)?;
        let mut server = Server {
            who,
            child,
            folder,
            program,
            links,
            peers,
            address,
        };
        server.wait()?;
        Ok(server)
    }

    /// Kills it (SIGKILL).
    pub(super) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts it again on the same folder, at the same address, and waits until it listens.
    pub(super) fn again(&mut self) -> Result<()> {
        let _ = fs::remove_file(self.folder.path().join(READY_FILE));
        let of = (self.links, &self.peers[..]);
        self.child = spawn(
            self.who,
            &self.program,
            of,
            self.folder.path(),
            self.address,
        )?;
        self.wait()
    }

    fn wait(&mut self) -> Result<()> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                bail!("a server ended: {status}: {}", log.trim());
            }
            if self.who == Who::Yjs && TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            if let Ok(ready) = self.ready()
                && self.who != Who::Yjs
            {
                let http = ready["http"].as_str().context("no address")?;
                let http = http.trim_start_matches("http://").trim_end_matches('/');
                self.address = http.parse()?;
                return Ok(());
            }
            if begun.elapsed() > START {
                bail!("a server does not listen");
            }
            thread::sleep(POLL);
        }
    }

    fn ready(&self) -> Result<Value> {
        let text = fs::read_to_string(self.folder.path().join(READY_FILE))?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Where other nodes reach it.
    pub(super) fn listen(&self) -> Result<Vec<String>> {
        let ready = self.ready()?;
        let addresses = ready["listen"].as_array().context("it listens nowhere")?;
        let addresses = addresses.iter().filter_map(Value::as_str);
        Ok(addresses.map(str::to_owned).collect())
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Seconds of processor time that it took so far.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        Ok(cpu_seconds(self.pid())?)
    }

    /// Bytes of the files that it keeps.
    pub(super) fn disk_bytes(&self) -> Result<u64> {
        Ok(bytes_under(&self.folder.path().join("data"))?)
    }

    fn get(&self, path: &str) -> Result<String> {
        let request = ureq::get(format!("http://{}{path}", self.address));
        let request = request.config().timeout_global(Some(ANSWER)).build();
        Ok(request.call()?.body_mut().read_to_string()?)
    }

    /// Posts as the node's operator.
    fn post(&self, path: &str, body: &Value) -> Result<()> {
        let token = fs::read_to_string(self.folder.path().join("data/token"))?;
        let request = ureq::post(format!("http://{}{SPACE}/{path}", self.address));
        let request = request.config().timeout_global(Some(ANSWER)).build();
        let shown = format!("Bearer {}", token.trim());
        request
            .header("authorization", shown)
            .send(body.to_string())?;
        Ok(())
    }

    fn status(&self) -> Result<Value> {
        Ok(serde_json::from_str(&self.get("/v1/status")?)?)
    }

    /// Makes the node the first member of its space.
    pub(super) fn init_members(&self) -> Result<()> {
        self.post("members/init", &json!({}))
    }

    /// Makes another node a member of the space, too.
    pub(super) fn add_member(&self, other: &Server) -> Result<()> {
        let owner = other.status()?["owner"].clone();
        self.post("members/add", &json!({ "owner": owner, "wait_ms": 20_000 }))
    }

    /// How many members have announced themselves here.
    pub(super) fn member_count(&self) -> Result<usize> {
        let answer: Value = serde_json::from_str(&self.get(&format!("{SPACE}/members"))?)?;
        let rows = answer["members"].as_array().context("no members")?;
        Ok(rows.iter().filter(|row| !row["writer"].is_null()).count())
    }

    /// How many writers the node knows.
    pub(super) fn writers(&self) -> Result<u64> {
        let writers = &self.status()?["spaces"][0]["writers"];
        let number = writers.as_u64().or_else(|| writers.as_str()?.parse().ok());
        number.context("no writers in the status")
    }

    /// A counter's value at the node.
    pub(super) fn value(&self, key: &str) -> Result<i128> {
        let answer: Value = serde_json::from_str(&self.get(&format!("{SPACE}/counters/{key}"))?)?;
        let value = answer["value"].as_str().context("no value")?;
        Ok(value.parse()?)
    }

    /// Bytes that it has sent to other nodes so far, on all streams.
    pub(super) fn sent_to_nodes(&self) -> Result<f64> {
        let text = self.get("/metrics")?;
        let wanted = |line: &&str| {
            line.starts_with("tallymesh_libp2p_bandwidth_bytes_total{")
                && line.contains("direction=\"Outbound\"")
        };
        let value = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
        Ok(text.lines().filter(wanted).filter_map(value).sum())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes of memory that a process has; an error if it has ended.
pub(super) fn resident_bytes(process: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.context("no VmRSS")? * 1_024)
}

/// Places for HTTP that so many pages need: all that may do less than a member get eleven of sixteen.
pub(super) fn places(links: usize) -> usize {
    (links * 16).div_ceil(11) + 512
}

fn spawn(
    who: Who,
    program: &Path,
    (links, peers): (usize, &[String]),
    folder: &Path,
    address: SocketAddr,
) -> Result<Child> {
    let log = File::options()
        .create(true)
        .append(true)
        .open(folder.join("log"))?;
    let mut command = match who {
        Who::Ours => Command::new(program),
        Who::Floor => Command::new(program),
        Who::Yjs => Command::new("node"),
    };
    match who {
        Who::Ours => {
            command
                .args(["up", "--http", &address.to_string(), "--data"])
                .arg(folder.join("data"))
                .args(["--listen", "/ip4/127.0.0.1/tcp/0", "--ready-file"])
                .arg(folder.join(READY_FILE))
                .args(["--http-clients", &places(links).max(4_096).to_string()]);
            for peer in peers {
                command.args(["--peer", peer]);
            }
        }
        Who::Floor => {
            command.arg(folder.join(READY_FILE));
        }
        Who::Yjs => {
            command
                .arg(program)
                .env("HOST", "127.0.0.1")
                .env("PORT", address.port().to_string());
        }
    }
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("{:?}", command.get_program()))
}
