//! The actions on the mesh, and their order.

use crate::answer::{Outcome, Position, Vector};
use crate::check::{States, hex};
use crate::metrics::{Metrics, Row};
use crate::node::{DEADLINE, POLL};
use crate::world::{NODES, World};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tallymesh_core::{Error, WriterId};
use tallymesh_tests::oracle::{Key, Kind, Oracle, View};
use tallymesh_tests::random::Random;
use tokio::time::sleep;

/// The counters. No operation cancels the first one, so the operations that an add to it had seen do not
/// matter.
const KEYS: [&str; 8] = [
    "likes",
    "a",
    "b",
    "c",
    "__proto__",
    "a/b c?d#e",
    "zähler 🧮",
    "constructor",
];
const LIKES: Key = 0;
/// Number of steps after which all is healed, and all replicas have to agree.
const ROUND: u64 = 150;
/// Number of steps in the report of a failure.
const LAST: usize = 40;
/// The runtimes that are pages of a browser.
const PAGES: [&str; 2] = ["Chromium", "Firefox"];
const DAY_MS: u64 = 86_400_000;
/// Longest pause between two steps, in which replicas sync.
const PAUSE_MS: u64 = 30;

/// Plays this many steps, heals everything, and waits until all replicas see the same.
///
/// # Errors
/// The failure and the last steps, as text.
pub(crate) async fn play(seed: u64, steps: u64) -> Result<Metrics, String> {
    let mut play = Play::start(seed).await?;
    let played = play.run(steps).await;
    let last: Vec<String> = play.last.into();
    // This also runs after a failure: a driver that started a browser ends it.
    let ended = play.world.end().await;
    played.map_err(|why| format!("{why}\nthe last steps were\n  {}", last.join("\n  ")))?;
    ended.map(|()| play.metrics)
}

struct Play {
    random: Random,
    world: World,
    oracle: Oracle,
    /// The view of each replica.
    views: Vec<View>,
    states: States,
    /// The last transaction of each writer.
    made: BTreeMap<WriterId, u64>,
    /// Writers whose last transactions may be lost with their replicas.
    lost: BTreeSet<WriterId>,
    metrics: Metrics,
    last: VecDeque<String>,
    trace: bool,
}

impl Play {
    async fn start(seed: u64) -> Result<Play, String> {
        let world = World::start().await?;
        let names = world.names().into_iter();
        let rows: Vec<Row> = names
            .map(|name| Row {
                name,
                ..Row::default()
            })
            .collect();
        Ok(Play {
            random: Random::new(seed),
            oracle: Oracle::new(KEYS.map(str::to_owned).to_vec()),
            views: vec![View::default(); rows.len()],
            states: States::default(),
            made: BTreeMap::new(),
            lost: BTreeSet::new(),
            metrics: Metrics {
                rows,
                ..Metrics::default()
            },
            last: VecDeque::new(),
            trace: std::env::var_os("TALLYMESH_TRACE").is_some(),
            world,
        })
    }

    async fn run(&mut self, steps: u64) -> Result<(), String> {
        for step in 1..=steps {
            let taken = self.step(step).await;
            taken.map_err(|why| format!("step {step}: {why}"))?;
            if step % ROUND == 0 || step == steps {
                self.heal().await?;
                self.settle().await?;
            }
        }
        Ok(())
    }

    fn note(&mut self, what: String) {
        if self.trace {
            println!("{what}");
        }
        self.last.push_back(what);
        if self.last.len() > LAST {
            self.last.pop_front();
        }
    }

    fn name(&self, at: usize) -> String {
        self.metrics.rows[at].name.clone()
    }

    async fn step(&mut self, step: u64) -> Result<(), String> {
        // Each replica in its turn, so that every kind of action reaches each of them.
        let remotes = self.world.remotes.len();
        let turn = |each: u64, of: usize| (step / each) as usize % of;
        if step % 100 == 50 {
            return self.restart(turn(100, NODES)).await;
        }
        if step % 30 == 20 {
            return self.reload(turn(30, remotes)).await;
        }
        if step % 15 == 11 {
            return self.lead(turn(15, remotes)).await;
        }
        let at = self.random.index(self.views.len());
        let remote = self.random.index(remotes);
        match self.random.below(1000) {
            0..580 => self.transact(at).await,
            580..800 => self.look(at).await,
            800..900 => {
                let pause = self.random.below(PAUSE_MS);
                sleep(Duration::from_millis(pause)).await;
                Ok(())
            }
            900..920 => self.lead(remote).await,
            920..950 => self.stay_apart(remote).await,
            950..970 => self.part().await,
            970..990 => self.heal_node(at % NODES).await,
            _ => self.upgrade(remote).await,
        }
    }

