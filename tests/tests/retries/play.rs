//! A run: clients that repeat requests through the proxy, nodes that are killed and cut, and a judge that has
//! all requests.

use crate::client::{self, Client};
use crate::history::History;
use crate::mesh::{Mesh, NODES};
use crate::node::DEADLINE;
use crate::proxy::{self, Proxy};
use crate::wire::{Connection, Level, Operation, Verdict, Wire};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tallymesh_tests::random::Random;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

const CLIENTS: usize = 16;
const COUNTERS: usize = 64;
/// Number of lower bits of a counter that count its operations: each operation adds 1 there. The upper bits
/// are random numbers. So a lost operation never compensates a double one, and the error of a counter
/// identifies the operation.
const COUNT_BITS: u32 = 20;
const WEIGHT_MAX: u64 = (1 << 24) - 1;
/// Number of operations that are requested once more at the end.
const ASKED_AGAIN: usize = 200;
/// Most wrong counters in a report.
const TOLD_MAX: usize = 5;
const POLL: Duration = Duration::from_millis(20);

/// The settings of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) wire: Wire,
    pub(crate) seed: u64,
    pub(crate) operations: usize,
    /// Whether clients send the idempotency keys.
    pub(crate) keyed: bool,
    /// Whether nodes are killed and links are cut.
    pub(crate) trouble: bool,
}

/// Metrics of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) clients: client::Metrics,
    pub(crate) proxy: proxy::Metrics,
    pub(crate) kills: u64,
    pub(crate) cuts: u64,
    pub(crate) renewals: u64,
    /// Requests that nodes answered, beyond one for each operation.
    pub(crate) duplicates: u64,
    /// Least number of duplicates that a node without the first one made as new operations, and that were
    /// withdrawn. Nodes count only requests over HTTP.
    pub(crate) taken_twice: Option<u64>,
    /// Time until all clients were answered, in seconds.
    pub(crate) seconds: f32,
    /// Time from then on until all nodes were right, in seconds.
    pub(crate) settled_seconds: f32,
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (clients, proxy) = (&self.clients, &self.proxy);
        let rows = [
            ("operations", clients.operations),
            ("asked again by clients", clients.retries),
            ("of these, after a timeout", clients.timeouts),
            ("of these, after a broken connection", clients.broken),
            ("refused", clients.refused.values().sum()),
            ("requests at the proxy", proxy.requests),
            ("requests dropped", proxy.dropped_requests),
            ("requests delayed", proxy.delayed_requests),
            ("requests repeated", proxy.repeated),
            ("answers dropped", proxy.dropped_answers),
            ("answers delayed", proxy.delayed_answers),
            ("answers broken off", proxy.broken_answers),
            ("requests to a node that was not there", proxy.unreachable),
            ("requests handed to nodes", proxy.forwarded),
            (
                "of these, not answered, as the node was killed",
                proxy.unanswered,
            ),
            ("duplicates that nodes answered", self.duplicates),
            ("kills", self.kills),
            ("links cut", self.cuts),
            ("members that came back under a new writer", self.renewals),
        ];
        for (name, count) in rows {
            writeln!(f, "| {name} | {count} |")?;
        }
        if let Some(count) = self.taken_twice {
            writeln!(
                f,
                "| duplicates taken for new and withdrawn, at least | {count} |"
            )?;
            let before = clients.made_before;
            writeln!(
                f,
                "| answers to clients that it was made before | {before} |"
            )?;
        }
        for (reason, count) in &clients.refused {
            writeln!(f, "| refused as {reason} | {count} |")?;
        }
        writeln!(f, "| seconds | {:.1} |", self.seconds)?;
        write!(
            f,
            "| seconds until all were right | {:.1} |",
            self.settled_seconds
        )
    }
}

struct Run {
    plan: Plan,
    operations: Vec<Operation>,
    names: Vec<String>,
    history: Arc<History>,
    proxy: Proxy,
    mesh: Mesh,
}

