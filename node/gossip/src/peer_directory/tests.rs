use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use tallymesh_node_engine::access::{Revocation, Revoked, TicketId};
use tallymesh_node_ground::identity::{Identity, OwnerKey};

/// A node of a fully linked mesh. The number of a link is that of the other node.
struct Node {
    peer: PeerId,
    peer_directory: PeerDirectory,
    known: Addresses,
    listen: Vec<Multiaddr>,
    ledger: Ledger,
}

struct Mesh {
    nodes: Vec<Node>,
    wall: Arc<AtomicU64>,
    now: Instant,
    chance: Chance,
    gone: BTreeSet<usize>,
    /// The trusted owners in the one space, as all nodes see them.
    members: Vec<OwnerKey>,
    /// Whether a node that joins publishes addresses.
    has_addresses: bool,
    /// How far the clocks of joining nodes are ahead, in milliseconds.
    ahead: Arc<AtomicI64>,
}

/// The key of the node with this number.
fn identity(node: usize) -> Identity {
    Identity::from_secret([node as u8; 32])
}

/// A revocation that a node has signed.
fn revoked(node: usize, ticket: u8, expires: Option<u64>) -> Revoked {
    let revocation = Revocation {
        id: TicketId::new([ticket; 16]),
        issuer: OwnerKey(identity(node).public_key()),
        spaces: None,
        issued: 1,
        expires,
    };
    let (statement, revocation) = revocation.sign(&identity(node)).remove(0);
    Revoked {
        statement,
        revocation,
        spaces: BTreeSet::from([Space::default()]),
    }
}

fn address(port: usize) -> Multiaddr {
    let text = format!("/ip4/10.0.0.1/tcp/{port}");
    text.parse().expect("an address")
}

impl Mesh {
    fn new(ports: &[usize]) -> Mesh {
        let mut mesh = Mesh {
            nodes: Vec::new(),
            wall: Arc::new(AtomicU64::new(20_000 * DAY_MS + 1)),
            now: Instant::now(),
            chance: Chance::new(7),
            gone: BTreeSet::new(),
            members: Vec::new(),
            has_addresses: true,
            ahead: Arc::default(),
        };
        for (node, port) in ports.iter().enumerate() {
            // The random waits depend on the peer id.
            let peer = identity(node).peer_id().parse();
            mesh.join(peer.expect("a peer id"), *port);
        }
        mesh
    }

    fn join(&mut self, peer: PeerId, port: usize) {
        let wall = self.wall.clone();
        let ahead = self.ahead.clone();
        let clock = WallClock::new(move || {
            let ahead = ahead.load(Ordering::SeqCst);
            wall.load(Ordering::SeqCst).saturating_add_signed(ahead)
        });
        let identity = identity(self.nodes.len());
        let ledger = Ledger::open(None).expect("in memory");
        let announce = self.has_addresses.then(BTreeSet::new);
        let peer_directory =
            PeerDirectory::new(peer, &identity, ledger.clone(), clock, announce, self.now);
        let new = self.nodes.len();
        self.nodes.push(Node {
            peer,
            peer_directory: peer_directory.expect("random bytes"),
            known: Addresses::load(None, &peer, 0),
            listen: vec![address(port)],
            ledger,
        });
        for other in (0..new).filter(|other| !self.gone.contains(other)) {
            let link = |to: usize| Link(to as u32);
            self.nodes[new]
                .peer_directory
                .connected(link(other), None, self.now);
            self.nodes[other]
                .peer_directory
                .connected(link(new), None, self.now);
        }
    }

    /// Removes a node, whose place stays empty.
    fn leave(&mut self, gone: usize) {
        self.gone.insert(gone);
        for node in &mut self.nodes {
            node.peer_directory
                .disconnected(Link(gone as u32), self.now);
        }
        let links = self.nodes[gone].peer_directory.links.clone();
        for link in links.into_keys() {
            self.nodes[gone].peer_directory.disconnected(link, self.now);
        }
    }