    /// Extends a view to the vector that its replica claims.
    fn learn(&mut self, at: usize, position: &Position) -> Result<(), String> {
        let claimed = position
            .vector
            .iter()
            .map(|(writer, clock)| (*writer, *clock));
        let learned = self.oracle.learn(&mut self.views[at], claimed);
        learned.map_err(|why| format!("{}: {why}", self.metrics.rows[at].name))?;
        Ok(())
    }

    /// A transaction at one replica, and all its reads after that.
    async fn transact(&mut self, at: usize) -> Result<(), String> {
        let native = at < NODES;
        let ops = match native && !self.world.nodes[at].cut && self.random.chance(600) {
            true => vec![(LIKES, Kind::Add(self.amount()))],
            false => self.draw(),
        };
        // If a node receives nothing meanwhile, its view at a transaction is certain.
        let alone = !native || ops.iter().any(|(key, _)| *key != LIKES);
        if native && alone && !self.world.nodes[at].cut {
            self.note(format!("{} is cut off", self.name(at)));
            self.world.nodes[at].cut(None, true).await?;
            self.metrics.rows[at].cuts += 1;
        }
        self.note(format!("{}: {ops:?}", self.name(at)));
        let clock = self.own_clock(at).await?;
        let asked = json(&ops);
        let (before, outcome, after) = self.world.transact(at, clock, &asked).await?;
        self.learn(at, &before)?;
        let exact = after.back_to(before.clock()) == before;
        if alone && !exact {
            return Err(format!(
                "{} heard of something: {before:?}, {after:?}",
                self.name(at)
            ));
        }
        self.compare(at, &ops, &before, &outcome, &after, exact)?;
        self.learn(at, &after)?;
        self.look(at).await
    }

    /// Number of transactions that the replica has made, by its view.
    async fn own_clock(&mut self, at: usize) -> Result<u64, String> {
        let writer = self.writer_of(at).await?;
        Ok(self.views[at].vector().get(&writer).copied().unwrap_or(0))
    }

    async fn writer_of(&mut self, at: usize) -> Result<WriterId, String> {
        match at < NODES {
            true => Ok(self.world.nodes[at].position().await?.writer),
            false => Ok(self.world.remotes[at - NODES].writer),
        }
    }

    /// Compares the outcome of a transaction with the oracle's, and adds it to the oracle.
    fn compare(
        &mut self,
        at: usize,
        ops: &[(Key, Kind)],
        before: &Position,
        outcome: &Outcome,
        after: &Position,
        exact: bool,
    ) -> Result<(), String> {
        let writer = before.writer;
        let plan = self.oracle.plan(&self.views[at], writer, now(), ops);
        let (expected, issued) = match plan {
            Ok(plan) => (Outcome::Results(plan.answers), plan.issued),
            Err(refusal) => (
                Outcome::Refused(Error::from(refusal).code().to_owned()),
                Vec::new(),
            ),
        };
        if exact && *outcome != expected {
            return Err(format!(
                "{} answered {outcome:?}, expected {expected:?}",
                self.name(at)
            ));
        }
        let row = &mut self.metrics.rows[at];
        row.refused += u64::from(matches!(outcome, Outcome::Refused(_)));
        let made = u64::from(!issued.is_empty());
        if after.clock() != before.clock() + made || after.writer != writer {
            return Err(format!(
                "{} made {made} of {before:?} to {after:?}",
                self.name(at)
            ));
        }
        if made > 0 {
            row.transactions += 1;
            row.operations += ops.len() as u64;
            self.made.insert(writer, after.clock());
            let stamp = (writer, after.clock());
            self.oracle.issue(&mut self.views[at], stamp, &issued)?;
        }
        Ok(())
    }

