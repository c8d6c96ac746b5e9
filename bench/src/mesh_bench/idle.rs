//! What two nodes exchange that hold the same and do nothing.

use super::Plan;
use super::guest::Guest;
use super::nodes::{Node, Traffic, traffic_of};
use super::wire::Wire;
use anyhow::{Result, bail};
use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant};

/// How long after the last transfer nodes are left alone: gossip has found its peers by then, and what
/// was pulled has been told.
const SETTLE: Duration = Duration::from_secs(30);

/// Two nodes with one connection between them that is counted.
pub(super) struct Pair {
    pub(super) nodes: [Node; 2],
    pub(super) wire: Wire,
    /// Who brought the counters.
    pub(super) guest: Guest,
}

impl Pair {
    /// Two nodes that hold so many counters of so many writers.
    pub(super) fn with(plan: &Plan<'_>, counters: usize, writers: usize) -> Result<Pair> {
        let first = Node::start(plan.node, &[])?;
        let mut guest = Guest::with(counters, writers)?;
        guest.sync(&first)?;
        let wire = Wire::to(&first.listen)?;
        let second = Node::start(plan.node, std::slice::from_ref(&wire.address))?;
        second.wait_for_all_of(&first)?;
        let held = second.space()?;
        if held["counters"] != counters || held["writers"] != writers {
            bail!("not {counters} counters of {writers} writers: {held}");
        }
        let nodes = [first, second];
        Ok(Pair { nodes, wire, guest })
    }

    pub(super) fn snap(&self) -> Result<Snap> {
        Ok(Snap {
            at: Instant::now(),
            traffic: traffic_of(&self.nodes)?,
            wire: self.wire.bytes(),
        })
    }
}

/// What had gone over a pair's link at a time.
pub(super) struct Snap {
    at: Instant,
    traffic: Traffic,
    wire: f64,
}

/// What went over it since, of both nodes together.
pub(super) struct Passed {
    pub(super) seconds: f64,
    pub(super) traffic: Traffic,
    /// Bytes that TCP carried.
    pub(super) wire: f64,
}

impl Snap {
    pub(super) fn passed(&self, pair: &Pair) -> Result<Passed> {
        let now = pair.snap()?;
        let passed = Passed {
            seconds: (now.at - self.at).as_secs_f64(),
            traffic: now.traffic - self.traffic,
            wire: now.wire - self.wire,
        };
        Ok(passed)
    }
}

/// Leaves nodes alone until nothing is left to be said.
pub(super) fn settle(plan: &Plan<'_>) {
    thread::sleep(if plan.quick { SETTLE / 3 } else { SETTLE });
}

/// Measures pairs of nodes with more and more counters and writers; the table is in Markdown.
pub(super) fn run(plan: &Plan<'_>) -> Result<String> {
    let (sizes, time) = match plan.quick {
        true => (&[1_000, 100_000][..], Duration::from_secs(60)),
        false => (&[1_000, 100_000, 1_000_000][..], Duration::from_secs(300)),
    };
    let mut cases = Vec::new();
    for counters in sizes {
        cases.extend([1, 8, 64].map(|writers| (*counters, writers)));
    }
    cases.extend(sizes.last().map(|counters| (*counters, 1_000)));
    let mut text = format!(
        "Two nodes that hold the same, linked by TCP, and nothing else; {} s, all pairs at once. All \
         but the size of a frame is a minute's, of both directions together. Frames are the space's \
         (a digest each), the book's are those of the address book, `about` is what nodes tell about \
         themselves. Streams: all bytes of all streams of libp2p, which has these and pings, answers \
         and names of protocols in it. TCP: all that the connection carried, with encryption (Noise) \
         and the multiplexer (Yamux), without headers of IP and TCP. CPU is of one node. A pair that was \
         linked anew meanwhile, as happens on a machine that is too busy to answer pings, has greetings \
         among its frames and says nothing.\n\n\
         | counters | writers | frames | bytes of each | bytes of frames | the book's | `about` | streams, bytes | TCP, bytes | CPU, ms |\n\
         |---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        time.as_secs()
    );
    let mut pairs = Vec::new();
    for (counters, writers) in cases {
        let pair = Pair::with(plan, counters, writers)?;
        println!("{counters} counters of {writers} writers are held by both");
        pairs.push((counters, writers, pair));
    }
    settle(plan);
    let mut before = Vec::new();
    for (_, _, pair) in &pairs {
        before.push(pair.snap()?);
    }
    thread::sleep(time);
    let (mut frame, mut wire) = (Span::default(), Span::default());
    for ((counters, writers, pair), before) in pairs.iter().zip(&before) {
        let passed = before.passed(pair)?;
        let traffic = passed.traffic;
        let minute = |figure: f64| figure * 60.0 / passed.seconds;
        let each = traffic.frame_bytes() / traffic.frames();
        let tcp = match pair.wire.has_ended() {
            true => "linked anew".into(),
            false => {
                frame.take(each);
                wire.take(minute(passed.wire));
                format!("{:.0}", minute(passed.wire))
            }
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "| {counters} | {writers} | {:.1} | {each:.2} | {:.0} | {:.0} | {:.0} | {:.0} | {tcp} | {:.0} |",
            minute(traffic.frames()),
            minute(traffic.frame_bytes()),
            minute(traffic.book_bytes()),
            minute(traffic.about.bytes.outbound),
            minute(traffic.streams.outbound),
            minute(traffic.cpu) * 1e3 / 2.0,
        );
    }
    let same = frame.most - frame.least < 0.005;
    let _ = write!(
        text,
        "\nA frame has {:.2} to {:.2} bytes, so it {} on counters and writers. How many there are is by \
         chance (one each 2.5 to 7.5 s in each direction); all that TCP carried is {:.0} to {:.0} \
         bytes a minute.\n",
        frame.least,
        frame.most,
        if same {
            "does not depend"
        } else {
            "**depends**"
        },
        wire.least,
        wire.most,
    );
    Ok(text)
}

/// The least and the most of some figures.
struct Span {
    least: f64,
    most: f64,
}

impl Default for Span {
    fn default() -> Span {
        Span {
            least: f64::INFINITY,
            most: 0.0,
        }
    }
}

impl Span {
    fn take(&mut self, figure: f64) {
        self.least = self.least.min(figure);
        self.most = self.most.max(figure);
    }
}
