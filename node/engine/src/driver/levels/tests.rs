//! Levels and tokens, on drivers whose links a test makes and cuts.

use crate::access::Ledger;
use crate::driver::{Handle, NewLink, Order, Running, Start, start};
use crate::metrics::Metrics;
use crate::network::NodeTable;
use std::future::Future;
use std::time::{Duration, Instant};
use tallymesh_core::{Level, Link, Once, Op, Space, Token};
use tallymesh_node_ground::clock::WallClock;
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::{Demand, MemberChange, PeerKind, Refusal, SpaceId};
use tallymesh_node_store::{Durability, Each, Memory, Record, Store, StoreError};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const SPACE: SpaceId = SpaceId(0);
/// How long a test waits for something that must happen.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a test waits for something that can't happen.
const SHORT: Duration = Duration::from_millis(300);

/// A store that claims to be a disk.
struct Disk(Memory);

impl Store for Disk {
    fn identity(&mut self, fresh: [u8; 32]) -> Result<[u8; 32], StoreError> {
        self.0.identity(fresh)
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn load(&mut self, space: &Space, each: &mut Each<'_>) -> Result<(), StoreError> {
        self.0.load(space, each)
    }

    fn commit(&mut self, records: &[Record]) -> Result<(), StoreError> {
        self.0.commit(records)
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

/// Drivers, and the links between them.
struct Cluster {
    runtime: Runtime,
    nodes: Vec<Handle>,
}

/// A link between two drivers: its numbers at both ends, and the tasks that carry its frames.
struct Wire {
    ends: [(usize, Link); 2],
    carriers: [JoinHandle<()>; 2],
}

fn owner(at: usize) -> OwnerKey {
    OwnerKey([at as u8 + 1; 32])
}

impl Cluster {
    fn new(nodes: usize, durability: Durability) -> Cluster {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_time().build().expect("a runtime");
        let begin = |at: usize| {
            let (broadcast, _) = mpsc::channel(1);
            let running = start(Start {
                spaces: vec![Space::default()],
                owner: owner(at).0,
                guest_timeout_ms: 0,
                key_window: Duration::from_secs(60),

                keyed_bounds: Default::default(),
                durability,
                store: Box::new(Disk(Memory::default())),
                folder: None,
                ledger: Ledger::open(None).expect("in memory"),
                sockets: None,
                broadcast,
                used: mpsc::unbounded_channel().0,
                metrics: Metrics::new(),
                node_table: NodeTable::default(),
                clock: WallClock::default(),
            });
            let Running { handle, .. } = running.expect("start");
            handle
        };
        Cluster {
            nodes: (0..nodes).map(begin).collect(),
            runtime,
        }
    }

    /// A cluster with all nodes linked, the first ones members.
    fn of_members(nodes: usize, members: usize) -> (Cluster, Vec<Wire>) {
        let cluster = Cluster::new(nodes, Durability::Always);
        let pairs = (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| (a, b)));
        let wires = pairs.map(|(a, b)| cluster.link(a, b)).collect();
        let first = &cluster.nodes[0];
        cluster.wait(first.found(SPACE)).expect("the first member");
        for at in 1..members {
            let change = MemberChange::Add(owner(at));
            let changed = cluster.wait(first.change_members(SPACE, &change, PATIENCE));
            changed.expect("it is decided");
        }
        // The members count once the others have received their starts.
        for at in 0..nodes {
            cluster
                .read(at, "none", Level::All, None, PATIENCE)
                .expect("all count");
        }
        (cluster, wires)
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        let waited = self
            .runtime
            .block_on(async { timeout(PATIENCE, future).await });
        waited.expect("an answer in time")
    }

    fn link(&self, a: usize, b: usize) -> Wire {
        let ends = [a, b].map(|at| (at, self.nodes[at].next_link()));
        let carriers = [0, 1].map(|from: usize| {
            let (outbox, mut inbox) = mpsc::channel(1024);
            let (at, link) = ends[from];
            self.wait(self.nodes[at].connect(NewLink {
                link,
                spaces: None,
                kind: PeerKind::Libp2p,
                peer: "a test".to_owned(),
                broadcast: false,
                outbox,
                from: Default::default(),
            }));
            let (to, link) = ends[1 - from];
            let to = self.nodes[to].clone();
            self.runtime.spawn(async move {
                while let Some(Order::Send(_, frame)) = inbox.recv().await {
                    to.frame(link, frame.to_vec()).await;
                }
            })
        });
        Wire { ends, carriers }
    }

    fn cut(&self, wire: Wire) {
        wire.carriers.iter().for_each(JoinHandle::abort);
        for (at, link) in wire.ends {
            self.wait(self.nodes[at].disconnect(link));
        }
    }

    /// Adds 1, at a level. Returns the session's token, if there is a session.
    fn write(
        &self,
        at: usize,
        key: &str,
        level: Level,
        token: Option<Token>,
        wait: Duration,
    ) -> Result<Option<Token>, Refusal> {
        let demand = Demand {
            level,
            token,
            wait,
            ..Demand::default()
        };
        let ops = vec![(key.to_owned(), Op::Add(1)).into()];
        let written = self.wait(self.nodes[at].write(SPACE, ops, None, demand))?;
        assert_eq!(written.done.done.len(), 1);
        Ok(written.token)
    }

    fn read(
        &self,
        at: usize,
        key: &str,
        level: Level,
        token: Option<Token>,
        wait: Duration,
    ) -> Result<Option<i128>, Refusal> {
        let demand = Demand {
            level,
            token,
            wait,
            ..Demand::default()
        };
        let read = self.wait(self.nodes[at].read_back(SPACE, vec![key.to_owned()], demand))?;
        let counter = read.counters.into_iter().next().expect("one for each key");
        Ok(counter.map(|counter| counter.now.value))
    }

    fn local(&self, at: usize, key: &str) -> Option<i128> {
        let read = self.wait(self.nodes[at].read(SPACE, key.to_owned()));
        read.expect("an answer").map(|counter| counter.now.value)
    }
}

fn unreached(refusal: Refusal) -> (bool, usize, usize, Vec<OwnerKey>) {
    assert_eq!(refusal.code(), "level_not_reached");
    match refusal {
        Refusal::LevelNotReached(it) => {
            let lacking = it.lacking.iter().map(|member| member.owner).collect();
            (it.applied, it.reached, it.needed, lacking)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_level_above_local_takes_members_and_nothing_is_applied_without() {
    let cluster = Cluster::new(1, Durability::Always);
    for level in [Level::Quorum, Level::All] {
        let refused = cluster.write(0, "a", level, None, PATIENCE).unwrap_err();
        assert_eq!(refused.code(), "no_members");
        let refused = cluster.read(0, "a", level, None, PATIENCE).unwrap_err();
        assert_eq!(refused.code(), "no_members");
    }
    assert_eq!(cluster.local(0, "a"), None);
    assert_eq!(cluster.write(0, "a", Level::Local, None, SHORT), Ok(None));
    assert_eq!(cluster.local(0, "a"), Some(1));
}

#[test]
fn a_sole_member_is_a_quorum_once_its_write_is_durable() {
    for durability in [
        Durability::Always,
        Durability::Interval(Duration::from_secs(60)),
    ] {
        let cluster = Cluster::new(1, durability);
        cluster
            .wait(cluster.nodes[0].found(SPACE))
            .expect("a member");
        // With an interval of a minute, the node makes the write durable because a request waits.
        let written = cluster.write(0, "a", Level::All, None, PATIENCE);
        assert_eq!(written, Ok(None), "{durability:?}");
        assert_eq!(
            cluster.read(0, "a", Level::Quorum, None, PATIENCE),
            Ok(Some(1))
        );
    }
}

#[test]
fn a_quorum_write_is_read_at_quorum_by_who_never_met_its_writer() {
    let (cluster, wires) = Cluster::of_members(3, 3);
    let [first, second, third]: [Wire; 3] = wires.try_into().map_err(|_| ()).expect("three");
    assert_eq!((second.ends[0].0, second.ends[1].0), (0, 2));
    cluster.cut(second);
    cluster.cut(third);
    // 0 and 1 are linked.
    let written = cluster.write(0, "a", Level::Quorum, None, PATIENCE);
    assert_eq!(written, Ok(None));
    assert_eq!(cluster.local(1, "a"), Some(1));
    let refused = cluster.write(0, "a", Level::All, None, SHORT).unwrap_err();
    assert_eq!(unreached(refused), (true, 2, 3, vec![owner(2)]));
    assert_eq!(cluster.local(0, "a"), Some(2), "it is applied all the same");
    // 2 is alone.
    let refused = cluster
        .read(2, "a", Level::Quorum, None, SHORT)
        .unwrap_err();
    assert_eq!(unreached(refused), (false, 1, 2, vec![owner(0), owner(1)]));
    assert_eq!(cluster.local(2, "a"), None);
    cluster.cut(first);
    let refused = cluster
        .write(0, "b", Level::Quorum, None, SHORT)
        .unwrap_err();
    let text = refused.to_string();
    let name = &owner(2).to_string()[..8];
    assert!(
        text.contains("only 1 of 2") && text.contains(name),
        "{text}"
    );
    // Now it is linked to node 1, which has the first write.
    let _link = cluster.link(1, 2);
    let read = cluster.read(2, "a", Level::Quorum, None, PATIENCE);
    assert!(read.expect("reached") >= Some(1));
}

#[test]
fn a_retry_elsewhere_reaches_the_level_of_what_was_made_before() {
    let (cluster, wires) = Cluster::of_members(3, 3);
    let [_first, second, third]: [Wire; 3] = wires.try_into().map_err(|_| ()).expect("three");
    cluster.cut(second);
    cluster.cut(third);
    // 0 and 1 are linked, 2 is alone.
    let once = Once::new(b"a", b"");
    let write = |at: usize, level: Level, wait: Duration| {
        let ops = vec![("n".to_owned(), Op::Add(1)).into()];
        let token = None;
        let demand = Demand {
            level,
            token,
            wait,
            ..Demand::default()
        };
        let written = cluster.nodes[at].write(SPACE, ops, Some(once.into()), demand);
        cluster.wait(written).map(|it| it.done.again)
    };
    assert_eq!(write(0, Level::Local, SHORT), Ok(false));
    assert_eq!(write(0, Level::Quorum, PATIENCE), Ok(true));
    // Node 1 has the write by now.
    let refused = write(1, Level::All, SHORT).unwrap_err();
    assert_eq!(unreached(refused), (true, 2, 3, vec![owner(2)]));
    let _link = cluster.link(1, 2);
    assert_eq!(write(1, Level::All, PATIENCE), Ok(true));
    assert_eq!([0, 1, 2].map(|at| cluster.local(at, "n")), [Some(1); 3]);
}

#[test]
fn a_guest_asks_the_members() {
    let (cluster, _wires) = Cluster::of_members(3, 2);
    let written = cluster.write(2, "a", Level::All, None, PATIENCE);
    assert_eq!(written, Ok(None));
    for at in [0, 1] {
        assert_eq!(cluster.local(at, "a"), Some(1), "held by {at}");
    }
    cluster
        .write(0, "a", Level::Local, None, SHORT)
        .expect("written");
    assert_eq!(
        cluster.read(2, "a", Level::Quorum, None, PATIENCE),
        Ok(Some(2))
    );
}

#[test]
fn a_session_reads_what_it_wrote_wherever_it_goes() {
    // Tokens need no members.
    let cluster = Cluster::new(2, Durability::Always);
    let begins = Some(Token::default());
    let token = cluster.write(0, "a", Level::Local, begins, SHORT);
    let token = token.expect("written").expect("it is a session");
    assert_eq!(token.vector().len(), 1);
    let refused = cluster.read(1, "a", Level::Local, Some(token.clone()), SHORT);
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), "token_not_reached");
    let (writer, _) = token.vector().iter().next().expect("one");
    assert!(
        refused.to_string().contains(&writer.to_string()),
        "{refused}"
    );
    // A write elsewhere does not wait, and its token names both.
    let both = cluster.write(1, "b", Level::Local, Some(token.clone()), SHORT);
    let both = both.expect("written").expect("it is a session");
    assert_eq!(both.vector().len(), 2);
    let _link = cluster.link(0, 1);
    for at in [0, 1] {
        let read = cluster.read(at, "a", Level::Local, Some(both.clone()), PATIENCE);
        assert_eq!(read, Ok(Some(1)), "at {at}");
        let read = cluster.read(at, "b", Level::Local, Some(both.clone()), PATIENCE);
        assert_eq!(read, Ok(Some(1)), "at {at}");
    }
    let again = cluster.write(1, "b", Level::Local, Some(both), SHORT);
    assert_eq!(
        again.expect("written").expect("a session").vector().len(),
        1
    );
}

#[test]
fn a_node_tells_when_it_heard_of_each_member() {
    let (cluster, wires) = Cluster::of_members(2, 2);
    let completeness = cluster.wait(cluster.nodes[0].completeness(SPACE));
    let members = completeness.expect("an answer").members;
    let heard = members
        .iter()
        .map(|it| (it.owner, it.own, it.last_heard_ms.is_some()));
    let heard: Vec<(OwnerKey, bool, bool)> = heard.collect();
    assert_eq!(heard, [(owner(0), true, false), (owner(1), false, true)]);
    drop(wires);
}

#[test]
fn a_node_tells_when_it_heard_of_a_member_whose_links_have_ended() {
    let (cluster, wires) = Cluster::of_members(2, 2);
    let heard_ms = || {
        let completeness = cluster.wait(cluster.nodes[0].completeness(SPACE));
        let members = completeness.expect("an answer").members;
        members[1].last_heard_ms.expect("it was heard of")
    };
    // Each read is a request to the node's driver.
    let begun = Instant::now();
    while heard_ms() < 200 {
        assert!(begun.elapsed() < PATIENCE, "the member goes on writing");
    }
    // The member answers, and writes nothing.
    let asked = Instant::now();
    let read = cluster.read(0, "none", Level::All, None, PATIENCE);
    read.expect("all count");
    let most = |since: Instant| u64::try_from(since.elapsed().as_millis()).expect("short") + 1;
    assert!(heard_ms() <= most(asked));
    wires.into_iter().for_each(|wire| cluster.cut(wire));
    let told = heard_ms();
    assert!(told <= most(asked), "{told} ms ago");
}
