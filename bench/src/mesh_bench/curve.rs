//! How times and bytes grow with the nodes: simulated with what was measured on a few, compared with
//! what was measured on more, and carried on to where no machine has so many processes.

use super::Plan;
use super::converge::{Mesh, RATE, percentile};
use super::world::{Place, Rounds, Sent, World};
use anyhow::{Context, Result};
use std::fmt::Write;
use std::time::Instant;

/// What a ping and the answer to one take each second on a connection, at each end: 32 bytes each,
/// every 5 s.
const PING_BYTES: f64 = 2.0 * 32.0 / 5.0;

/// Seconds that a simulated mesh is left alone, and that it is written to.
const SECONDS: u64 = 60;

/// Most rounds of all nodes at once in a simulated mesh that is compared with a real one.
const ROUNDS_OF_ALL: usize = 10;

/// What was measured on the smallest mesh, and the simulator goes by.
#[derive(Debug)]
struct Constants {
    /// Bytes of streams that a frame takes beside its own.
    frame: f64,
    /// The same of a push that is sent once.
    push: f64,
    /// Bytes of streams that an end of a link sends each second beside the space's digests: those of the
    /// address book, pings and what nodes tell about themselves.
    link: f64,
    /// Microseconds of processor time for each push that comes.
    work: f64,
    /// Microseconds for which a message is under way on this machine, beside that.
    way: f64,
}

impl Constants {
    fn of(meshes: &[Mesh], cores: usize) -> Result<Constants> {
        let small = meshes.first().context("no mesh was measured")?;
        let ends = small.links * small.nodes as f64;
        let idle = small.idle.traffic;
        let pings = |seconds: f64| PING_BYTES * ends * seconds;
        let beside = idle.streams.outbound - idle.all.bytes.outbound - pings(small.idle.seconds);
        let frame = beside / idle.all.messages.outbound;
        let of_space = idle.frame_bytes() + idle.frames() * frame;
        let link = (idle.streams.outbound - of_space) / small.idle.seconds / ends;
        let one = small.one.passed;
        let copies = one.traffic.push.messages.inbound;
        // A push is counted once when it goes out, and as often as it comes.
        let all = one.traffic.all;
        let others = all.bytes.outbound - one.traffic.push.bytes.outbound
            + (all.messages.outbound - one.traffic.push.messages.outbound) * frame
            + pings(one.seconds);
        let push =
            (one.traffic.streams.outbound - others - one.traffic.push.bytes.inbound) / copies;
        let busy = meshes.get(1).unwrap_or(small);
        let quiet = busy.idle.traffic.cpu / busy.idle.seconds;
        let all = busy.all.passed;
        let work = (all.traffic.cpu - quiet * all.seconds) / all.traffic.push.messages.inbound;
        let mut constants = Constants {
            frame,
            push,
            link,
            work: work * 1e6,
            way: 0.0,
        };
        let mut world = World::new(small.nodes, constants.here(cores), 1)?;
        let simulated = percentile(&world.rounds(100, false)?.each, 50);
        let measured = percentile(&small.one.each, 50);
        constants.way = (measured - simulated).max(0.0) * 1e3;
        Ok(constants)
    }

    /// All nodes on this machine.
    fn here(&self, cores: usize) -> Place {
        let way = self.way as u64;
        Place {
            way: (way, way),
            cores: Some(cores),
            work: self.work as u64,
        }
    }

    /// A machine for each, milliseconds apart.
    fn apart(&self, least: u64, most: u64) -> Place {
        Place {
            way: (least, most),
            cores: None,
            work: self.work as u64,
        }
    }

    /// Bytes of streams in what was sent, without what links take anyway.
    fn bytes(&self, sent: Sent) -> f64 {
        let frames = sent.frame_bytes as f64 + sent.frames as f64 * self.frame;
        let copies = sent.copy_bytes as f64 + sent.copies as f64 * self.push;
        frames + copies + sent.told_bytes as f64
    }
}

/// What came of a simulated mesh; bytes are a node's.
struct Simulated {
    nodes: usize,
    links: f64,
    one: Rounds,
    /// Bytes a minute when nothing changes.
    idle: f64,
    /// Bytes for one change, beyond that.
    change: f64,
    copies: f64,
    /// Bytes a second at [`RATE`] changes a second, those of frames among them, and bytes of a push.
    steady: f64,
    frames: f64,
    push: f64,
}