    fn run(&mut self, time: Duration) {
        let step = Duration::from_millis(100);
        for _ in 0..time.as_millis() / step.as_millis() {
            self.now += step;
            self.wall
                .fetch_add(step.as_millis() as u64, Ordering::SeqCst);
            for node in &mut self.nodes {
                let listen = node.listen.clone();
                let ticked = node
                    .peer_directory
                    .tick(listen.iter(), &mut node.known, self.now);
                ticked.expect("random bytes");
                let says = Say {
                    space: Space::default(),
                    owners: self.members.clone(),
                };
                if node.peer_directory.is_to_judge(self.now) {
                    node.peer_directory.judge(&[says], self.now);
                }
            }
            self.deliver();
        }
    }

    fn deliver(&mut self) {
        loop {
            let mut idle = true;
            for from in 0..self.nodes.len() {
                while let Some(want) = self.nodes[from]
                    .peer_directory
                    .poll(self.now)
                    .expect("random")
                {
                    idle = false;
                    let Want::Send(link, bytes) = want else {
                        panic!("nobody breaks the protocol");
                    };
                    let space = tallymesh_core::frame_space(&bytes)
                        .expect("a frame")
                        .to_owned();
                    let to = &mut self.nodes[link.0 as usize].peer_directory;
                    to.frame(Link(from as u32), &space, &bytes, self.now);
                }
            }
            if idle {
                return;
            }
        }
    }

    /// The addresses at which a node would dial another.
    fn knows(&mut self, node: usize, other: usize) -> Vec<Multiaddr> {
        let peer = self.nodes[other].peer;
        let known = &mut self.nodes[node].known;
        known.hurry();
        let wanted = BTreeSet::from([peer]);
        let due = known.due(0, &wanted, self.now, &mut self.chance, |_| false);
        due.into_iter()
            .flat_map(|(_, addresses)| addresses)
            .collect()
    }

    /// Lets a node revoke a ticket, as on a request.
    fn revoke(&self, node: usize, ticket: u8, expires: Option<u64>) -> String {
        let revoked = revoked(node, ticket, expires);
        let statement = revoked.statement.clone();
        let kept = self.nodes[node].ledger.revoke(vec![revoked]);
        assert!(kept.expect("in memory"));
        statement
    }

    /// Whether a ticket is revoked at each node.
    fn revoked(&self, ticket: u8) -> Vec<bool> {
        let id = TicketId::new([ticket; 16]);
        let nodes = self.nodes.iter();
        nodes
            .map(|node| node.ledger.is_revoked(id, "default"))
            .collect()
    }

    /// Lets a node write any content into the book, and nothing else.
    fn scribble(&mut self, node: usize, ops: &[(String, Op)]) {
        let now = self.now;
        let peer_directory = &mut self.nodes[node].peer_directory;
        peer_directory.replica.transact(ops).expect("made");
        peer_directory.settled = None;
        peer_directory.handle(now, Input::Changed);
    }

    /// How many writers the book has.
    fn writers(&self) -> usize {
        self.nodes[0].peer_directory.replica.writers().count()
    }
}

#[test]
fn everybody_hears_where_everybody_is_and_of_moves() {
    let mut mesh = Mesh::new(&[1, 2, 3]);
    mesh.run(Duration::from_secs(3));
    for (node, other) in [(0, 1), (0, 2), (1, 0), (2, 1)] {
        assert_eq!(mesh.knows(node, other), [address(other + 1)]);
    }
    mesh.nodes[1].listen = vec![address(7), address(8)];
    mesh.run(Duration::from_secs(3));
    assert_eq!(mesh.knows(2, 1), [address(7), address(8)]);
    assert!(mesh.knows(1, 1).is_empty(), "nobody dials itself");
}

#[test]
fn a_start_whose_addresses_are_known_writes_nothing() {
    let mut mesh = Mesh::new(&[1, 2, 3]);
    mesh.run(Duration::from_secs(3));
    assert_eq!(mesh.writers(), 3);
    let again = mesh.nodes[2].peer;
    for start in 0..5 {
        mesh.leave(mesh.nodes.len() - 1);
        mesh.run(Duration::from_secs(3));
        mesh.join(again, 3);
        mesh.run(Duration::from_secs(3));
        assert_eq!(mesh.writers(), 3, "start {start}");
    }
    // A start that moved writes.
    mesh.leave(mesh.nodes.len() - 1);
    mesh.join(again, 4);
    mesh.run(Duration::from_secs(3));
    assert_eq!(mesh.writers(), 4);
    let last = mesh.nodes.len() - 1;
    assert_eq!(mesh.knows(0, last), [address(4)]);
}

