//! A run: load and storm at the same time. Then all is healed, and the judge compares each node with the
//! acknowledged operations.

use crate::client;
use crate::guests::{self, Guests};
use crate::history::History;
use crate::ledger::Ledger;
use crate::load::{Done, Load};
use crate::mesh::{Mesh, NODES};
use crate::node::told;
use crate::proxy::{self, Proxy};
use crate::storm::{Filled, Kind, Storm, filling};
use crate::wire::Wire;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tallymesh_tests::random::Random;
use tokio::sync::{RwLock, watch};
use tokio::time::sleep;

/// Longest time until all nodes are right, after all is healed and the clients have stopped.
const DEADLINE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(50);

/// The settings of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) length: Duration,
    pub(crate) lease: String,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    plan: Plan,
    disk: &'static str,
    pub(crate) counts: BTreeMap<Kind, u64>,
    /// Clients of HTTP and of the Redis protocol.
    clients: [Done; 2],
    proxies: [proxy::Metrics; 2],
    guests: guests::Metrics,
    filled: Filled,
    acknowledged: usize,
    /// Operations that no node acknowledged. `unasked` of them count.
    unacknowledged: usize,
    unasked: usize,
    /// Time until the end of the faults.
    stormed: Duration,
    /// Time from then on until all clients were answered. `settled` is the time until all nodes were right.
    answered: Duration,
    settled: Duration,
    /// Comparisons of two nodes by `tallymesh audit`.
    audited: usize,
}

impl Metrics {
    /// Whether clients of all protocols worked, and met faults.
    pub(crate) fn is_busy(&self) -> bool {
        let asked = |done: &Done| done.metrics.operations > 0 && done.metrics.retries > 0;
        self.clients.iter().all(asked) && self.guests.acknowledged > 0
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| | |\n|---|---:|")?;
        writeln!(f, "| seed | {} |", self.plan.seed)?;
        writeln!(
            f,
            "| seconds of faults | {:.0} |",
            self.stormed.as_secs_f32()
        )?;
        writeln!(f, "| lease of guests | {} |", self.plan.lease)?;
        writeln!(f, "| how disks are full | {} |", self.disk)?;
        writeln!(f, "| **done to the cluster** | |")?;
        for (kind, count) in &self.counts {
            writeln!(f, "| {} | {count} |", kind.name())?;
        }
        for (name, done, proxy) in [
            ("HTTP", &self.clients[0], &self.proxies[0]),
            ("RESP", &self.clients[1], &self.proxies[1]),
        ] {
            let client::Metrics {
                operations,
                retries,
                timeouts,
                broken,
                made_before,
                refused,
            } = &done.metrics;
            writeln!(f, "| **over {name}** | |")?;
            let refused: u64 = refused.values().sum();
            let rows = [
                ("operations acknowledged", *operations),
                ("left by their client before an answer", done.left),
                ("asked again by clients", *retries),
                ("of these, after a timeout", *timeouts),
                ("of these, after a broken connection", *broken),
                ("of these, after a refusal", refused),
                ("answers that it was made before", *made_before),
                ("requests at the proxy", proxy.requests),
                ("requests dropped", proxy.dropped_requests),
                ("requests delayed", proxy.delayed_requests),
                ("requests repeated", proxy.repeated),
                ("answers dropped", proxy.dropped_answers),
                ("answers delayed", proxy.delayed_answers),
                ("answers broken off", proxy.broken_answers),
                ("requests handed to nodes", proxy.forwarded),
                ("of these, not answered", proxy.unanswered),
                ("requests to a node that was not there", proxy.unreachable),
            ];
            for (name, count) in rows {
                writeln!(f, "| {name} | {count} |")?;
            }
        }
        let guests = &self.guests;
        writeln!(f, "| **over WebSocket** | |")?;
        let rows = [
            ("operations acknowledged", guests.acknowledged),
            ("not acknowledged when their guest was closed", guests.left),
            ("unknown when their guest came back", guests.unknown),
            ("sockets opened", guests.sockets),
            ("guests closed without a word", guests.closed),
            ("guests that came back under a new writer", guests.returns),
            ("transactions that they made again", guests.made_again),
        ];
        for (name, count) in rows {
            writeln!(f, "| {name} | {count} |")?;
        }
        let longest = guests.longest.as_secs_f32();
        writeln!(
            f,
            "| longest wait for an acknowledgement, s | {longest:.1} |"
        )?;
        let (answered, settled) = (self.answered.as_secs_f32(), self.settled.as_secs_f32());
        writeln!(f, "| **in the end** | |")?;
        writeln!(f, "| operations acknowledged | {} |", self.acknowledged)?;
        writeln!(f, "| lost | 0 |\n| counted twice | 0 |")?;
        writeln!(
            f,
            "| operations not acknowledged | {} |",
            self.unacknowledged
        )?;
        writeln!(f, "| of these, counted once | {} |", self.unasked)?;
        let Filled {
            acknowledged,
            asked,
        } = self.filled;
        writeln!(
            f,
            "| bulk adds into full disks, acknowledged | {acknowledged} |"
        )?;
        writeln!(f, "| of these, asked for | {asked} |")?;
        writeln!(
            f,
            "| seconds from healing until all clients were answered | {answered:.1} |"
        )?;
        writeln!(
            f,
            "| seconds from healing until all nodes were right | {settled:.1} |"
        )?;
        write!(
            f,
            "| pairs that `tallymesh audit` found equal | {} |",
            self.audited
        )
    }
}

