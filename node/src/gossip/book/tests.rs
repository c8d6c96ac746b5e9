use super::*;
use crate::gossip::redial::Chance;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A node of a mesh in which every two are linked, by the number of the other.
struct Node {
    peer: PeerId,
    book: Book,
    known: Addresses,
    listen: Vec<Multiaddr>,
}

struct Mesh {
    nodes: Vec<Node>,
    wall: Arc<AtomicU64>,
    now: Instant,
    chance: Chance,
    gone: BTreeSet<usize>,
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
        };
        for port in ports {
            mesh.join(PeerId::random(), *port);
        }
        mesh
    }

    fn join(&mut self, peer: PeerId, port: usize) {
        let wall = self.wall.clone();
        let clock = WallClock::new(move || wall.load(Ordering::SeqCst));
        let owner = [self.nodes.len() as u8; 32];
        let book = Book::new(peer, owner, clock, BTreeSet::new(), self.now);
        let new = self.nodes.len();
        self.nodes.push(Node {
            peer,
            book: book.expect("random bytes"),
            known: Addresses::load(None, &peer, 0),
            listen: vec![address(port)],
        });
        for other in (0..new).filter(|other| !self.gone.contains(other)) {
            let link = |to: usize| Link(to as u32);
            self.nodes[new].book.connected(link(other), self.now);
            self.nodes[other].book.connected(link(new), self.now);
        }
    }

    /// Takes a node away, whose place stays empty.
    fn leave(&mut self, gone: usize) {
        self.gone.insert(gone);
        for node in &mut self.nodes {
            node.book.disconnected(Link(gone as u32), self.now);
        }
        let links = self.nodes[gone].book.links.clone();
        for link in links {
            self.nodes[gone].book.disconnected(link, self.now);
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
                let ticked = node.book.tick(listen.iter(), &mut node.known, self.now);
                ticked.expect("random bytes");
            }
            self.deliver();
        }
    }

    fn deliver(&mut self) {
        loop {
            let mut idle = true;
            for from in 0..self.nodes.len() {
                while let Some(want) = self.nodes[from].book.poll(self.now).expect("random") {
                    idle = false;
                    let Want::Send(link, bytes) = want else {
                        panic!("nobody breaks the protocol");
                    };
                    let space = tallymesh_core::frame_space(&bytes)
                        .expect("a frame")
                        .to_owned();
                    let to = &mut self.nodes[link.0 as usize].book;
                    to.frame(Link(from as u32), &space, &bytes, self.now);
                }
            }
            if idle {
                return;
            }
        }
    }

    /// Where a node would dial another.
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

    /// How many writers the book has.
    fn writers(&self) -> usize {
        self.nodes[0].book.replica.writers().count()
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
    // One that moved does.
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
        .map(|node| node.book.replica.clock())
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
    let evil = &mut mesh.nodes[1].book;
    let ops = [
        ("nonsense".to_owned(), Op::Add(5)),
        ("addr/x/ip4/10.0.0.1/tcp/1".to_owned(), Op::Add(1)),
        (other, Op::Add(1)), // without an expiry, until it is renewed
        (refused.clone(), Op::Set(-1)),
        (refused, Op::Expire(wall + HOLDS_MS)),
        (forever.clone(), Op::Add(1)),
        (forever, Op::Expire(wall + 1000 * DAY_MS)),
    ];
    evil.replica.transact(&ops).expect("made");
    // What it would write by itself is not what is looked at.
    evil.settled = None;
    let now = mesh.now;
    evil.handle(now, Input::Changed);
    mesh.run(Duration::from_secs(3));
    assert_eq!(mesh.knows(0, 1), [2, 11].map(address));
    let held = &mesh.nodes[0].book.read(wall)[&peer];
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