    /// Compares all reads of a replica.
    async fn look(&mut self, at: usize) -> Result<(), String> {
        let tell = self.world.tell(at, self.oracle.keys()).await;
        let name = self.name(at);
        let tell = tell.map_err(|why| format!("{name}: {why}"))?;
        self.learn(at, &tell.position)?;
        let sees = (&self.oracle, &self.views[at]);
        let reads = self.states.judge(&name, sees, &tell, now())?;
        self.metrics.rows[at].tells += 1;
        self.metrics.rows[at].reads += reads;
        Ok(())
    }

    /// One to four operations.
    fn draw(&mut self) -> Vec<(Key, Kind)> {
        let count = [1, 1, 1, 2, 3, 4][self.random.index(6)];
        (0..count).map(|_| self.operation()).collect()
    }

    fn operation(&mut self) -> (Key, Kind) {
        let key = self.random.index(KEYS.len());
        let kind = match self.random.below(100) {
            _ if key == LIKES => Kind::Add(self.amount()),
            0..50 => Kind::Add(self.amount()),
            50..62 => Kind::Set(self.amount()),
            62..72 => Kind::Reset,
            72..82 => Kind::Delete,
            82..94 => {
                let days = self.random.range(1, 1_000);
                // No clock of this run comes near this time.
                Kind::Expire((now() / DAY_MS + days) * DAY_MS)
            }
            _ => Kind::Persist,
        };
        (key, kind)
    }

    /// Mostly small amounts. Some sums leave 64 bits, and some of those have to be rejected.
    fn amount(&mut self) -> i64 {
        match self.random.below(100) {
            0..90 => self.random.range(0, 1_998) as i64 - 999,
            90..94 => i64::MAX,
            94..96 => i64::MIN,
            _ => self.random.next_u64() as i64,
        }
    }

    /// Leads a gate to another node, or nowhere.
    async fn lead(&mut self, remote: usize) -> Result<(), String> {
        let to = self.random.index(NODES + 2);
        let to = (to < NODES).then_some(to);
        self.note(format!("{} gets to node {to:?}", self.name(NODES + remote)));
        self.metrics.rows[NODES + remote].cuts += 1;
        self.world.lead(remote, to)
    }

    async fn stay_apart(&mut self, remote: usize) -> Result<(), String> {
        let apart = !self.world.remotes[remote].apart;
        self.note(format!(
            "{} stays apart: {apart}",
            self.name(NODES + remote)
        ));
        self.metrics.rows[NODES + remote].cuts += u64::from(apart);
        self.world.stay_apart(remote, apart).await
    }

    /// Cuts two nodes from each other, or ends that.
    async fn part(&mut self) -> Result<(), String> {
        let a = self.random.index(NODES);
        let b = (a + 1 + self.random.index(NODES - 1)) % NODES;
        let cut = !self.world.parted.contains(&(a, b));
        self.note(format!("nodes {a} and {b} are parted: {cut}"));
        self.world.part(a, b, cut).await?;
        match cut {
            true => self.world.parted.push((a, b)),
            false => self.world.parted.retain(|pair| *pair != (a, b)),
        }
        self.metrics.node_links += u64::from(cut);
        Ok(())
    }

    async fn heal_node(&mut self, at: usize) -> Result<(), String> {
        if self.world.nodes[at].cut {
            self.note(format!("{} is healed", self.name(at)));
            self.world.nodes[at].cut(None, false).await?;
        }
        Ok(())
    }

    /// Restarts a runtime, page or worker, with the state of its replica or without it. A page has a new key
    /// each time. Nodes accept only the transactions of its own writer from it.
    async fn reload(&mut self, remote: usize) -> Result<(), String> {
        let at = NODES + remote;
        let is_page = PAGES.contains(&self.world.remotes[remote].name.as_str());
        let keep = self.random.chance(500) && !is_page;
        self.note(format!(
            "{} is loaded again, and keeps all: {keep}",
            self.name(at)
        ));
        self.metrics.rows[at].reloads += 1;
        let mut state = None;
        if keep {
            let tell = self.world.tell(at, self.oracle.keys()).await?;
            self.learn(at, &tell.position)?;
            state = tell.state.as_deref().map(hex);
        } else {
            self.lost.insert(self.world.remotes[remote].writer);
            self.views[at] = View::default();
        }
        self.world.reload(remote).await?;
        let position = self.world.begin(remote, state.as_deref()).await?;
        self.learn(at, &position)?;
        self.look(at).await
    }