/// The expected state.
struct Judge {
    ledger: Arc<Ledger>,
    history: Arc<History>,
    filled: Filled,
    /// Counters that must be 1.
    ones: Vec<String>,
}

/// Plays a run, and checks that acknowledged operations count exactly once at each node.
pub(crate) async fn play(plan: &Plan) -> Result<Metrics, String> {
    let mut mesh = Mesh::start(plan.lease.clone()).await?;
    let joined = only_links_join_nodes(&mesh).await?;
    let history = Arc::new(History::new());
    let proxies = [
        proxy(Wire::Http, plan.seed, &history).await?,
        proxy(Wire::Resp, plan.seed + 1, &history).await?,
    ];
    for node in 0..NODES {
        proxies[0].route(node, Some(mesh.http(node)?));
        proxies[1].route(node, Some(mesh.resp(node)?));
    }
    let ledger = Arc::new(Ledger::default());
    let pause = Arc::new(RwLock::new(()));
    let (stop, over) = watch::channel(false);
    let load = Load {
        ledger: ledger.clone(),
        history: history.clone(),
        over: over.clone(),
        pause: pause.clone(),
    };
    let guests = Guests {
        ledger: ledger.clone(),
        history: history.clone(),
        over,
        addresses: mesh.addresses.clone(),
    };
    let http = load
        .clone()
        .run(Wire::Http, proxies[0].addresses, plan.seed);
    let resp = load.run(Wire::Resp, proxies[1].addresses, plan.seed + 1);
    let mut storm = Storm {
        mesh: &mut mesh,
        proxies: &proxies,
        history: history.clone(),
        pause,
        random: Random::new(!plan.seed),
        length: plan.length,
        counts: BTreeMap::new(),
        filled: Filled::default(),
        lasting: Vec::new(),
    };
    let raging = async {
        let begun = history.elapsed();
        storm.rage().await?;
        // If this fails, no task reads the signal any more.
        let _ = stop.send(true);
        Ok((history.elapsed() - begun, Instant::now()))
    };
    let ((stormed, healed), http, resp, guests) =
        tokio::try_join!(raging, http, resp, guests.run(plan.seed))?;
    let answered = healed.elapsed();
    let Storm {
        counts,
        filled,
        lasting,
        ..
    } = storm;
    for proxy in &proxies {
        proxy.drained().await;
    }
    let judge = Judge {
        ledger,
        history: history.clone(),
        filled,
        ones: [lasting, vec![joined]].concat(),
    };
    let unasked = judge.waits(&mesh).await?;
    let settled = healed.elapsed();
    let audited = audit(&mesh).await?;
    let (acknowledged, unacknowledged) = judge.ledger.count();
    Ok(Metrics {
        plan: plan.clone(),
        disk: mesh.disk_kind(),
        counts,
        clients: [http, resp],
        proxies: [proxies[0].metrics(), proxies[1].metrics()],
        guests,
        filled,
        acknowledged,
        unacknowledged,
        unasked,
        stormed,
        answered,
        settled,
        audited,
    })
}

async fn proxy(wire: Wire, seed: u64, history: &Arc<History>) -> Result<Proxy, String> {
    let proxy = Proxy::start(wire, seed, history.clone()).await;
    proxy.map_err(told)
}

