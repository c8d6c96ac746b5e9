//! The figures of a node, their documentation, and the dashboard that shows them: each names what there
//! is, and nothing else.

use crate::process::{Node, agent, eventually};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

/// Labels that Prometheus adds to whatever it reads.
const ADDED: [&str; 2] = ["instance", "job"];

/// Words of a query that are neither figures nor labels.
const WORDS: [&str; 7] = [
    "by",
    "count",
    "histogram_quantile",
    "label_values",
    "rate",
    "sum",
    "time",
];

/// The text of the figures of nodes that have done some of everything, joined.
fn figures() -> String {
    let node = Node::start(&["--resp", "127.0.0.1:0"]);
    let peer = node.listen[0].clone();
    let closed = Node::start(&["--connections-in", "0"]);
    let other = Node::start(&["--peer", &peer, &closed.listen[0]]);
    node.add("likes", 1);
    assert_eq!(
        node.put("/v1/spaces/default/counters/views", "{\"value\":1}")
            .0,
        200
    );
    let expire = node.post(
        "/v1/spaces/default/counters/views/expire",
        "{\"in_ms\":\"3600000\"}",
    );
    assert_eq!(
        (expire.0, node.get("/v1/spaces/default/counters/none").0),
        (200, 404)
    );
    for _ in 0..2 {
        let request = agent().post(format!("{}/v1/spaces/default/counters/k/add", node.url));
        let answer = request.header("idempotency-key", "a").send("");
        assert_eq!(answer.expect("an answer").status(), 200);
    }
    let mut client = TcpStream::connect(&node.resp).expect("connect");
    client
        .write_all(b"INCR likes\r\nNOSUCH\r\n")
        .expect("write");
    let mut answer = [0; 5];
    client.read_exact(&mut answer).expect("an answer");
    assert_eq!(node.post("/v1/spaces/default/members/init", "").0, 200);
    eventually("the other node has heard", || {
        (other.value("likes") == Some(2)).then_some(())
    });
    eventually("a connection was refused", || {
        let text = closed.get("/metrics").1;
        let mut lines = text.as_str().expect("text").lines();
        lines.find(|line| line.starts_with("tallymesh_network_refused_total{"))?;
        Some(())
    });
    let texts = [&node, &other, &closed].map(|node| {
        // The first scrape is a request that the second one tells of.
        node.get("/metrics");
        node.get("/metrics").1.as_str().expect("text").to_owned()
    });
    texts.join("\n")
}

/// The families that a text tells, as they are documented: with the ending of their kind.
fn families(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let name = |line: &str| {
        let (name, kind) = line.split_once(' ').expect("a name and a kind");
        match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        }
    };
    lines.map(name).collect()
}

/// The labels of each sample's name.
fn samples(text: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut samples = BTreeMap::<&str, BTreeSet<&str>>::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (head, _) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = head.split_once('{').unwrap_or((head, ""));
        let labels = labels.split(',').filter_map(|label| label.split_once('='));
        samples
            .entry(name)
            .or_default()
            .extend(labels.map(|label| label.0));
    }
    samples
}

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What a query asks for: figures, and labels of all of them.
#[derive(Debug, Default, PartialEq, Eq)]
struct SampleQuery<'a> {
    figures: BTreeSet<&'a str>,
    labels: BTreeSet<&'a str>,
}

fn asked(query: &str) -> SampleQuery<'_> {
    let is_part = |at: char| at.is_ascii_alphanumeric() || at == '_' || at == '$';
    let mut asked = SampleQuery::default();
    let (mut rest, mut depth, mut grouping) = (query, 0, false);
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let end = rest[1..].find('"').expect("the end of a text");
            rest = &rest[end + 2..];
        } else if first.is_ascii_alphabetic() || first == '_' || first == '$' {
            let end = rest.find(|at| !is_part(at)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            match word {
                _ if depth > 0 || grouping => _ = asked.labels.insert(word),
                "by" => grouping = true,
                _ if word.starts_with("tallymesh_") || word.starts_with("process_") => {
                    asked.figures.insert(word);
                }
                _ if WORDS.contains(&word) || word == "$__rate_interval" => {}
                // The label that `label_values` lists stands behind the comma.
                _ if query.starts_with("label_values") => _ = asked.labels.insert(word),
                _ => panic!("what is `{word}` in {query}?"),
            }
            rest = after;
        } else if first.is_ascii_digit() {
            rest = rest.trim_start_matches(|at: char| at.is_ascii_digit() || at == '.');
        } else {
            match first {
                '{' => depth += 1,
                '}' => depth -= 1,
                ')' => grouping = false,
                _ => {}
            }
            rest = &rest[1..];
        }
    }
    asked
}

