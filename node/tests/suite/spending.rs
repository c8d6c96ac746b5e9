//! Many clients spend one budget at three nodes, which are cut off, killed and started again.

use crate::budgets::budget;
use crate::members::close;
use crate::process::{Node, agent, eventually, read};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

const SPACE: &str = "/v1/spaces/default";

/// What is there to be spent, by how many clients, and how many spends each of them asks for: more than
/// there is.
const UNITS: usize = 10_000;
const CLIENTS: usize = 100;
const SPENDS: usize = 102;

/// What there is on the accounts together.
const ACCOUNTS: i128 = 300;

/// How long clients go on asking while nodes come and go.
const PATIENCE: Duration = Duration::from_secs(300);

/// What became of a spend, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Made,
    /// Not made by the node that answered; another may have made it before.
    Refused,
    Nothing,
}

/// The nodes as clients know them.
struct Mesh {
    urls: Vec<RwLock<String>>,
    done: AtomicBool,
    made: AtomicUsize,
    /// Spends that are not known to be made, by their keys.
    open: Mutex<BTreeSet<String>>,
}

impl Mesh {
    fn url(&self, at: usize) -> String {
        self.urls[at].read().expect("no panic").clone()
    }

    /// Asks a node to spend one unit under a key, and waits for rights so long.
    fn spend(&self, http: &ureq::Agent, at: usize, key: &str, wait_ms: &str) -> Known {
        let url = format!("{}{SPACE}/budgets/pot/spend", self.url(at));
        let request = http.post(url).header("idempotency-key", key);
        let request = request.header("tallymesh-rights-wait-ms", wait_ms);
        let Ok(response) = request.send(r#"{"amount":"1"}"#) else {
            return Known::Nothing;
        };
        let status = response.status().as_u16();
        match status {
            200 => Known::Made,
            409 | 404 => Known::Refused,
            _ => Known::Nothing,
        }
    }

    /// One client: asks for its spends one after the other, each until a node has said something.
    fn client(&self, number: usize) {
        let http = agent();
        // Some wait for rights, the others are refused and try elsewhere.
        let wait_ms = ["0", "200"][number % 2];
        for count in 0..SPENDS {
            let key = format!("{number}-{count}");
            // Refused where too little is held, it goes on to the next node.
            let made = (0..6).any(|attempt| {
                let at = (number + count + attempt) % self.urls.len();
                self.spend(&http, at, &key, wait_ms) == Known::Made
            });
            match made {
                true => {
                    self.made.fetch_add(1, Ordering::Relaxed);
                }
                false => {
                    self.open.lock().expect("no panic").insert(key);
                }
            }
        }
    }

    /// Reads nodes over and over: no view is ever under the floor, and what is moved between accounts is
    /// always all there.
    fn reader(&self) -> usize {
        let http = agent();
        let mut reads = 0;
        while !self.done.load(Ordering::Relaxed) {
            for at in 0..self.urls.len() {
                let url = format!("{}{SPACE}/budgets", self.url(at));
                let Ok(response) = http.get(url).call() else {
                    continue;
                };
                let (status, page) = read(response);
                if status == 200 {
                    check(&page);
                    reads += 1;
                }
            }
            thread::sleep(Duration::from_millis(20));
        }
        reads
    }

    /// Moves units between accounts at all nodes.
    fn mover(&self) -> usize {
        let http = agent();
        let (mut at, mut moved) = (0, 0);
        while !self.done.load(Ordering::Relaxed) {
            at += 1;
            let (from, to) = (at % 3, (at + 1 + at / 3 % 2) % 3);
            let url = self.url(at % self.urls.len());
            let body = json!({ "to": [{ "key": format!("account/{to}"), "amount": 1 + at % 5 }] });
            let url = format!("{url}{SPACE}/budgets/account%2F{from}/transfer");
            if let Ok(response) = http.post(url).send(body.to_string()) {
                moved += usize::from(response.status().as_u16() == 200);
            }
            thread::sleep(Duration::from_millis(5));
        }
        moved
    }
}

fn number(value: &Value) -> i128 {
    let text = value.as_str().unwrap_or_else(|| panic!("{value}"));
    text.parse().expect("a number")
}

/// What has to be true of each read.
fn check(page: &Value) {
    let mut accounts = 0;
    for row in page["budgets"].as_array().expect("budgets") {
        let (value, floor) = (number(&row["value"]), number(&row["floor"]));
        assert!(value >= floor, "{row}");
        let holders = row["holders"].as_array().expect("holders");
        let rights: Vec<i128> = holders.iter().map(|it| number(&it["rights"])).collect();
        assert!(rights.iter().all(|it| *it >= 0), "{row}");
        assert_eq!(rights.iter().sum::<i128>(), value - floor, "{row}");
        let name = row["key"].as_str().expect("a name");
        match name.starts_with("account/") {
            true => accounts += value,
            false => assert!(value <= UNITS as i128, "{row}"),
        }
    }
    assert_eq!(accounts, ACCOUNTS, "{page}");
}

fn cut(node: &Node, cut: bool) {
    let (status, answer) = node.post("/v1/demo/cut", &json!({ "cut": cut }).to_string());
    assert_eq!(status, 200, "{answer}");
}

/// Ends readers and movers when it is dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The arguments of a node that is to be linked to others.
fn linked_to<'a>(others: impl Iterator<Item = &'a Node>) -> Vec<String> {
    let peers: Vec<String> = others.map(|node| node.listen[0].clone()).collect();
    let mut arguments = vec!["--demo".to_owned()];
    if !peers.is_empty() {
        arguments.push("--peer".to_owned());
        arguments.extend(peers);
    }
    arguments
}

