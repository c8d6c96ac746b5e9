//! A data folder that is moved, removed or taken by another while its node runs, and a store that hangs.

use super::process::{self, DEADLINE, Node, eventually, up};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};
use tallymesh_core::Space;
use tallymesh_node::config::UpArgs;
use tallymesh_node::node::Node as Library;
use tallymesh_node::store::{Each, Memory, Record, Store, StoreError};

/// Whether a write is acknowledged within a second.
fn adds(node: &Node) -> bool {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(1)));
    let url = format!("{}/v1/spaces/default/counters/a/add", node.url);
    let answer = config.build().new_agent().post(url).send("");
    answer.is_ok_and(|answer| answer.status() == 200)
}

fn is_lost(node: &Node) {
    let began = Instant::now();
    let (status, answer) = node.get("/readyz");
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!(
        (status, &answer["code"]),
        (503, &json!("store_lost")),
        "{answer}"
    );
    let doctor = node.run(&["doctor"], "");
    let told = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert_eq!(doctor.status.code(), Some(1), "{told}");
    assert!(told.contains("Put the folder back"), "{told}");
    node.has_logged(&["no longer this node's"]);
}

/// A second node on a folder, which is to be refused.
fn second(data: &Path) -> Output {
    let mut up = up(data);
    up.args(["--http", "127.0.0.1:0", "--listen", "/ip4/127.0.0.1/tcp/0"]);
    up.output().expect("run")
}

#[test]
fn a_node_whose_lock_is_removed_acknowledges_nothing_and_stays_alone() {
    let mut node = Node::start(&[]);
    assert!(adds(&node));
    let data = node.data();
    fs::remove_file(data.join("lock")).expect("remove");
    assert!(!adds(&node), "acknowledged without a lock");
    is_lost(&node);
    let refused = second(&data);
    assert_eq!(refused.status.code(), Some(1));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("is in use by another process"), "{told}");
    assert_eq!(
        node.terminate().code(),
        Some(1),
        "what it had not acknowledged is not kept"
    );
    node.start_again();
    // The one that was not acknowledged may be there, as it was written to this node's own files.
    assert!(node.value("a").is_some_and(|it| (1..=2).contains(&it)));
}

#[test]
fn a_node_whose_folder_is_gone_or_another_goes_on_when_it_is_back() {
    let node = Node::start(&[]);
    assert!(adds(&node));
    let (data, aside) = (node.data(), node.data().with_extension("aside"));
    fs::rename(&data, &aside).expect("move");
    // It notices without anybody who writes.
    eventually("it notices", || {
        (node.get("/readyz").0 == 503).then_some(())
    });
    assert!(!adds(&node), "acknowledged without a folder");
    is_lost(&node);
    // A stranger takes the name.
    let other = Node::start(&[]);
    other.add("b", 7);
    fs::rename(other.data(), &data).expect("move");
    let before = listing(&data);
    assert!(!adds(&node), "acknowledged into another's folder");
    is_lost(&node);
    assert_eq!(listing(&data), before, "it wrote into another's folder");
    drop(other);
    fs::remove_dir_all(&data).expect("remove");
    fs::rename(&aside, &data).expect("move back");
    eventually("it goes on", || adds(&node).then_some(()));
    eventually("it is ready", || {
        (node.get("/readyz").0 == 200).then_some(())
    });
}

fn listing(folder: &Path) -> Vec<(String, u64)> {
    let entries = fs::read_dir(folder).expect("a folder");
    let facts = entries.map(|entry| {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, entry.metadata().expect("facts").len())
    });
    let mut facts: Vec<_> = facts.collect();
    facts.sort();
    facts
}

#[test]
fn a_removed_folder_is_noticed_before_the_next_answer() {
    let mut node = Node::start(&[]);
    assert!(adds(&node));
    fs::remove_dir_all(node.data()).expect("remove");
    assert!(!adds(&node), "acknowledged without a folder");
    is_lost(&node);
    assert_eq!(node.terminate().code(), Some(1));
}