#[test]
fn a_query_is_taken_apart() {
    let query = "sum by (le, route) (rate(tallymesh_a_bucket{instance=~\"$x\",b=\"c\"}[$__rate_interval])) / 2.5";
    let asked = asked(query);
    assert_eq!(asked.figures, BTreeSet::from(["tallymesh_a_bucket"]));
    assert_eq!(
        asked.labels,
        BTreeSet::from(["b", "instance", "le", "route"])
    );
}

#[test]
fn the_dashboard_asks_for_what_nodes_tell_and_all_that_is_told_is_documented() {
    let text = figures();
    let samples = samples(&text);
    let dashboard: Value = serde_json::from_str(&file("deploy/grafana.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array())
        .flatten();
    let mut queries: Vec<&str> = targets
        .map(|it| it["expr"].as_str().expect("a query"))
        .collect();
    let variables = dashboard["templating"]["list"]
        .as_array()
        .expect("variables");
    queries.extend(variables.iter().filter_map(|it| it["definition"].as_str()));
    assert!(queries.len() > 40, "the dashboard is empty");
    let mut shown = BTreeSet::new();
    for query in queries {
        let asked = asked(query);
        assert!(!asked.figures.is_empty(), "{query} asks for nothing");
        for figure in asked.figures {
            let labels = samples.get(figure);
            let labels = labels.unwrap_or_else(|| panic!("no node tells `{figure}`: {query}"));
            for label in &asked.labels {
                let known = labels.contains(label) || ADDED.contains(label);
                assert!(known, "`{figure}` has no label `{label}`: {query}");
            }
            shown.insert(figure.to_owned());
        }
    }
    let families = families(&text);
    for family in &families {
        let parts = ["", "_bucket", "_sum"].map(|end| format!("{family}{end}"));
        assert!(
            parts.iter().any(|part| shown.contains(part)),
            "no panel shows `{family}`"
        );
    }

    // A row of a table, whose first cell is the name of a figure.
    let operations = file("docs/operations.md");
    let rows = operations
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let rows = rows.map(|row| row.0);
    let is_figure = |name: &&str| name.starts_with("tallymesh_") || name.starts_with("process_");
    let mut documented: Vec<&str> = rows.filter(is_figure).collect();
    documented.sort_unstable();
    let told: Vec<&str> = families.iter().map(String::as_str).collect();
    assert_eq!(
        documented, told,
        "each figure stands once in a table of docs/operations.md"
    );
}

#[test]
fn requests_and_refusals_are_counted() {
    let node = Node::start(&[]);
    for _ in 0..3 {
        node.add("likes", 1);
    }
    assert_eq!(
        node.post("/v1/spaces/default/counters/likes/add", "{\"by\":\"x\"}")
            .0,
        400
    );
    assert_eq!(node.get("/v1/spaces/other/counters/likes").0, 404);
    assert_eq!(node.get("/nowhere").0, 404);
    let text = node.get("/metrics").1.as_str().expect("text").to_owned();
    let add = "route=\"/v1/spaces/{space}/counters/{key}/add\",method=\"POST\"";
    for line in [
        format!("tallymesh_http_requests_total{{{add},status=\"2xx\"}} 3"),
        format!("tallymesh_http_requests_total{{{add},status=\"4xx\"}} 1"),
        format!("tallymesh_http_request_duration_seconds_count{{{add}}} 4"),
        format!("tallymesh_http_request_duration_seconds_bucket{{le=\"+Inf\",{add}}} 4"),
        "tallymesh_http_requests_total{route=\"other\",method=\"GET\",status=\"4xx\"} 1".to_owned(),
        "tallymesh_refusals_total{protocol=\"http\",code=\"amount\"} 1".to_owned(),
        "tallymesh_refusals_total{protocol=\"http\",code=\"space_not_open\"} 1".to_owned(),
        format!(
            "tallymesh_build_info{{version=\"{}\"}} 1",
            env!("CARGO_PKG_VERSION")
        ),
    ] {
        assert!(
            text.lines().any(|told| told == line),
            "{line} is not in\n{text}"
        );
    }
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let value = line.unwrap_or_else(|| panic!("{name} is missing"));
        value.trim().parse::<f64>().expect("a number")
    };
    let log: u64 = fs::read_dir(node.data())
        .expect("the data folder")
        .map(|entry| entry.and_then(|it| it.metadata()).expect("a file").len())
        .sum();
    assert_eq!(value("tallymesh_data_bytes "), log as f64);
    let (free, size) = (
        value("tallymesh_disk_free_bytes "),
        value("tallymesh_disk_bytes "),
    );
    assert!(free > 0.0 && size > free, "{free} of {size}");
    if cfg!(target_os = "linux") {
        assert!(value("process_resident_memory_bytes ") > 1e6);
        let (open, limit) = (value("process_open_fds "), value("process_max_fds "));
        assert!(open > 3.0 && open < limit, "{open} of {limit}");
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let age = now.expect("a time").as_secs_f64() - value("process_start_time_seconds ");
    assert!((0.0..60.0).contains(&age), "{age} s");
}
