//! The facts that a node reports over HTTP.

use crate::client::Client;
use crate::failure::Failure;
use crate::members::KeyForm;
use crate::time;
use serde_json::Value;
use std::time::SystemTime;
use tallymesh_node_ground::problems::{STORE_LOST, STORE_WAITS};

/// The input of all checks.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// The version of this program.
    pub(super) version: String,
    /// The answer of `/v1/status`.
    pub(super) status: Value,
    /// The rows of `/v1/peers`.
    pub(super) peers: Value,
    /// The configured peers that are not reached.
    pub(super) unreached: Value,
    /// The answer of `/metrics`.
    pub(super) metrics: NodeMetrics,
    /// The code and the text of the reason, if the node is not ready.
    pub(super) not_ready: Option<(String, String)>,
    /// By how many milliseconds the node's clock is ahead of this machine's. The duration of the
    /// request is accounted for.
    pub(super) ahead_ms: Option<i64>,
    /// How much of a member's key is told.
    pub(super) keys: KeyForm,
}

impl Facts {
    pub(super) fn fetch(client: &Client, keys: KeyForm) -> Result<Facts, Failure> {
        client.text("/healthz")?;
        let not_ready = match client.text("/readyz") {
            Ok(_) => None,
            Err(Failure::Refused { detail, code, .. }) => {
                if [STORE_LOST.code, STORE_WAITS.code].contains(&code.as_str()) {
                    // A request that needs the store would not be answered.
                    return Ok(Facts {
                        version: env!("CARGO_PKG_VERSION").to_owned(),
                        metrics: NodeMetrics::parse(&client.text("/metrics")?),
                        not_ready: Some((code, detail)),
                        ..Facts::default()
                    });
                }
                Some((code, detail))
            }
            Err(failure) => return Err(failure),
        };
        let before = time::unix_millis(SystemTime::now());
        let status = client.get("/v1/status")?;
        let after = time::unix_millis(SystemTime::now());
        let told = status["time"].as_str().and_then(|time| time.parse().ok());
        let mut links = client.get("/v1/peers")?;
        Ok(Facts {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            metrics: NodeMetrics::parse(&client.text("/metrics")?),
            ahead_ms: told.map(|told| ahead(told, before, after)),
            status,
            peers: links["peers"].take(),
            unreached: links["unreached"].take(),
            not_ready,
            keys,
        })
    }

    /// The state of each space.
    pub(super) fn spaces(&self) -> impl Iterator<Item = &Value> {
        self.status["spaces"].as_array().into_iter().flatten()
    }

    /// The state of each space with members.
    pub(super) fn closed(&self) -> impl Iterator<Item = (&Value, &Value)> {
        let memberships = self.spaces().map(|space| (space, &space["membership"]));
        memberships.filter(|it| !it.1["configuration"].is_null())
    }

    /// How long the node has run, in milliseconds by its own clock.
    pub(super) fn age_ms(&self) -> u64 {
        let time = |field: &str| self.status[field].as_str()?.parse::<u64>().ok();
        let age = time("time").zip(time("started"));
        age.map_or(0, |(now, started)| now.saturating_sub(started))
    }
}

/// By how much a clock is ahead that showed the time `told` at some moment from `before` to
/// `after`. Returns 0 if it may have been right.
fn ahead(told: u64, before: u64, after: u64) -> i64 {
    let far = |from: u64, to: u64| i64::try_from(from.abs_diff(to)).unwrap_or(i64::MAX);
    match told {
        told if told > after => far(told, after),
        told if told < before => -far(told, before),
        _ => 0,
    }
}

/// The metrics of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeMetrics(Vec<Sample>);

#[derive(Clone, Debug)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

impl NodeMetrics {
    /// Reads the text format, and ignores lines that it does not know.
    pub(super) fn parse(text: &str) -> NodeMetrics {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        NodeMetrics(lines.filter_map(sample).collect())
    }