/// With an interval an answer waits for no commit, until it is known that none will come.
#[test]
fn a_node_without_its_folder_acknowledges_nothing_with_an_interval_either() {
    let mut node = Node::start(&["--durability", "interval:30s"]);
    assert!(adds(&node));
    fs::remove_file(node.data().join("lock")).expect("remove");
    eventually("it notices", || {
        (node.get("/readyz").0 == 503).then_some(())
    });
    assert!(!adds(&node), "acknowledged without a lock");
    assert!(!adds(&node), "acknowledged, as nothing had changed since");
    is_lost(&node);
    assert_eq!(node.terminate().code(), Some(1));
}

/// A store that hangs as long as a file is there.
struct Hanging {
    kept: Memory,
    while_there: std::path::PathBuf,
}

impl Store for Hanging {
    fn identity(&mut self, fresh: [u8; 32]) -> Result<[u8; 32], StoreError> {
        self.kept.identity(fresh)
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn load(&mut self, space: &Space, each: &mut Each<'_>) -> Result<(), StoreError> {
        self.kept.load(space, each)
    }

    fn commit(&mut self, records: &[Record]) -> Result<(), StoreError> {
        while self.while_there.exists() {
            thread::sleep(Duration::from_millis(5));
        }
        self.kept.commit(records)
    }

    fn wants_snapshot(&self) -> Option<Space> {
        None
    }

    fn has_idle_work(&self) -> bool {
        false
    }

    fn prepare(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }
}

#[test]
fn health_is_told_within_a_second_while_the_store_hangs() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("hang");
    let text = |text: &str| Some(text.to_owned());
    let config = UpArgs {
        data: Some(folder.path().join("data")),
        http: text("127.0.0.1:0"),
        listen: Some(vec!["/ip4/127.0.0.1/tcp/0".into()]),
        ..UpArgs::default()
    };
    let config = config.config().expect("a configuration");
    let store = Hanging {
        kept: Memory::default(),
        while_there: file.clone(),
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let node = runtime.block_on(Library::start_on(Box::new(store), config));
    let url = node.as_ref().expect("start").url();
    let get = |path: &str| {
        let began = Instant::now();
        let answer = process::read(
            process::agent()
                .get(format!("{url}{path}"))
                .call()
                .expect("an answer"),
        );
        (answer, began.elapsed())
    };
    eventually("it is ready", || (get("/readyz").0.0 == 200).then_some(()));
    fs::write(&file, "").expect("write");
    let add = format!("{url}/v1/spaces/default/counters/a/add");
    let writer = thread::spawn(move || process::agent().post(add).send("").map(|it| it.status()));
    let deadline = Instant::now() + DEADLINE;
    loop {
        let ((status, answer), _) = get("/readyz");
        if status == 503 {
            assert_eq!(answer["code"], "store_waits");
            let detail = answer["detail"].as_str().expect("a text");
            assert!(detail.contains("has not answered for"), "{detail}");
            break;
        }
        assert!(Instant::now() < deadline, "it is ready all the time");
    }
    let ((status, _), took) = get("/readyz");
    assert!(status == 503 && took < Duration::from_secs(1), "{took:?}");
    let ((status, figures), took) = get("/metrics");
    assert!(status == 200 && took < Duration::from_secs(1), "{took:?}");
    let figures = match figures {
        Value::String(figures) => figures,
        other => other.to_string(),
    };
    let waits = figures
        .lines()
        .find_map(|line| line.strip_prefix("tallymesh_store_waits_seconds "));
    let waits: f64 = waits.expect("the figure").parse().expect("a number");
    assert!(waits >= 1.0, "{waits}");
    let began = Instant::now();
    let doctor = std::process::Command::new(env!("CARGO_BIN_EXE_tallymesh"))
        .args(["doctor", "--node", &url])
        .output()
        .expect("run");
    let told = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(began.elapsed() < Duration::from_secs(2), "{told}");
    assert!(told.contains("the store has not answered for"), "{told}");
    fs::remove_file(&file).expect("remove");
    let status = writer.join().expect("no panic").expect("an answer");
    assert_eq!(status, 200, "what was asked meanwhile is done");
    eventually("it is ready", || (get("/readyz").0.0 == 200).then_some(()));
}