    /// Moves a replica to the second module.
    async fn upgrade(&mut self, remote: usize) -> Result<(), String> {
        self.note(format!(
            "{} takes the second module",
            self.name(NODES + remote)
        ));
        self.world.simple(remote, "upgrade").await?;
        self.look(NODES + remote).await
    }

    /// Kills a node and starts it again. It still has everything that it had acknowledged.
    async fn restart(&mut self, node: usize) -> Result<(), String> {
        self.note(format!("{} is killed", self.name(node)));
        self.metrics.rows[node].reloads += 1;
        self.world.restart_node(node).await?;
        self.look(node).await
    }

    async fn heal(&mut self) -> Result<(), String> {
        self.note("all is healed".to_owned());
        for node in 0..NODES {
            self.heal_node(node).await?;
        }
        for (a, b) in std::mem::take(&mut self.world.parted) {
            self.world.part(a, b, false).await?;
        }
        for remote in 0..self.world.remotes.len() {
            if self.world.remotes[remote].node.is_none() {
                self.world.lead(remote, Some(remote % NODES))?;
            }
            if self.world.remotes[remote].apart {
                self.world.stay_apart(remote, false).await?;
            }
        }
        Ok(())
    }

    /// Waits until all replicas see the same. Compares all their reads meanwhile and at the end.
    async fn settle(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            for at in 0..self.views.len() {
                self.look(at).await?;
            }
            let first = self.views[0].vector();
            if self.views.iter().all(|view| view.vector() == first) {
                break;
            }
            if begun.elapsed() > DEADLINE {
                return Err(format!("they do not agree: {}", self.differences()));
            }
            sleep(POLL).await;
        }
        self.metrics.healed_ms.push(begun.elapsed().as_millis());
        for (at, view) in self.views.iter().enumerate() {
            if view != &self.views[0] {
                return Err(format!("{} does not see what others see", self.name(at)));
            }
        }
        self.nothing_is_missing()
    }

    /// Checks that no replica lacks a transaction whose replica had the time to send it.
    fn nothing_is_missing(&mut self) -> Result<(), String> {
        self.metrics.same_bytes = self.states.same;
        self.metrics.gone = 0;
        let held = self.views[0].vector();
        for (writer, clock) in &self.made {
            let held = held.get(writer).copied().unwrap_or(0);
            if held < *clock && !self.lost.contains(writer) {
                return Err(format!(
                    "nobody has what {writer} made from {held} to {clock}"
                ));
            }
            self.metrics.gone += clock - held.min(*clock);
        }
        Ok(())
    }

    fn differences(&self) -> String {
        let mut all = Vector::new();
        for (writer, clock) in self.views.iter().flat_map(|view| view.vector()) {
            let most = all.entry(*writer).or_insert(0);
            *most = (*most).max(*clock);
        }
        let lacks = |view: &View| {
            let held = |writer: &WriterId| view.vector().get(writer).copied().unwrap_or(0);
            let lacking = all.iter().filter(|(writer, clock)| held(writer) < **clock);
            lacking
                .map(|(writer, clock)| format!("{writer} {} of {clock}", held(writer)))
                .collect()
        };
        let rows = self.views.iter().enumerate().map(|(at, view)| {
            let lacks: Vec<String> = lacks(view);
            format!("\n{} lacks {lacks:?}", self.name(at))
        });
        rows.collect()
    }
}

/// Operations in the form that drivers and nodes accept.
fn json(ops: &[(Key, Kind)]) -> Value {
    let operation = |(key, kind): &(Key, Kind)| {
        let key = KEYS[*key];
        match kind {
            Kind::Add(by) => json!({ "op": "add", "key": key, "by": by.to_string() }),
            Kind::Set(value) => json!({ "op": "set", "key": key, "value": value.to_string() }),
            Kind::Reset => json!({ "op": "reset", "key": key }),
            Kind::Delete => json!({ "op": "delete", "key": key }),
            Kind::Expire(at) => json!({ "op": "expire", "key": key, "at": at.to_string() }),
            Kind::Persist => json!({ "op": "persist", "key": key }),
        }
    };
    ops.iter().map(operation).collect()
}

/// The wall clock, in milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