    /// A figure, summed over its labels.
    pub(super) fn sum(&self, name: &str) -> Option<f64> {
        let mut values = self
            .0
            .iter()
            .filter(|it| it.name == name)
            .map(|it| it.value);
        let first = values.next()?;
        Some(first + values.sum::<f64>())
    }

    /// A figure with these labels, and perhaps others.
    pub(super) fn with(&self, name: &str, labels: [(&str, &str); 2]) -> Option<f64> {
        let has = |it: &Sample, label: (&str, &str)| {
            it.labels.iter().any(|own| (&*own.0, &*own.1) == label)
        };
        let mut of_name = self.0.iter().filter(|it| it.name == name);
        let found = of_name.find(|it| labels.iter().all(|label| has(it, *label)));
        found.map(|it| it.value)
    }

    /// The greatest bound of a histogram without labels that covers less than this share of its
    /// values. Returns `None` if the histogram has fewer values than `at_least`.
    pub(super) fn exceeded(&self, name: &str, share: f64, at_least: f64) -> Option<f64> {
        let count = self.sum(&format!("{name}_count"))?;
        let name = format!("{name}_bucket");
        let buckets = self.0.iter().filter(|it| it.name == name);
        let bound = |it: &Sample| {
            let le = it.labels.iter().find(|label| label.0 == "le")?;
            le.1.parse::<f64>().ok() // which reads +Inf too
        };
        let short = buckets.filter(|it| count >= at_least && it.value < count * share);
        short.filter_map(bound).max_by(f64::total_cmp)
    }
}

/// Reads one line: a name, optional labels, and a value. The labels contain no quotes and no
/// commas, because names of spaces and routes contain neither.
fn sample(line: &str) -> Option<Sample> {
    let (head, value) = line.rsplit_once(' ')?;
    let (name, labels) = head.split_once('{').unwrap_or((head, ""));
    let labels = labels.trim_end_matches('}').split(',');
    let label = |label: &str| {
        let (name, value) = label.split_once('=')?;
        Some((name.to_owned(), value.trim_matches('"').to_owned()))
    };
    Some(Sample {
        name: name.to_owned(),
        labels: labels.filter_map(label).collect(),
        value: value.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read_with_their_labels() {
        let text =
            "# HELP a x.\na_total 5\nb{space=\"x\"} 2\nb{space=\"y\"} 3\nc 1.5e3\nbroken\n# EOF\n";
        let metrics = NodeMetrics::parse(text);
        let sum = |name| metrics.sum(name);
        assert_eq!(
            (sum("a_total"), sum("b"), sum("c")),
            (Some(5.0), Some(5.0), Some(1500.0))
        );
        let text = "d{x=\"1\",y=\"2\"} 3\nd{x=\"1\",y=\"3\"} 4\n";
        let with = |y| NodeMetrics::parse(text).with("d", [("x", "1"), ("y", y)]);
        assert_eq!(
            [with("2"), with("3"), with("4")],
            [Some(3.0), Some(4.0), None]
        );
        assert_eq!((sum("none"), sum("broken")), (None, None));
    }

    #[test]
    fn a_bound_is_exceeded_by_more_than_a_share() {
        let text = "h_count 1000\nh_bucket{le=\"0.1\"} 980\nh_bucket{le=\"0.2\"} 990\n\
                    h_bucket{le=\"+Inf\"} 1000\n";
        let metrics = NodeMetrics::parse(text);
        assert_eq!(metrics.exceeded("h", 0.98, 1.0), None);
        assert_eq!(metrics.exceeded("h", 0.99, 1.0), Some(0.1));
        assert_eq!(metrics.exceeded("h", 0.999, 1.0), Some(0.2));
        assert_eq!(metrics.exceeded("h", 0.99, 1001.0), None, "too few to say");
    }

    #[test]
    fn a_clock_is_wrong_only_beyond_what_the_request_took() {
        assert_eq!([ahead(100, 100, 200), ahead(200, 100, 200)], [0, 0]);
        assert_eq!([ahead(250, 100, 200), ahead(40, 100, 200)], [50, -60]);
    }
}