/// Plays a run, and checks that each operation counts exactly once at each node.
pub(crate) async fn play(plan: Plan) -> Result<Metrics, String> {
    let mesh = Mesh::start(plan.wire).await?;
    let history = Arc::new(History::new());
    let proxy = Proxy::start(plan.wire, plan.seed, history.clone()).await;
    let proxy = proxy.map_err(|error| error.to_string())?;
    for node in 0..NODES {
        proxy.route(node, Some(mesh.address(node)?));
    }
    let names: Vec<String> = (0..COUNTERS).map(|counter| format!("c{counter}")).collect();
    let mut run = Run {
        plan,
        operations: operations(plan, &names),
        names,
        history,
        proxy,
        mesh,
    };
    let clients = run.storm().await?;
    let seconds = run.history.elapsed().as_secs_f32();
    run.proxy.drained().await;
    run.is_right().await?;
    let settled_seconds = run.history.elapsed().as_secs_f32() - seconds;
    if plan.trouble {
        run.ask_again().await?;
        for node in 0..NODES {
            run.kill(node).await?;
            run.start_again(node).await?;
        }
        run.is_right().await?;
    }
    let proxy = run.proxy.metrics();
    let operations = plan.operations as u64;
    Ok(Metrics {
        duplicates: (proxy.forwarded - proxy.unanswered).saturating_sub(operations),
        taken_twice: (plan.wire == Wire::Http)
            .then(|| run.mesh.metrics.adds.saturating_sub(operations)),
        clients,
        proxy,
        kills: run.mesh.metrics.kills,
        cuts: run.mesh.metrics.cuts,
        renewals: run.mesh.metrics.renewals,
        seconds,
        settled_seconds,
    })
}

fn operations(plan: Plan, names: &[String]) -> Vec<Operation> {
    let mut random = Random::new(plan.seed);
    let operation = |number| Operation {
        key: format!("{}-{number}", plan.seed),
        counter: random.pick(names).clone(),
        by: ((random.range(1, WEIGHT_MAX) << COUNT_BITS) + 1) as i64,
    };
    (0..plan.operations).map(operation).collect()
}

/// The links that are cut in a round: none, those of one node, or all.
fn cuts(random: &mut Random) -> Vec<(usize, usize)> {
    let lonely = random.index(NODES);
    let kind = random.below(4);
    let mut links = vec![(0, 1), (0, 2), (1, 2)];
    links.retain(|(one, two)| match kind {
        0 => false,
        1 => true,
        _ => [*one, *two].contains(&lonely),
    });
    links
}