/// Three nodes that are all linked, as members.
fn mesh() -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for _ in 0..3 {
        let arguments = linked_to(nodes.iter());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        nodes.push(Node::start(&arguments));
    }
    close(&nodes.iter().collect::<Vec<_>>());
    nodes
}

/// Starts a node again that was killed, at another address.
fn start_again(mesh: &Mesh, nodes: &mut [Node], at: usize) {
    let others = nodes.iter().enumerate().filter(|it| it.0 != at);
    let arguments = linked_to(others.map(|it| it.1));
    nodes[at].start_again_with(arguments);
    *mesh.urls[at].write().expect("no panic") = nodes[at].url.clone();
}

/// Mints what is to be spent, and the accounts, at the first node. The others ask it for their part.
fn prepare(nodes: &[&Node]) {
    let mut ops = vec![json!({ "op": "mint", "key": "pot", "amount": UNITS })];
    for account in 0..3 {
        let key = format!("account/{account}");
        ops.push(json!({ "op": "mint", "key": key, "amount": ACCOUNTS as u64 / 3 }));
    }
    let body = json!({ "ops": ops }).to_string();
    let (status, answer) = nodes[0].post(&format!("{SPACE}/transactions"), &body);
    assert_eq!(status, 200, "{answer}");
    eventually("each node has received it", || {
        let has = |node: &&Node| budget(node, "pot")["value"] == UNITS.to_string().as_str();
        nodes.iter().all(has).then_some(())
    });
}

/// Waits until so many spends are known to be made, or nothing more is made for a while.
fn until_made(mesh: &Mesh, wanted: usize) {
    let (mut seen, mut since) = (0, Instant::now());
    while mesh.made.load(Ordering::Relaxed) < wanted && since.elapsed() < Duration::from_secs(3) {
        let made = mesh.made.load(Ordering::Relaxed);
        if made != seen {
            (seen, since) = (made, Instant::now());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Asks again for what is not known to be made, until nothing is left anywhere; returns how many more
/// were made.
fn ask_again(mesh: &Mesh, nodes: &[&Node]) -> usize {
    let http = agent();
    let (begun, mut more) = (Instant::now(), 0);
    loop {
        let open: Vec<String> = mesh
            .open
            .lock()
            .expect("no panic")
            .iter()
            .cloned()
            .collect();
        let mut made = 0;
        for key in &open {
            if (0..nodes.len()).any(|at| mesh.spend(&http, at, key, "0") == Known::Made) {
                mesh.open.lock().expect("no panic").remove(key);
                made += 1;
            }
        }
        more += made;
        let all = mesh.made.load(Ordering::Relaxed) + more;
        assert!(all <= UNITS, "{all} spends were made of {UNITS}");
        let same = nodes
            .iter()
            .all(|it| it.space()["digest"] == nodes[0].space()["digest"]);
        let spent = nodes.iter().all(|it| budget(it, "pot")["value"] == "0");
        if made == 0 && same && spent {
            return more;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "{} are open: {}",
            open.len(),
            budget(nodes[0], "pot")
        );
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_hundred_clients_spend_all_there_is_and_not_one_more() {
    let mut nodes = mesh();
    prepare(&nodes.iter().collect::<Vec<_>>());
    let mesh = Mesh {
        urls: nodes.iter().map(|it| RwLock::new(it.url.clone())).collect(),
        done: AtomicBool::new(false),
        made: AtomicUsize::new(0),
        open: Mutex::default(),
    };
    let (reads, moved) = thread::scope(|scope| {
        let mesh = &mesh;
        // Also if something is wrong, or it would never be told.
        let end = End(&mesh.done);
        let reader = scope.spawn(|| mesh.reader());
        let mover = scope.spawn(|| mesh.mover());
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || mesh.client(number)))
            .collect();
        until_made(mesh, UNITS / 5);
        cut(&nodes[1], true);
        until_made(mesh, 2 * UNITS / 5);
        // While one is cut off, another ends without any warning.
        nodes[2].kill();
        until_made(mesh, 3 * UNITS / 5);
        start_again(mesh, &mut nodes, 2);
        until_made(mesh, 7 * UNITS / 10);
        cut(&nodes[1], false);
        nodes[0].kill();
        until_made(mesh, 8 * UNITS / 10);
        start_again(mesh, &mut nodes, 0);
        for client in clients {
            client.join().expect("a client");
        }
        let all: Vec<&Node> = nodes.iter().collect();
        let more = ask_again(mesh, &all);
        mesh.made.fetch_add(more, Ordering::Relaxed);
        drop(end);
        (
            reader.join().expect("no view is wrong"),
            mover.join().expect("moves"),
        )
    });
    assert!(reads > 10 && moved > 10, "{reads} reads, {moved} moves");
    assert_eq!(mesh.made.load(Ordering::Relaxed), UNITS);
    let open = mesh.open.lock().expect("no panic").len();
    assert_eq!(open, CLIENTS * SPENDS - UNITS);
    for node in &nodes {
        assert_eq!(node.get(&format!("{SPACE}/budgets/pot")).1["value"], "0");
        assert_eq!(node.space()["faults"], 0, "{}", node.log());
        let audited = node.run(&["budget", "audit"], "");
        assert!(
            audited.status.success(),
            "{}",
            String::from_utf8_lossy(&audited.stdout)
        );
    }
}