#[test]
fn two_nodes_with_one_key_do_not_take_turns_all_the_time() {
    let mut mesh = Mesh::new(&[1, 2]);
    mesh.run(Duration::from_secs(3));
    let twin = mesh.nodes[1].peer;
    mesh.join(twin, 3);
    mesh.run(Duration::from_secs(600));
    let clocks: u64 = mesh
        .nodes
        .iter()
        .map(|node| node.peer_directory.replica.clock())
        .sum();
    assert!((5..100).contains(&clocks), "{clocks} transactions");
}

#[test]
fn who_is_gone_is_forgotten_after_a_day_and_books_do_not_grow() {
    let mut mesh = Mesh::new(&[1, 2, 3]);
    mesh.run(Duration::from_secs(3));
    mesh.leave(2);
    for half in 0..10 {
        mesh.wall.fetch_add(DAY_MS / 2, Ordering::SeqCst);
        mesh.run(Duration::from_secs(8));
        assert_eq!(mesh.knows(0, 1), [address(2)], "half a day {half}");
        assert_eq!(mesh.knows(1, 0), [address(1)]);
        let gone = mesh.knows(0, 2);
        assert_eq!(gone.is_empty(), half > 0, "half a day {half}");
        assert!(mesh.writers() <= 2 + usize::from(half == 0));
    }
}

#[test]
fn what_makes_no_sense_is_passed_over() {
    let mut mesh = Mesh::new(&[1, 2]);
    mesh.run(Duration::from_secs(3));
    let (wall, peer) = (mesh.wall.load(Ordering::SeqCst), mesh.nodes[1].peer);
    let other = addresses::key(&peer, &address(9));
    let refused = addresses::key(&peer, &address(10));
    let forever = addresses::key(&peer, &address(11));
    let ops = [
        ("nonsense".to_owned(), Op::Add(5)),
        ("addr/x/ip4/10.0.0.1/tcp/1".to_owned(), Op::Add(1)),
        (other, Op::Add(1)), // without an expiry, until it is renewed
        (refused.clone(), Op::Set(-1)),
        (refused, Op::Expire(wall + HOLDS_MS)),
        (forever.clone(), Op::Add(1)),
        (forever, Op::Expire(wall + 1000 * DAY_MS)),
    ];
    mesh.scribble(1, &ops);
    mesh.run(Duration::from_secs(3));
    assert_eq!(mesh.knows(0, 1), [2, 11].map(address));
    let held = &mesh.nodes[0].peer_directory.read(wall)[&peer];
    assert!(
        held.values().all(|until| *until <= wall + HOLDS_MS),
        "{held:?}"
    );
}

