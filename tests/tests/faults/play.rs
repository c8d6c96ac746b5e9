//! A run: load and storm at the same time. Then all is healed, and the judge compares each node with the
//! acknowledged operations.

use crate::guests::Guests;
use crate::history::History;
use crate::ledger::Ledger;
use crate::load::Load;
use crate::mesh::{Mesh, NODES};
use crate::node::told;
use crate::proxy::Proxy;
use crate::report::Metrics;
use crate::rights::{self, Ledgers, Rights};
use crate::storm::{Filled, Kind, Storm, filling};
use crate::wire::Wire;
use std::collections::{BTreeMap, BTreeSet};
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
    /// The kinds of faults, each of which is played.
    pub(crate) kinds: Vec<Kind>,
    pub(crate) length: Duration,
    pub(crate) lease: String,
}

/// The expected state.
struct Judge {
    ledger: Arc<Ledger>,
    ledgers: Arc<Ledgers>,
    history: Arc<History>,
    filled: Filled,
    /// Counters that must be 1.
    ones: Vec<String>,
}

/// Plays a run, and checks that acknowledged operations count exactly once at each node.
///
/// Each kind of client has a module, and runs here beside the storm until `over` says so. A further kind
/// needs a module with a `run`, a line of `try_join`, and a part of [`Judge`].
pub(crate) async fn play(plan: &Plan) -> Result<Metrics, String> {
    let mut mesh = Mesh::start(plan.lease.clone(), plan.length / 2).await?;
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
    rights::set_up(&mesh).await?;
    let ledger = Arc::new(Ledger::new("n"));
    let ledgers = Arc::new(Ledgers::default());
    let pause = Arc::new(RwLock::new(()));
    let (stop, over) = watch::channel(false);
    let load = Load {
        ledger: ledger.clone(),
        history: history.clone(),
        over: over.clone(),
        pause: pause.clone(),
    };
    let rights = Rights {
        over: over.clone(),
        pause: pause.clone(),
        ledgers: ledgers.clone(),
        nodes: mesh.addresses.clone(),
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
    let rights = rights.run(proxies[0].addresses, plan.seed);
    let mut storm = Storm {
        mesh: &mut mesh,
        proxies: &proxies,
        history: history.clone(),
        pause,
        random: Random::new(!plan.seed),
        kinds: plan.kinds.clone(),
        length: plan.length,
        counts: BTreeMap::new(),
        filled: Filled::default(),
        lasting: Vec::new(),
        offsets: [0; NODES],
        ledger: ledger.clone(),
    };
    let raging = async {
        let begun = history.elapsed();
        storm.rage().await?;
        // If this fails, no task reads the signal any more.
        let _ = stop.send(true);
        Ok((history.elapsed() - begun, Instant::now()))
    };
    let ((stormed, healed), http, resp, rights, guests) =
        tokio::try_join!(raging, http, resp, rights, guests.run(plan.seed))?;
    let answered = healed.elapsed();
    storm.agree_on_time()?;
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
        ledgers,
        history: history.clone(),
        filled,
        ones: [lasting, vec![joined]].concat(),
    };
    let unasked = judge.waits(&mesh).await?;
    let settled = healed.elapsed();
    let audited = audit(&mesh).await? + Ledgers::audit(&mesh).await?;
    let (acknowledged, unacknowledged) = judge.ledger.count();
    Ok(Metrics {
        plan: plan.clone(),
        disks: mesh.how_disks_fail(),
        counts,
        clients: [http, resp],
        proxies: [proxies[0].metrics(), proxies[1].metrics()],
        guests,
        rights,
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
                let told = verdict.tell(|number| self.history.of(&self.ledger.key(number)));
                wrong += &format!("node {node}: {told}");
            }
            unasked.push(verdict.unasked);
            wrong += &self.ledgers.wrong(mesh, node, &self.history).await?;
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
            let space = mesh.space(node).await?;
            if !space["copied"].is_null() {
                wrong += &format!("node {node} stands aside, as if it were a copy\n");
            }
            if space["faults"] != 0 {
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