impl Run {
    /// Lets clients make all operations, while nodes are killed and cut. At the end all is healed.
    async fn storm(&mut self) -> Result<client::Metrics, String> {
        let operations: Arc<[Operation]> = self.operations.clone().into();
        let next = Arc::new(AtomicUsize::new(0));
        let (done, answered) = watch::channel(0);
        let done = Arc::new(done);
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let random = Random::new(self.plan.seed.wrapping_add(1 + number as u64));
            let (wire, keyed) = (self.plan.wire, self.plan.keyed);
            let addresses = self.proxy.addresses;
            let history = self.history.clone();
            let mut client = Client::new(wire, keyed, Level::Local, addresses, random, history);
            let (operations, next, done) = (operations.clone(), next.clone(), done.clone());
            clients.spawn(async move {
                while let Some(operation) = operations.get(next.fetch_add(1, Ordering::Relaxed)) {
                    client.make(operation).await?;
                    done.send_modify(|done| *done += 1);
                }
                Ok::<_, String>(client.metrics)
            });
        }
        drop(done);
        let made = async {
            let mut metrics = client::Metrics::default();
            while let Some(client) = clients.join_next().await {
                metrics.join(client.map_err(|error| error.to_string())??);
            }
            Ok(metrics)
        };
        let trouble = self.plan.trouble;
        let troubled = async {
            match trouble {
                true => self.trouble(answered).await,
                false => Ok(()),
            }
        };
        tokio::try_join!(made, troubled).map(|(metrics, ())| metrics)
    }

    /// Kills and cuts, in rounds, until most operations are made. A round ends when a number of further
    /// operations are made, so that all faults happen while clients work.
    async fn trouble(&mut self, mut answered: watch::Receiver<usize>) -> Result<(), String> {
        let operations = self.plan.operations;
        let step = (operations / 40).clamp(10, 300);
        let mut random = Random::new(!self.plan.seed);
        // Whether the clients have ended, and send no more counts.
        let wait = async |answered: &mut watch::Receiver<usize>| {
            let aim = *answered.borrow() + step;
            answered.wait_for(|done| *done >= aim).await.is_err()
        };
        loop {
            for (one, two) in cuts(&mut random) {
                self.history.fault(one, "is cut from another");
                self.history.fault(two, "is cut from another");
                self.mesh.cut(one, two).await?;
            }
            let mut over = wait(&mut answered).await;
            let heals_first = random.chance(300);
            let killed = random.chance(800).then(|| random.index(NODES));
            if let Some(node) = killed {
                self.kill(node).await?;
                over |= wait(&mut answered).await;
            }
            if heals_first {
                self.heal().await?;
            }
            if let Some(node) = killed {
                self.start_again(node).await?;
                over |= wait(&mut answered).await;
            }
            self.heal().await?;
            if over || *answered.borrow() + 2 * step > operations {
                return Ok(());
            }
            wait(&mut answered).await;
        }
    }

    async fn kill(&mut self, node: usize) -> Result<(), String> {
        self.mesh.kill(node).await?;
        self.history.fault(node, "is killed");
        self.proxy.route(node, None);
        Ok(())
    }

    async fn start_again(&mut self, node: usize) -> Result<(), String> {
        self.mesh.start_again(node).await?;
        self.history.fault(node, "runs again");
        self.proxy.route(node, Some(self.mesh.address(node)?));
        Ok(())
    }

    async fn heal(&mut self) -> Result<(), String> {
        for node in 0..NODES {
            self.history.fault(node, "is healed");
        }
        self.mesh.heal().await
    }

    /// Waits until all nodes have the same state, and each counter at each of them has the expected value.
    async fn is_right(&self) -> Result<(), String> {
        let mut expected: BTreeMap<&str, i128> = BTreeMap::new();
        for operation in &self.operations {
            *expected.entry(&operation.counter).or_default() += i128::from(operation.by);
        }
        let expected: Vec<i128> = self
            .names
            .iter()
            .map(|name| expected.get(name.as_str()).copied().unwrap_or(0))
            .collect();
        let deadline = Instant::now() + DEADLINE;
        loop {
            let before = self.mesh.digest().await?;
            let mut values = Vec::new();
            for node in 0..NODES {
                values.push(self.mesh.values(node, &self.names).await?);
            }
            let settled = self.mesh.is_settled().await?;
            let same = before.is_some() && before == self.mesh.digest().await?;
            let right = values.iter().all(|values| *values == expected);
            if settled && same && right {
                return Ok(());
            }
            // All nodes may have the same state, and still lack something. A member that rejoins may yet
            // replay the missing transactions.
            let stays = settled && same && !self.plan.trouble;
            if stays || Instant::now() > deadline {
                let all = format!("settled: {settled}, all hold the same: {same}");
                let wrong = self.wrong(&expected, &values);
                return Err(format!("{:?}: {all}\n{wrong}", self.plan));
            }
            sleep(POLL).await;
        }
    }

    /// Repeats random operations at random nodes, with no proxy between. The node must have the key.
    async fn ask_again(&self) -> Result<(), String> {
        let mut random = Random::new(self.plan.seed);
        for _ in 0..ASKED_AGAIN {
            let operation = random.pick(&self.operations);
            let node = random.index(NODES);
            let asked = async {
                let address = self.mesh.address(node).map_err(std::io::Error::other)?;
                let mut connection = Connection::open(self.plan.wire, address).await?;
                let request = self.plan.wire.request(operation, true, Level::Local);
                connection.ask(&request).await
            };
            let answer = asked.await.map_err(|error| error.to_string())?;
            let verdict = self.plan.wire.verdict(operation, &answer)?;
            if !matches!(
                verdict,
                Verdict::Made {
                    again: Some(true) | None
                }
            ) {
                let history = self.history.of(&operation.key);
                return Err(format!("node {node} says {verdict:?} of\n{history}"));
            }
        }
        self.is_right().await
    }

    /// Describes the wrong counters at the nodes, and the events of the operations that they identify.
    fn wrong(&self, expected: &[i128], values: &[Vec<i128>]) -> String {
        let mut text = String::new();
        let mut told = 0;
        for (counter, name) in self.names.iter().enumerate() {
            let off = |node: usize| values[node][counter] - expected[counter];
            let Some(wrong) = (0..NODES).map(off).find(|off| *off != 0) else {
                continue;
            };
            told += 1;
            if told > TOLD_MAX {
                continue;
            }
            let more = |off: i128| ((off << (128 - COUNT_BITS)) >> (128 - COUNT_BITS), off);
            let offs: Vec<_> = (0..NODES).map(|node| more(off(node))).collect();
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{name}: operations too many, and the sum of all, by node: {offs:?}"
            );
            let named = self.operations.iter().filter(|it| {
                it.counter == *name && i128::from(it.by).unsigned_abs() == wrong.unsigned_abs()
            });
            for operation in named {
                text += &self.history.of(&operation.key);
            }
        }
        let _ = writeln!(text, "{told} of {COUNTERS} counters are wrong");
        for node in 0..NODES {
            let _ = writeln!(text, "node {node} said:\n{}", self.mesh.log(node));
        }
        text
    }
}