fn simulate(
    constants: &Constants,
    place: Place,
    nodes: usize,
    rounds: usize,
) -> Result<(Simulated, World)> {
    let begun = Instant::now();
    let mut world = World::new(nodes, place, nodes as u64)?;
    let links = world.overlay.degree();
    let count = nodes as f64;
    let quiet = world.idle(SECONDS);
    let second = constants.bytes(quiet) / SECONDS as f64;
    let one = world.rounds(rounds, false)?;
    let change = (constants.bytes(one.sent) - second * one.seconds) / one.changes as f64;
    let busy = world.steady(SECONDS)?;
    let of_link = constants.link * links;
    let frames = busy.frame_bytes as f64 + busy.frames as f64 * constants.frame;
    let simulated = Simulated {
        nodes,
        links,
        idle: (second / count + of_link) * 60.0,
        change: change / count,
        copies: one.sent.copies as f64 / one.changes as f64 / (count - 1.0),
        steady: constants.bytes(busy) / SECONDS as f64 / count + of_link,
        frames: frames / SECONDS as f64 / count,
        push: busy.push_bytes as f64 / busy.pushes as f64,
        one,
    };
    println!(
        "{nodes} nodes simulated in {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    Ok((simulated, world))
}

/// Simulates, compares and carries on; the tables are in Markdown.
pub(super) fn run(plan: &Plan<'_>, meshes: &[Mesh]) -> Result<String> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let constants = Constants::of(meshes, cores)?;
    let mut text = format!(
        "Each simulated node is a replica with its sync machine, as in a node. Modelled is what stands \
         between them: links as the address book makes them, gossip as gossipsub does it (whoever \
         makes a push sends it on all links, others pass it on to 5 to 12; what is new is told to up to \
         six others for three seconds), and these constants, of the meshes measured above: {:.0} bytes \
         of streams for a frame beside its own, {:.0} for a push that is sent once; {:.1} bytes a \
         second that an end of a link sends beside the space's digests; {:.0} us of processor time for a \
         push that comes; {:.0} us on the way on this machine beside that.\n\n\
         Compared with what was measured, all nodes on {cores} cores. The mesh of {} gave the constants; the \
         others are predicted.\n\n\
         | nodes | | measured | simulated | off by |\n\
         |---:|---|---:|---:|---:|\n",
        constants.frame,
        constants.push,
        constants.link,
        constants.work,
        constants.way,
        meshes.first().map_or(0, |mesh| mesh.nodes),
    );
    for mesh in meshes {
        compare(&mut text, &constants, mesh, cores)?;
    }
    let sizes: &[usize] = match plan.quick {
        true => &[10, 50, 100],
        false => &[10, 50, 100, 300, 1_000],
    };
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for &nodes in sizes {
        near.push(simulate(&constants, constants.apart(200, 1_000), nodes, plan.rounds)?.0);
        let mut world = World::new(nodes, constants.apart(10_000, 100_000), nodes as u64)?;
        far.push(world.rounds(plan.rounds, false)?);
    }
    curve(&mut text, &near, &far);
    Ok(text)
}

fn compare(text: &mut String, constants: &Constants, mesh: &Mesh, cores: usize) -> Result<()> {
    let rounds = mesh.one.last.len();
    let (one, mut world) = simulate(constants, constants.here(cores), mesh.nodes, rounds)?;
    let all = world.rounds(rounds.min(ROUNDS_OF_ALL), true)?;
    let count = mesh.nodes as f64;
    let (idle, steady) = (mesh.idle, mesh.steady);
    let push = mesh.one.passed.traffic.push;
    let steady_push = steady.traffic.push;
    let rows = [
        ("links of a node", mesh.links, one.links),
        (
            "copies of a push that come to a node",
            push.messages.inbound / mesh.one.passed.traffic.fresh,
            one.copies,
        ),
        (
            "one counts, ms, median",
            percentile(&mesh.one.each, 50),
            percentile(&one.one.each, 50),
        ),
        (
            "the last hears, ms, median",
            percentile(&mesh.one.last, 50),
            percentile(&one.one.last, 50),
        ),
        (
            "all count, the last hears, ms, median",
            percentile(&mesh.all.last, 50),
            percentile(&all.last, 50),
        ),
        (
            "bytes a node and change, one counts",
            mesh.one.passed.beyond(&idle, mesh.nodes) / mesh.one.changes as f64,
            one.change,
        ),
        (
            "bytes a node and minute, idle",
            idle.traffic.streams.outbound * 60.0 / idle.seconds / count,
            one.idle,
        ),
        (
            "bytes of a push at 10 changes a second",
            steady_push.bytes.outbound / steady_push.messages.outbound,
            one.push,
        ),
        (
            "bytes a node and second at 10 changes a second",
            steady.traffic.streams.outbound / steady.seconds / count,
            one.steady,
        ),
    ];
    for (name, measured, simulated) in rows {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "| {} | {name} | {measured:.1} | {simulated:.1} | {:+.0} % |",
            mesh.nodes,
            (simulated / measured - 1.0) * 100.0
        );
    }
    Ok(())
}

