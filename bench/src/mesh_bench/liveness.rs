//! How long a mesh of members takes to go on after faults: kills, restarts, cuts, dead connections and lost
//! disks. All links lead through gates that can be cut.

use super::Plan;
use super::gates::{Gate, HEARD, SAID, Way};
use super::nodes::Node;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How often it is looked whether a mesh goes on.
const POLL: Duration = Duration::from_millis(10);
/// The longest that is waited for it.
const LONGEST: Duration = Duration::from_secs(120);
const SPACE: &str = "/v1/spaces/default";
/// Units of a budget.
const TEN: &str = r#"{"amount":"10"}"#;

/// A fault, and what is waited for.
struct Row {
    what: &'static str,
    /// Seconds that it is to take at most. `None` if that is not said.
    target: Option<f64>,
    /// Seconds in each round.
    measure: fn(&Plan<'_>) -> Result<f64>,
}

const ROWS: [Row; 17] = [
    Row {
        what: "a holder of rights was killed and starts again: until it spends them",
        target: Some(2.0),
        measure: |plan| spends_again(plan, &[]),
    },
    Row {
        what: "the same, while another one of three is dead",
        target: Some(2.0),
        measure: |plan| spends_again(plan, &[2]),
    },
    Row {
        what: "one of three is dead, another one starts again: until a write at level quorum there",
        target: Some(2.0),
        measure: |plan| writes_again(plan, 3, &[2], &[1]),
    },
    Row {
        what: "the same, both others start again at once",
        target: Some(2.0),
        measure: |plan| writes_again(plan, 3, &[2], &[0, 1]),
    },
    Row {
        what: "two of five are dead, the others start again at once: until a write at level quorum",
        target: Some(2.0),
        measure: |plan| writes_again(plan, 5, &[1, 3], &[0, 2, 4]),
    },
    Row {
        what: "one of three is dead, another one started again: `members remove` of the dead one",
        target: Some(2.0),
        measure: |plan| replaces(plan, Step::Remove),
    },
    Row {
        what: "then `members add` of a new node",
        target: Some(2.0),
        measure: |plan| replaces(plan, Step::Add),
    },
    Row {
        what: "the disk of a holder of rights is lost: from `members remove` until others spend them",
        target: None,
        measure: wiped,
    },
    Row {
        what: "its disk is replaced as docs/operations.md says: until all members know each other",
        target: None,
        measure: replaced,
    },
    Row {
        what: "a cut of 15 s, stalled, is over: until units spend that were made behind it",
        target: None,
        measure: |plan| cut(plan, Way::Stalled, 15),
    },
    Row {
        what: "a cut of 60 s, by resets",
        target: None,
        measure: |plan| cut(plan, Way::Reset, 60),
    },
    Row {
        what: "a cut of 60 s in one direction",
        target: None,
        measure: |plan| cut(plan, Way::Half, 60),
    },
    Row {
        what: "a connection silently carries nothing: until changes of both sides are at the other",
        target: Some(6.0),
        measure: |plan| silent(plan, SAID | HEARD),
    },
    Row {
        what: "the same in one direction",
        target: Some(6.0),
        measure: |plan| silent(plan, SAID),
    },
    Row {
        what: "units minted under a key while a member was away: from its start until others spend them",
        target: None,
        measure: keyed,
    },
    Row {
        what: "who has the rest of a sequence is dead: from `members remove` until the next number",
        target: None,
        measure: sequence,
    },
    Row {
        what: "all members were killed and start at once: until all are ready",
        target: Some(1.0),
        measure: all_at_once,
    },
];

/// Measures all rows, and says what was allowed of a limit while a member was dead.
pub(super) fn run(plan: &Plan<'_>) -> Result<String> {
    let rounds = if plan.quick {
        1
    } else {
        (plan.rounds / 10).max(1)
    };
    let mut text = format!(
        "Members of one space, each a process with a data folder, linked by TCP through gates. Seconds are \
         from the start of a process, the end of a cut or the command until the effect, in {rounds} rounds, \
         each with a mesh of its own. The start of a process takes some of it.\n\n\
         | fault, and what is waited for | seconds, median | most | target |\n|---|---:|---:|---|\n"
    );
    for row in &ROWS {
        let mut seconds = Vec::new();
        for _ in 0..rounds {
            let took = (row.measure)(plan).with_context(|| row.what.to_owned())?;
            println!("{}: {took:.2} s", row.what);
            seconds.push(took);
        }
        seconds.sort_by(f64::total_cmp);
        let (median, most) = (seconds[seconds.len() / 2], seconds[seconds.len() - 1]);
        let target = match row.target {
            None => String::new(),
            Some(target) if most <= target => format!("{target}: met"),
            Some(target) => format!("{target}: **missed**"),
        };
        let what = row.what;
        writeln!(text, "| {what} | {median:.2} | {most:.2} | {target} |")?;
    }
    let [dead, after] = limit(plan)?;
    writeln!(
        text,
        "\nOf a limit of {LIMIT} a period, two of three members allow {dead} in a period while the third one is \
         dead, and {after} in the first whole period after it was removed."
    )?;
    Ok(text)
}

/// A member, or a node that is to be one.
struct Member {
    folder: Arc<TempDir>,
    /// `None` while it is dead.
    node: Option<Node>,
    /// The ways to the members before and after it.
    gates: Vec<Gate>,
}

struct Mesh<'a> {
    program: &'a Path,
    members: Vec<Member>,
}

