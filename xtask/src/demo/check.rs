//! `cargo xtask demo --check`: load, a cut node, a cut tab, healing, and an exact comparison.
//!
//! Three nodes and two tabs are five replicas. Each round of load adds through the command line of every node
//! and in both tabs. One round runs while all are connected, and one while a node and a tab are cut off. The
//! check computes the expected value of each counter as a plain sum.

mod load;
mod tabs;

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::json;

use super::cluster::{Cluster, Node};
use crate::repo::Repo;
use crate::run::go_on;
use crate::setup;
use load::Load;
use tabs::Tabs;

/// Every counter with its value.
type Counters = BTreeMap<String, i128>;

/// Lines for each node in each of the two rounds: 3 x 2 x 20,000 in all.
const LINES: usize = 20_000;
/// Adds in each tab in each of the two rounds.
const TAB_ADDS: usize = 2_000;
/// The node that is cut off. `CUT_TAB` is the tab, and its node is another one.
const CUT_NODE: usize = 2;
const CUT_TAB: usize = 1;
const CONVERGE_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// Runs the whole check on a cluster of its own.
///
/// # Errors
/// If a replica differs from the expected values. The text has the first differences.
pub(crate) fn check(repo: &Repo) -> Result<()> {
    let browser = setup::browser(repo)?;
    setup::npm_install(repo, "tests/e2e")?;
    let mut cluster = Cluster::start(&repo.node_binary())?;
    println!("three nodes are up");
    let pages = [cluster.nodes()[0].http(), cluster.nodes()[1].http()];
    let mut tabs = Tabs::open(repo, &browser, pages, cluster.folder())?;
    println!("two tabs are connected");

    let mut load = Load::new();
    add_everywhere(repo, &cluster, &mut tabs, &mut load)?;
    println!("counted while all are connected; waiting until all agree");
    converge(&mut cluster, &mut tabs, load.expected())?;

    cut_node(&cluster.nodes()[CUT_NODE], true)?;
    tabs.cut(CUT_TAB, true)?;
    println!(
        "cut off: node {} and tab {}; all go on counting",
        CUT_NODE + 1,
        CUT_TAB + 1
    );
    add_everywhere(repo, &cluster, &mut tabs, &mut load)?;
    really_apart(&cluster, &mut tabs, load.expected())?;

    cut_node(&cluster.nodes()[CUT_NODE], false)?;
    tabs.cut(CUT_TAB, false)?;
    println!("healed");
    let took = converge(&mut cluster, &mut tabs, load.expected())?;
    let expected = load.expected();
    println!(
        "converged: {} replicas, {} counters, total {}, in {:.1} s",
        cluster.nodes().len() + tabs.count(),
        expected.len(),
        expected.values().sum::<i128>(),
        took.as_secs_f32()
    );
    Ok(())
}

/// One round: adds at all nodes at once through their command lines, and in both tabs.
fn add_everywhere(repo: &Repo, cluster: &Cluster, tabs: &mut Tabs, load: &mut Load) -> Result<()> {
    let running: Vec<load::Feed> = cluster
        .nodes()
        .iter()
        .map(|node| {
            let lines = load.lines(LINES);
            load::Feed::start(&repo.node_binary(), node.http(), &lines)
        })
        .collect::<Result<_>>()?;
    for tab in 0..tabs.count() {
        tabs.add(tab, &load.lines(TAB_ADDS))?;
    }
    running.into_iter().try_for_each(load::Feed::finish)
}

/// Fails unless the cut replicas lack changes of the others. Otherwise the cut would prove nothing.
fn really_apart(cluster: &Cluster, tabs: &mut Tabs, expected: &Counters) -> Result<()> {
    if counters_of(&cluster.nodes()[CUT_NODE])? == *expected {
        bail!(
            "node {} was cut off and yet holds what the others counted",
            CUT_NODE + 1
        );
    }
    if tabs.counters(CUT_TAB)? == *expected {
        bail!(
            "tab {} was cut off and yet holds what the others counted",
            CUT_TAB + 1
        );
    }
    Ok(())
}

/// Waits until every counter at every replica has its expected value. Returns how long that took.
fn converge(cluster: &mut Cluster, tabs: &mut Tabs, expected: &Counters) -> Result<Duration> {
    let begun = Instant::now();
    loop {
        go_on()?;
        cluster.all_alive()?;
        let mut differences = Vec::new();
        for (number, node) in cluster.nodes().iter().enumerate() {
            compare(
                &format!("node {}", number + 1),
                &counters_of(node)?,
                expected,
                &mut differences,
            );
        }
        for tab in 0..tabs.count() {
            compare(
                &format!("tab {}", tab + 1),
                &tabs.counters(tab)?,
                expected,
                &mut differences,
            );
        }
        if differences.is_empty() {
            return Ok(begun.elapsed());
        }
        if begun.elapsed() > CONVERGE_LIMIT {
            let shown = differences.len().min(10);
            bail!(
                "not converged after {} s: {} differences, the first are\n  {}",
                CONVERGE_LIMIT.as_secs(),
                differences.len(),
                differences[..shown].join("\n  ")
            );
        }
        thread::sleep(POLL);
    }
}

/// Adds a line for every counter that is wrong, missing or unexpected at a replica.
fn compare(replica: &str, found: &Counters, expected: &Counters, differences: &mut Vec<String>) {
    for (key, value) in expected {
        match found.get(key) {
            Some(same) if same == value => {}
            Some(other) => {
                differences.push(format!("{replica}: {key} is {other}, expected {value}"))
            }
            None => differences.push(format!("{replica}: {key} is absent, expected {value}")),
        }
    }
    for key in found.keys().filter(|key| !expected.contains_key(*key)) {
        differences.push(format!("{replica}: {key} exists, expected absent"));
    }
}

/// A page of the list of counters, as a node answers it.
#[derive(Deserialize)]
struct Page {
    counters: Vec<Counter>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Counter {
    key: String,
    value: String,
}

fn counters_of(node: &Node) -> Result<Counters> {
    let mut found = Counters::new();
    let mut after: Option<String> = None;
    loop {
        let mut request = ureq::get(format!("{}/v1/spaces/default/counters", node.http()))
            .query("limit", "10000");
        if let Some(key) = &after {
            request = request.query("after", key);
        }
        let page: Page = request
            .call()
            .and_then(|mut answer| answer.body_mut().read_json())
            .with_context(|| format!("listing the counters of {}", node.http()))?;
        for counter in page.counters {
            found.insert(counter.key, counter.value.parse()?);
        }
        match page.next {
            Some(key) => after = Some(key),
            None => return Ok(found),
        }
    }
}

fn cut_node(node: &Node, cut: bool) -> Result<()> {
    ureq::post(format!("{}/v1/demo/cut", node.http()))
        .send_json(json!({ "cut": cut }))
        .with_context(|| format!("cutting or healing {}", node.http()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_difference_is_named() {
        let expected = Counters::from([("a".into(), 1), ("b".into(), 2), ("c".into(), 3)]);
        let found = Counters::from([("a".into(), 1), ("b".into(), 5), ("d".into(), 4)]);
        let mut differences = Vec::new();
        compare("tab 1", &found, &expected, &mut differences);
        assert_eq!(
            differences,
            [
                "tab 1: b is 5, expected 2",
                "tab 1: c is absent, expected 3",
                "tab 1: d exists, expected absent"
            ]
        );
    }
}
