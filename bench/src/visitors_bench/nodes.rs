//! Three nodes with pages at each of them, which all add at once: what the nodes send each other.

use super::Plan;
use super::servers::{Server, Who};
use super::table::{Measure, aim, head, plain, table};
use anyhow::Result;

const NODES: usize = 3;
/// How many pairs they are.
const PAIRS: usize = 3;

const MEASURES: [Measure; 5] = [
    plain("all are online", "s"),
    plain("all add: until all agree", "s"),
    aim("between two nodes, both directions", 100e3, "B", 3_000),
    plain("growth of the first node's memory at the peak", "MiB"),
    plain("`kill -9` of a node as all add: until all agree", "s"),
];

pub(super) fn run(plan: &Plan<'_>) -> Result<String> {
    let links = plan.args.links;
    let found = plan.each(&[Who::Ours], links, |stage, found| {
        for _ in 1..NODES {
            stage.link_node(links)?;
        }
        found.put(stage.fill(links)?.as_secs_f64());
        stage.quiet()?;
        let before = sent(&stage.servers)?;
        found.put(stage.add_all()?.0.as_secs_f64());
        stage.check()?;
        found.put((sent(&stage.servers)? - before) / PAIRS as f64);
        found.put(stage.growth()? as f64 / f64::from(1 << 20));
        found.put(stage.crash(links)?.as_secs_f64());
        Ok(())
    })?;
    let text = "A third of them at each of three nodes, which are all linked. Bytes are those of all streams of \
        libp2p until all agree.";
    Ok(head(plan, links, text) + &table(links, &MEASURES, &found))
}

fn sent(nodes: &[Server]) -> Result<f64> {
    nodes.iter().map(Server::sent_to_nodes).sum()
}