impl Mesh<'_> {
    /// Members that all know each other.
    fn of<'a>(plan: &Plan<'a>, count: usize) -> Result<Mesh<'a>> {
        let program = plan.node;
        let members = Vec::new();
        let mut mesh = Mesh { program, members };
        for _ in 0..count {
            mesh.push(count)?;
        }
        for at in 0..count {
            mesh.start(at)?;
        }
        mesh.change(0, "init", None)?;
        for at in 1..count {
            mesh.change(0, "add", Some(at))?;
        }
        mesh.settle()?;
        Ok(mesh)
    }

    /// A node that has ways to `count` nodes.
    fn push(&mut self, count: usize) -> Result<()> {
        let gates: Result<Vec<Gate>> = (0..count).map(|_| Gate::new()).collect();
        self.members.push(Member {
            folder: Arc::new(tempfile::tempdir()?),
            node: None,
            gates: gates?,
        });
        Ok(())
    }

    fn start(&mut self, at: usize) -> Result<()> {
        let member = &self.members[at];
        let others = member.gates.iter().enumerate();
        let others = others.filter(|(other, _)| *other != at);
        let peers: Vec<String> = others.map(|(_, gate)| gate.address.clone()).collect();
        let arguments = ["--address-book=off"];
        let node = Node::start_in(self.program, &member.folder, &arguments, &peers)?;
        for other in &self.members {
            if let Some(gate) = other.gates.get(at) {
                gate.lead_to(&node.listen);
            }
        }
        self.members[at].node = Some(node);
        Ok(())
    }

    /// Starts nodes, all at the same time.
    fn start_all(&mut self, which: &[usize]) -> Result<()> {
        for at in which {
            self.start(*at)?;
        }
        Ok(())
    }

    fn kill(&mut self, which: &[usize]) {
        for at in which {
            self.members[*at].node = None;
        }
    }

    fn node(&self, at: usize) -> Result<&Node> {
        self.members[at].node.as_ref().context("it is dead")
    }

    fn set(&self, way: Way, at: usize) {
        for (from, member) in self.members.iter().enumerate() {
            for (to, gate) in member.gates.iter().enumerate() {
                if (from == at) != (to == at) {
                    // In one direction, the one who is cut off is not heard.
                    let heard = way == Way::Half && to == at;
                    gate.set(if heard { Way::Open } else { way });
                }
            }
        }
    }

    fn owner(&self, at: usize) -> Result<String> {
        let status: Value = serde_json::from_str(&self.node(at)?.get("/v1/status")?)?;
        Ok(status["owner"].as_str().context("no owner")?.to_owned())
    }

    fn change(&self, by: usize, how: &str, whom: Option<usize>) -> Result<()> {
        let owner = whom.map(|at| self.owner(at)).transpose()?;
        self.change_owner(by, how, owner)
    }

    fn change_owner(&self, by: usize, how: &str, owner: Option<String>) -> Result<()> {
        let body = json!({ "owner": owner, "wait_ms": 60_000 });
        let body = if owner.is_some() { body } else { json!({}) };
        let path = format!("members/{how}");
        let (status, answer) = self.ask(by, &path, &[], &body.to_string())?;
        match status {
            200 => Ok(()),
            _ => bail!("{path}: {status} {answer}"),
        }
    }

    /// Posts to a path of the space.
    fn ask(
        &self,
        at: usize,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<(u16, Value)> {
        let node = self.node(at)?;
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        let agent: ureq::Agent = config.timeout_global(Some(LONGEST)).build().into();
        let mut request = agent.post(format!("{}{SPACE}/{path}", node.base));
        let token = node.folder().path().join("data").join("token");
        if let Ok(token) = fs::read_to_string(token) {
            request = request.header("authorization", format!("Bearer {}", token.trim()));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut answer = request.send(body)?;
        let value = answer.body_mut().read_json().unwrap_or(Value::Null);
        Ok((answer.status().as_u16(), value))
    }

    /// Whether a request is done.
    fn does(&self, at: usize, path: &str, body: &str) -> Result<bool> {
        Ok(self.ask(at, path, &[], body)?.0 == 200)
    }

    fn writes(&self, at: usize) -> Result<bool> {
        let headers = [("tallymesh-level", "quorum"), ("tallymesh-wait-ms", "250")];
        let (status, _) = self.ask(at, "counters/written/add", &headers, r#"{"by":"1"}"#)?;
        Ok(status == 200)
    }

    fn shows(&self, at: usize, path: &str, value: &str) -> Result<bool> {
        let shown = self.node(at)?.get(&format!("{SPACE}/{path}"));
        let shown: Option<Value> = shown.ok().and_then(|it| serde_json::from_str(&it).ok());
        Ok(shown.is_some_and(|it| it["value"] == value))
    }

    /// Waits until all nodes that run see all of them as members, whose next starts may follow these.
    fn settle(&self) -> Result<()> {
        let nodes: Vec<&Node> = self
            .members
            .iter()
            .filter_map(|it| it.node.as_ref())
            .collect();
        until(|| {
            for node in &nodes {
                let answer: Value = serde_json::from_str(&node.get(&format!("{SPACE}/members"))?)?;
                let rows = answer["members"].as_array().context("no members")?;
                let known = |row: &Value| !row["writer"].is_null() && row["unsure"] == false;
                if rows.len() != nodes.len() || !rows.iter().all(known) {
                    return Ok(false);
                }
                let place = node.folder().path().join("data").join("place.json");
                let kept = fs::read_to_string(place).unwrap_or_default();
                let writer = node.space()?["writer"].clone();
                if !kept.contains(writer.as_str().context("no writer")?) {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        Ok(())
    }
}

/// Waits until something is so, and says for how many seconds.
fn until(mut is_so: impl FnMut() -> Result<bool>) -> Result<f64> {
    let begun = Instant::now();
    while !is_so()? {
        if begun.elapsed() > LONGEST {
            bail!("not after {} s", LONGEST.as_secs());
        }
        thread::sleep(POLL);
    }
    Ok(begun.elapsed().as_secs_f64())
}

/// A mesh in which a member holds ten units of a budget.
fn with_rights<'a>(plan: &Plan<'a>, holder: usize) -> Result<Mesh<'a>> {
    let mesh = Mesh::of(plan, 3)?;
    until(|| mesh.does(holder, "budgets/gift/mint", TEN))?;
    Ok(mesh)
}

fn spends_again(plan: &Plan<'_>, dead: &[usize]) -> Result<f64> {
    let mut mesh = with_rights(plan, 1)?;
    mesh.kill(dead);
    mesh.kill(&[1]);
    let begun = Instant::now();
    mesh.start(1)?;
    until(|| mesh.does(1, "budgets/gift/spend", TEN))?;
    Ok(begun.elapsed().as_secs_f64())
}

fn writes_again(plan: &Plan<'_>, count: usize, dead: &[usize], again: &[usize]) -> Result<f64> {
    let mut mesh = Mesh::of(plan, count)?;
    mesh.kill(dead);
    mesh.kill(again);
    let begun = Instant::now();
    mesh.start_all(again)?;
    until(|| mesh.writes(again[0]))?;
    Ok(begun.elapsed().as_secs_f64())
}

/// A change of the members.
#[derive(PartialEq, Eq)]
enum Step {
    Remove,
    Add,
}

fn replaces(plan: &Plan<'_>, step: Step) -> Result<f64> {
    let mut mesh = Mesh::of(plan, 3)?;
    let dead = mesh.owner(2)?;
    mesh.kill(&[1, 2]);
    mesh.start(1)?;
    let begun = Instant::now();
    mesh.change_owner(0, "remove", Some(dead))?;
    if step == Step::Remove {
        return Ok(begun.elapsed().as_secs_f64());
    }
    mesh.push(3)?;
    mesh.start(3)?;
    let begun = Instant::now();
    mesh.change(1, "add", Some(3))?;
    Ok(begun.elapsed().as_secs_f64())
}

/// A mesh whose member 2 held rights that all know of, and is dead. Its key.
fn lost<'a>(plan: &Plan<'a>) -> Result<(Mesh<'a>, String)> {
    let mut mesh = with_rights(plan, 2)?;
    until(|| mesh.shows(0, "budgets/gift", "10"))?;
    let dead = mesh.owner(2)?;
    mesh.kill(&[2]);
    Ok((mesh, dead))
}

/// Waits until ten units of a budget are spent at a member, which may request rights for them.
fn spends(mesh: &Mesh<'_>, at: usize, budget: &str) -> Result<f64> {
    until(|| {
        let wait = [("tallymesh-rights-wait-ms", "1000")];
        let (status, _) = mesh.ask(at, &format!("budgets/{budget}/spend"), &wait, TEN)?;
        Ok(status == 200)
    })
}

fn wiped(plan: &Plan<'_>) -> Result<f64> {
    let (mesh, dead) = lost(plan)?;
    let begun = Instant::now();
    mesh.change_owner(0, "remove", Some(dead))?;
    spends(&mesh, 0, "gift")?;
    Ok(begun.elapsed().as_secs_f64())
}

fn replaced(plan: &Plan<'_>) -> Result<f64> {
    let (mut mesh, dead) = lost(plan)?;
    mesh.members[2].folder = Arc::new(tempfile::tempdir()?);
    let begun = Instant::now();
    mesh.start(2)?;
    mesh.change(0, "add", Some(2))?;
    mesh.change_owner(0, "remove", Some(dead))?;
    mesh.settle()?;
    Ok(begun.elapsed().as_secs_f64())
}

fn cut(plan: &Plan<'_>, way: Way, seconds: u64) -> Result<f64> {
    let mesh = with_rights(plan, 0)?;
    let seconds = if plan.quick { seconds.min(10) } else { seconds };
    mesh.set(way, 2);
    thread::sleep(Duration::from_secs(seconds));
    until(|| mesh.does(0, "budgets/late/mint", TEN))?;
    until(|| mesh.does(2, "counters/marker/add", r#"{"by":"1"}"#))?;
    mesh.set(Way::Open, 2);
    let begun = Instant::now();
    spends(&mesh, 2, "late")?;
    until(|| mesh.shows(0, "counters/marker", "1"))?;
    Ok(begun.elapsed().as_secs_f64())
}

fn silent(plan: &Plan<'_>, directions: u8) -> Result<f64> {
    let mesh = Mesh::of(plan, 2)?;
    for member in &mesh.members {
        member.gates.iter().for_each(|gate| gate.lose(directions));
    }
    let begun = Instant::now();
    for at in [0, 1] {
        mesh.does(at, "counters/marker/add", r#"{"by":"1"}"#)?;
    }
    until(|| Ok(mesh.shows(0, "counters/marker", "2")? && mesh.shows(1, "counters/marker", "2")?))?;
    Ok(begun.elapsed().as_secs_f64())
}

fn keyed(plan: &Plan<'_>) -> Result<f64> {
    let mut mesh = Mesh::of(plan, 3)?;
    mesh.kill(&[2]);
    let key = [("idempotency-key", "mint")];
    let (status, answer) = mesh.ask(0, "budgets/gift/mint", &key, TEN)?;
    if status != 200 {
        bail!("{status} {answer}");
    }
    let begun = Instant::now();
    mesh.start(2)?;
    spends(&mesh, 1, "gift")?;
    Ok(begun.elapsed().as_secs_f64())
}

fn sequence(plan: &Plan<'_>) -> Result<f64> {
    let mut mesh = Mesh::of(plan, 3)?;
    until(|| mesh.does(2, "sequences/visits", ""))?;
    until(|| mesh.does(2, "sequences/visits/next", ""))?;
    let next = |mesh: &Mesh<'_>| mesh.does(0, "sequences/visits/next", "");
    until(|| next(&mesh))?;
    let dead = mesh.owner(2)?;
    mesh.kill(&[2]);
    // What the other one holds is soon used up.
    while next(&mesh)? {}
    let begun = Instant::now();
    mesh.change_owner(0, "remove", Some(dead))?;
    until(|| next(&mesh))?;
    Ok(begun.elapsed().as_secs_f64())
}

fn all_at_once(plan: &Plan<'_>) -> Result<f64> {
    let mut mesh = Mesh::of(plan, 3)?;
    mesh.kill(&[0, 1, 2]);
    let begun = Instant::now();
    mesh.start_all(&[0, 1, 2])?;
    until(|| {
        let ready = |at| Ok::<bool, anyhow::Error>(mesh.node(at)?.get("/readyz").is_ok());
        Ok(ready(0)? && ready(1)? && ready(2)?)
    })?;
    Ok(begun.elapsed().as_secs_f64())
}

/// A limit of each period.
const LIMIT: usize = 90;
const PERIOD_MS: u64 = 5_000;

/// How much two of three members allow in a whole period: while the third one is dead, and after it was removed.
fn limit(plan: &Plan<'_>) -> Result<[usize; 2]> {
    let mut mesh = Mesh::of(plan, 3)?;
    let body = json!({ "limit": LIMIT, "period_ms": PERIOD_MS }).to_string();
    ureq::put(format!("{}{SPACE}/limits/api", mesh.node(0)?.base)).send(&body)?;
    let is_set =
        |at| Ok::<bool, anyhow::Error>(mesh.node(at)?.get(&format!("{SPACE}/limits/api")).is_ok());
    until(|| Ok(is_set(1)? && is_set(2)?))?;
    let dead = mesh.owner(2)?;
    mesh.kill(&[2]);
    next_period(&mesh)?;
    next_period(&mesh)?;
    let while_dead = allowed(&mesh)?;
    mesh.change_owner(0, "remove", Some(dead))?;
    next_period(&mesh)?;
    Ok([while_dead, allowed(&mesh)?])
}

/// Waits for the begin of a period.
fn next_period(mesh: &Mesh<'_>) -> Result<()> {
    let ends = || -> Result<Value> {
        let answer = mesh.node(0)?.get(&format!("{SPACE}/limits/api"))?;
        Ok(serde_json::from_str::<Value>(&answer)?["ends"].clone())
    };
    let present = ends()?;
    until(|| Ok(ends()? != present))?;
    Ok(())
}

/// Asks both members for more than there is, and returns how much they allow.
fn allowed(mesh: &Mesh<'_>) -> Result<usize> {
    let mut allowed = 0;
    for ask in 0..2 * LIMIT {
        let wait = [("tallymesh-rights-wait-ms", "0")];
        let (status, _) = mesh.ask(ask % 2, "limits/api/allow", &wait, "{}")?;
        allowed += usize::from(status == 200);
    }
    Ok(allowed)
}