fn curve(text: &mut String, near: &[Simulated], far: &[Rounds]) {
    let _ = write!(
        text,
        "\nA processor for each node, links of 0.2 to 1 ms (near) and of 10 to 100 ms (far) one way. Each \
         node has counted before, so there are as many writers as nodes. Bytes are of streams that a \
         node sends.\n\n\
         | nodes | links each | near: ms, median | the last, median | p99 | far: ms, median | the last, median | p99 | copies | bytes a change | idle: bytes a minute | {RATE}/s: bytes a second | of these frames | bytes of a push |\n\
         |---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    for (near, far) in near.iter().zip(far) {
        let _ = writeln!(
            text,
            "| {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} | {:.0} | {:.1} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} |",
            near.nodes,
            near.links,
            percentile(&near.one.each, 50),
            percentile(&near.one.last, 50),
            percentile(&near.one.last, 99),
            percentile(&far.each, 50),
            percentile(&far.last, 50),
            percentile(&far.last, 99),
            near.copies,
            near.change,
            near.idle,
            near.steady,
            near.frames,
            near.push,
        );
    }
    carry_on(text, near, far);
    let names: Vec<String> = near.iter().map(|it| it.nodes.to_string()).collect();
    let last = |rounds: &Rounds| percentile(&rounds.last, 50);
    let far: Vec<f64> = far.iter().map(last).collect();
    chart(
        text,
        "Milliseconds until the last node has a change, far",
        &names,
        &far,
    );
    let steady: Vec<f64> = near.iter().map(|it| it.steady).collect();
    let title = format!("Bytes a second that a node sends, at {RATE} changes a second in the mesh");
    chart(text, &title, &names, &steady);
}

/// Says what ten times as many nodes would come to, if what the last ten times added goes on.
fn carry_on(text: &mut String, near: &[Simulated], far: &[Rounds]) {
    let Some(last) = near.len().checked_sub(1) else {
        return;
    };
    let tenth = near.iter().position(|it| it.nodes * 10 == near[last].nodes);
    let Some(tenth) = tenth else {
        return;
    };
    let time = |rounds: &Rounds| percentile(&rounds.last, 50);
    let more = |small: f64, large: f64| 2.0 * large - small;
    let times = |small: f64, large: f64| large * large / small;
    let _ = writeln!(
        text,
        "\nCarried on to {} nodes and not simulated: times grow by what they grew by from {} to {} nodes, \
         bytes by as many times. Near, the last node would have a change after {:.0} ms, far after {:.0} \
         ms; a push would have {:.0} bytes, and at {RATE} changes a second in the mesh a node would \
         send {:.0} KB a second.",
        near[last].nodes * 10,
        near[tenth].nodes,
        near[last].nodes,
        more(time(&near[tenth].one), time(&near[last].one)),
        more(time(&far[tenth]), time(&far[last])),
        times(near[tenth].push, near[last].push),
        times(near[tenth].steady, near[last].steady) / 1e3,
    );
}

/// A curve as Mermaid draws it.
fn chart(text: &mut String, title: &str, names: &[String], figures: &[f64]) {
    let figures: Vec<String> = figures.iter().map(|it| format!("{it:.0}")).collect();
    let _ = write!(
        text,
        "\n```mermaid\nxychart-beta\n    title \"{title}\"\n    x-axis \"nodes\" [{}]\n    line [{}]\n```\n",
        names.join(", "),
        figures.join(", ")
    );
}