#[test]
fn loopback_is_told_only_where_there_is_nothing_else() {
    let parse = |text: &&str| text.parse::<Multiaddr>().expect("an address");
    let of = |listen: &[&str], announce: &[&str]| {
        let listen: Vec<Multiaddr> = listen.iter().map(parse).collect();
        let announce = announce.iter().map(parse).collect();
        let own = own_addresses(listen.iter(), &announce);
        own.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let (near, far) = ("/ip4/127.0.0.1/tcp/1", "/ip4/10.0.0.1/tcp/1");
    assert_eq!(of(&[near], &[]), [near]);
    assert_eq!(of(&[near, far], &[]), [far]);
    assert_eq!(of(&[near, far], &["/dns4/a.example/tcp/9"]).len(), 2);
    let many: Vec<String> = (1..100)
        .map(|port| format!("/ip4/10.0.0.1/tcp/{port}"))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(of(&many, &[]).len(), PER_PEER_MAX);
}

#[test]
fn what_a_member_revokes_is_revoked_everywhere_and_stays_so() {
    let mut mesh = Mesh::new(&[1, 2, 3]);
    mesh.members = vec![OwnerKey(identity(0).public_key())];
    mesh.run(Duration::from_secs(3));
    mesh.revoke(0, 7, None);
    mesh.run(Duration::from_secs(3));
    assert_eq!(mesh.revoked(7), [true; 3]);
    assert_eq!(mesh.revoked(8), [false; 3]);
    // A node that joins later receives it, too: on other days, from other nodes, and after its
    // issuer is no longer trusted.
    mesh.leave(0);
    mesh.members.clear();
    for half in 0..4 {
        mesh.wall.fetch_add(DAY_MS / 2, Ordering::SeqCst);
        mesh.run(Duration::from_secs(15));
        mesh.members = vec![OwnerKey(identity(0).public_key())];
        mesh.join(PeerId::random(), 10 + half);
        mesh.run(Duration::from_secs(15));
        assert_eq!(mesh.revoked(7).last(), Some(&true), "half a day {half}");
        mesh.members.clear();
        let told = mesh
            .nodes
            .last()
            .expect("it joined")
            .peer_directory
            .replica
            .counters();
        let told = told.filter(|(_, key)| key.starts_with("revoked/"));
        assert_eq!(told.count(), 1);
    }
    assert!(mesh.revoked(7).into_iter().all(|it| it));
}

#[test]
fn members_vouch_for_what_one_revoked_who_has_no_say_any_more() {
    let mut mesh = Mesh::new(&[1, 2, 3, 4, 5]);
    mesh.members = (0..4)
        .map(|node| OwnerKey(identity(node).public_key()))
        .collect();
    mesh.revoke(0, 7, None);
    mesh.run(Duration::from_secs(30));
    assert_eq!(mesh.revoked(7), [true; 5]);
    let known = |mesh: &Mesh| mesh.nodes[4].ledger.revoked().len();
    assert_eq!(known(&mesh), 1, "nothing is to be done");
    mesh.members.remove(0);
    mesh.leave(0);
    mesh.run(Duration::from_secs(30));
    assert!((2..4).contains(&known(&mesh)), "not each of three does");
    // A node that never saw the first issuer trusts the others' statements.
    mesh.join(PeerId::random(), 6);
    mesh.run(Duration::from_secs(15));
    assert_eq!(mesh.revoked(7).last(), Some(&true));
}

#[test]
fn who_has_no_say_is_not_believed_until_it_has_one() {
    let mut mesh = Mesh::new(&[1, 2]);
    mesh.members = vec![OwnerKey(identity(0).public_key())];
    mesh.run(Duration::from_secs(3));
    let statement = revoked(1, 7, None).statement;
    mesh.scribble(1, &[(format!("revoked/{statement}"), Op::Set(1))]);
    mesh.run(Duration::from_secs(20));
    assert_eq!(mesh.revoked(7), [false; 2]);
    mesh.members.push(OwnerKey(identity(1).public_key()));
    mesh.run(Duration::from_secs(6));
    assert_eq!(mesh.revoked(7), [true; 2]);
}

#[test]
fn what_is_no_statement_of_a_member_counts_for_nothing() {
    let mut mesh = Mesh::new(&[1, 2]);
    mesh.members = vec![OwnerKey(identity(0).public_key())];
    mesh.run(Duration::from_secs(3));
    let good = revoked(0, 7, None).statement;
    let (head, signature) = good.rsplit_once('.').expect("three parts");
    let forged = match signature.strip_prefix('A') {
        Some(rest) => format!("{head}.B{rest}"),
        None => format!("{head}.A{}", &signature[1..]),
    };
    let stolen = revoked(1, 7, None).statement;
    let (_, foreign) = stolen.rsplit_once('.').expect("three parts");
    let entry = |text: &str| (format!("revoked/{text}"), Op::Set(1));
    let over = revoked(0, 7, Some(1)).statement;
    let elsewhere = Revocation {
        spaces: Some(vec![Space::new("other").expect("a name")]),
        ..revoked(0, 7, None).revocation
    };
    let (elsewhere, _) = elsewhere.sign(&identity(0)).remove(0);
    // More statements than one look verifies come first.
    let junk: Vec<(String, Op)> = (0..600).map(|it| entry(&it.to_string())).collect();
    mesh.scribble(1, &junk);
    let ops = [
        entry(&elsewhere),
        entry(""),
        entry("x"),
        entry("a.b.c"),
        entry(&forged),
        entry(&format!("{head}.{foreign}")),
        entry(&stolen),
        entry(&over),
    ];
    mesh.scribble(1, &ops);
    mesh.run(Duration::from_secs(6));
    assert_eq!(mesh.revoked(7), [false; 2]);
    assert!(mesh.nodes[0].ledger.revoked().is_empty());
    // A valid statement counts whatever the value of its counter, because it is signed.
    mesh.scribble(1, &[entry(&good), (format!("revoked/{good}"), Op::Set(-1))]);
    mesh.run(Duration::from_secs(6));
    assert_eq!(mesh.revoked(7), [true; 2]);
}

#[test]
fn a_node_without_addresses_carries_revocations() {
    let mut mesh = Mesh::new(&[1]);
    mesh.has_addresses = false;
    mesh.join(PeerId::random(), 2);
    mesh.members = vec![OwnerKey(identity(0).public_key())];
    mesh.run(Duration::from_secs(3));
    assert_eq!(mesh.writers(), 1, "it has nothing to tell");
    mesh.revoke(0, 7, None);
    mesh.run(Duration::from_secs(3));
    assert_eq!(mesh.revoked(7), [true; 2]);
    assert!(mesh.knows(1, 0).is_empty() && mesh.knows(0, 1).is_empty());
}

#[test]
fn what_is_over_is_told_no_longer() {
    let mut mesh = Mesh::new(&[1, 2]);
    mesh.members = vec![OwnerKey(identity(0).public_key())];
    let ends = mesh.wall.load(Ordering::SeqCst) / 1000 + DAY_MS / 1000;
    mesh.revoke(0, 7, Some(ends));
    mesh.run(Duration::from_secs(3));
    assert_eq!(mesh.revoked(7), [true; 2]);
    mesh.wall.fetch_add(DAY_MS + 200_000, Ordering::SeqCst);
    mesh.run(Duration::from_secs(15));
    assert_eq!(mesh.revoked(7), [false; 2]);
    let mut told = mesh.nodes[1].peer_directory.replica.counters();
    assert!(!told.any(|(_, key)| key.starts_with("revoked/")));
}

#[test]
fn a_book_of_one_day_has_few_writers_whatever_is_revoked() {
    let mut mesh = Mesh::new(&[1, 2, 3, 4]);
    mesh.members = vec![OwnerKey(identity(0).public_key())];
    for ticket in 0..20 {
        mesh.revoke(0, ticket, None);
    }
    mesh.run(Duration::from_secs(3));
    assert!((0..20).all(|ticket| mesh.revoked(ticket) == [true; 4]));
    // Each node publishes its addresses, and one node the revocations. The same holds on the next
    // day, which begins for all at once.
    for day in 0..2 {
        let shards = mesh.nodes[1].peer_directory.replica.shard_count();
        assert_eq!(shards, 4 + 20, "day {day}");
        mesh.wall.fetch_add(DAY_MS, Ordering::SeqCst);
        mesh.run(Duration::from_secs(15));
    }
}

/// Clocks differ by some milliseconds or minutes, so that one node is on the next day before
/// another. The mesh panics if a link is closed.
#[test]
fn a_day_that_begins_earlier_at_some_nodes_breaks_no_link() {
    let mut mesh = Mesh::new(&[1]);
    for (port, ahead) in [(2, 700), (3, 2_500), (4, -3_100)] {
        mesh.ahead = Arc::new(AtomicI64::new(ahead));
        let peer = identity(mesh.nodes.len()).peer_id().parse();
        mesh.join(peer.expect("a peer id"), port);
    }
    mesh.members = (0..4)
        .map(|node| OwnerKey(identity(node).public_key()))
        .collect();
    mesh.wall.store(20_001 * DAY_MS - 5_000, Ordering::SeqCst);
    mesh.run(Duration::from_secs(20));
    let days: BTreeSet<u64> = mesh
        .nodes
        .iter()
        .map(|node| node.peer_directory.day)
        .collect();
    assert_eq!(days.into_iter().collect::<Vec<_>>(), [20_001]);
    mesh.revoke(3, 1, None);
    mesh.run(Duration::from_secs(5));
    assert_eq!(mesh.revoked(1), [true; 4]);
    // One clock goes back over midnight, and forward again.
    mesh.ahead.store(-60_000, Ordering::SeqCst);
    mesh.run(Duration::from_secs(5));
    assert_eq!(mesh.nodes[3].peer_directory.day, 20_000);
    mesh.ahead.store(0, Ordering::SeqCst);
    mesh.run(Duration::from_secs(5));
    mesh.revoke(3, 2, None);
    mesh.run(Duration::from_secs(5));
    assert_eq!(mesh.revoked(2), [true; 4]);
}