/// Checks that no other way than the links connects nodes. The other nodes must not see an add of a node that
/// is cut off until it is healed. Returns the counter, which is 1.
async fn only_links_join_nodes(mesh: &Mesh) -> Result<String, String> {
    let names = ["joined".to_owned()];
    for other in 1..NODES {
        for (from, to) in [(0, other), (other, 0)] {
            mesh.links().change(from, to, |way| way.cut = true);
        }
    }
    mesh.add_all(0, &format!("{}\n", names[0])).await?;
    // The adds of the other nodes get through between them.
    for node in 1..NODES {
        mesh.is_held(node).await?;
    }
    for node in 1..NODES {
        if mesh.values(node, &names).await? != [0] {
            return Err(format!(
                "node {node} sees what node 0 made while it was cut off"
            ));
        }
    }
    mesh.links().heal(false);
    let deadline = Instant::now() + DEADLINE;
    for node in 1..NODES {
        while mesh.values(node, &names).await? != [1] {
            if Instant::now() > deadline {
                return Err(format!("node {node} never sees what node 0 made"));
            }
            sleep(POLL).await;
        }
    }
    let [name] = names;
    Ok(name)
}

impl Judge {
    /// Waits until all nodes have the same state, are linked again, and are right. Returns the number of
    /// operations that count without an acknowledgement.
    async fn waits(&self, mesh: &Mesh) -> Result<usize, String> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self.is_right(mesh).await? {
                Ok(unasked) => return Ok(unasked),
                Err(why) if Instant::now() > deadline => {
                    let told = mesh.members_told().await;
                    return Err(format!("{why}\n{told}{}", mesh.said()));
                }
                Err(_) => sleep(POLL).await,
            }
        }
    }

    /// The number of operations that count without an acknowledgement. If a node is wrong now, describes this
    /// instead.
    async fn is_right(&self, mesh: &Mesh) -> Result<Result<usize, String>, String> {
        let mut wrong = String::new();
        if !mesh.is_settled().await? {
            wrong += "the members do not know each other\n";
        }
        let before = mesh.digest().await?;
        let counters = self.ledger.counters();
        let mut unasked = Vec::new();
        for node in 0..NODES {
            let verdict = self.ledger.judge(&mesh.values(node, &counters).await?);
            if !verdict.is_right() {
                let told = verdict.tell(|key| self.history.of(key));
                wrong += &format!("node {node}: {told}");
            }
            unasked.push(verdict.unasked);
            let ones = mesh.values(node, &self.ones).await?;
            if ones.iter().any(|value| *value != 1) {
                wrong += &format!("node {node}: {:?} are {ones:?}, not 1\n", self.ones);
            }
            let filling = mesh.values(node, &filling()).await?;
            let Filled {
                acknowledged,
                asked,
            } = self.filled;
            let all = filling.iter().all(|value| *value == filling[0]);
            if !all || !(acknowledged..=asked).contains(&filling[0]) {
                wrong += &format!(
                    "node {node}: counters that fill disks are {}, the same: {all}, acknowledged \
                     {acknowledged} times of {asked}\n",
                    filling[0]
                );
            }
            if mesh.space(node).await?["faults"] != 0 {
                wrong += &format!("node {node} says that a writer id was used twice\n");
            }
            let linked = linked(mesh, node).await?;
            if linked != NODES - 1 {
                wrong += &format!("node {node} is linked to {linked} nodes\n");
            }
        }
        if before.is_none() || before != mesh.digest().await? {
            wrong += "the nodes do not hold the same\n";
        }
        Ok(match wrong.is_empty() {
            true => Ok(unasked[0]),
            false => Err(wrong),
        })
    }
}

/// Number of nodes with which this node is in step.
async fn linked(mesh: &Mesh, node: usize) -> Result<usize, String> {
    let peers = mesh.peers(node).await?;
    let rows = peers["peers"].as_array().ok_or("no peers")?;
    let linked = rows
        .iter()
        .filter(|row| row["kind"] == "libp2p" && row["state"] == "ready");
    let names: BTreeSet<String> = linked.map(|row| row["peer"].to_string()).collect();
    Ok(names.len())
}

/// Compares each node with all others, by the command line. Returns the number of pairs that were equal.
async fn audit(mesh: &Mesh) -> Result<usize, String> {
    let mut equal = 0;
    for node in 0..NODES {
        let output = mesh.audit(node).await?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "audit of node {node}: {}\n{text}{error}",
                output.status
            ));
        }
        equal += text.lines().count();
    }
    Ok(equal)
}
