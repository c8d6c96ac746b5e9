//! Each pair of concurrent operations must have the result in docs/consistency.md, and the oracle's.

use std::fmt;
use tallymesh_core::{Encode, Message, Op, Owner, Replica, Space, VersionVector, WriterId};
use tallymesh_tests::oracle::{Call, Oracle, View};

const KEY: &str = "key";
/// A counter that nothing else changes. A write to it raises the writer's clock.
const OTHER: &str = "other";
/// The times at which an expiry is compared: one before it, and one after all of them.
const BEFORE: u64 = 500;
const AFTER: u64 = 2_000;

/// The operations of writer A, which label the rows.
const ROWS: [Op; 6] = [
    Op::Add(3),
    Op::Reset,
    Op::Delete,
    Op::Set(30),
    Op::Expire(1000),
    Op::Persist,
];
/// The operations of writer B, which label the columns.
const COLUMNS: [Op; 6] = [
    Op::Add(5),
    Op::Reset,
    Op::Delete,
    Op::Set(50),
    Op::Expire(2000),
    Op::Persist,
];

/// The content of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Absent,
    Value(i128),
    Expires(i128, u64),
}
use Cell::{Absent, Expires, Value};

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Absent => write!(f, "absent"),
            Value(value) => write!(f, "{value}"),
            Expires(value, at) => write!(f, "{value}, expires {at}"),
        }
    }
}

type Table = [[Cell; 6]; 6];

/// From a counter of 10 that all replicas see.
const EXISTING: Table = [
    [
        Value(18),
        Value(3),
        Value(3),
        Value(53),
        Expires(13, 2000),
        Value(13),
    ],
    [
        Value(5),
        Value(0),
        Value(0),
        Value(50),
        Expires(0, 2000),
        Value(0),
    ],
    [Value(5), Value(0), Absent, Value(50), Absent, Absent],
    [
        Value(35),
        Value(30),
        Value(30),
        Value(50),
        Expires(30, 2000),
        Value(30),
    ],
    [
        Expires(15, 1000),
        Expires(0, 1000),
        Absent,
        Expires(50, 1000),
        Expires(10, 2000),
        Value(10),
    ],
    [Value(15), Value(0), Absent, Value(50), Value(10), Value(10)],
];

/// From a counter that does not exist.
const ABSENT: Table = [
    [Value(8), Value(3), Value(3), Value(53), Value(3), Value(3)],
    [Value(5), Value(0), Value(0), Value(50), Value(0), Value(0)],
    [Value(5), Value(0), Absent, Value(50), Absent, Absent],
    [
        Value(35),
        Value(30),
        Value(30),
        Value(50),
        Value(30),
        Value(30),
    ],
    [Value(5), Value(0), Absent, Value(50), Absent, Absent],
    [Value(5), Value(0), Absent, Value(50), Absent, Absent],
];

/// The form of an operation in the document.
fn label(op: Op) -> String {
    match op {
        Op::Add(by) => format!("add {by}"),
        Op::Reset => "reset".into(),
        Op::Delete => "delete".into(),
        Op::Set(value) => format!("set {value}"),
        Op::Expire(at) => format!("expire {at}"),
        Op::Persist => "persist".into(),
    }
}

/// The cells of the document's table that follows a mark: its head, and its rows.
fn documented(name: &str) -> Vec<Vec<String>> {
    const PAGE: &str = include_str!("../../docs/consistency.md");
    let mark = format!("<!-- pairs: {name} -->");
    let (_, after) = PAGE.split_once(&mark).expect("the page has the table");
    let lines = after
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    let rows = lines.filter(|line| !line.starts_with("|--"));
    let cells = rows.map(|row| {
        let cells = row.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().replace("**", "")).collect()
    });
    cells.collect()
}

#[test]
fn the_document_has_these_tables() {
    for (name, table) in [("existing", EXISTING), ("absent", ABSENT)] {
        let mut expected = vec![vec!["A \\ B".to_string()]];
        expected[0].extend(COLUMNS.map(label));
        for (op, row) in ROWS.into_iter().zip(table) {
            let mut line = vec![label(op)];
            line.extend(row.iter().map(Cell::to_string));
            expected.push(line);
        }
        assert_eq!(documented(name), expected, "the table {name}");
    }
}

/// A replica, and its view by the oracle.
#[derive(Clone)]
struct Peer {
    replica: Replica,
    view: View,
}

impl Peer {
    fn new(byte: u8) -> Peer {
        let mut replica = Replica::new(Space::default(), WriterId::from_bytes([byte; 16]));
        replica.set_time(BEFORE);
        Peer {
            replica,
            view: View::default(),
        }
    }

    fn apply(&mut self, oracle: &mut Oracle, op: Op) {
        self.apply_to(oracle, 0, op);
    }

    fn apply_to(&mut self, oracle: &mut Oracle, key: usize, op: Op) {
        let (view, replica) = (&mut self.view, &mut self.replica);
        let made = oracle.transact(view, replica, BEFORE, &[(key, op)], Call::Single);
        made.unwrap_or_else(|wrong| panic!("{op:?}: {wrong}"));
    }

    /// Makes an operation with this clock, the first of its writer on the counter.
    fn apply_at(&mut self, oracle: &mut Oracle, clock: u64, op: Op) {
        for _ in 1..clock {
            self.apply_to(oracle, 1, Op::Add(1));
        }
        self.apply(oracle, op);
        assert_eq!(self.replica.clock(), clock);
    }

    /// Its whole state, encoded.
    fn state(&self) -> Vec<u8> {
        self.replica.delta(&VersionVector::default()).encode()
    }

    /// Merges encoded messages in this order, and compares with the oracle after each.
    fn after(&self, oracle: &Oracle, messages: &[&[u8]]) -> Peer {
        let mut peer = self.clone();
        for bytes in messages {
            let message = Message::decode(bytes).expect("a message of ours decodes");
            peer.replica.merge(&message).expect("a full state merges");
            let learnt = oracle.learn(&mut peer.view, peer.replica.writers());
            learnt.expect("the view is a causal cut");
            let checked = oracle.check(&peer.view, &peer.replica, BEFORE);
            checked.unwrap_or_else(|wrong| panic!("{wrong}"));
        }
        peer
    }

    /// The cell that it reads.
    fn cell(&self) -> Cell {
        let handle = self.replica.key_id(KEY);
        let expiry = handle.and_then(|handle| self.replica.expiry_at(handle));
        match (self.replica.value(KEY), expiry) {
            (None, None) => Absent,
            (Some(value), None) => Value(value),
            (Some(value), Some(at)) => Expires(value, at),
            (None, Some(at)) => panic!("absent, and expires at {at}"),
        }
    }
}

/// Makes the two operations concurrently, and returns the final read of all replicas.
fn outcome(start: Option<Op>, [of_a, of_b]: [Op; 2]) -> Cell {
    let mut oracle = Oracle::new(vec![KEY.into()]);
    let [mut a, mut b, mut c] = [1, 2, 3].map(Peer::new);
    if let Some(op) = start {
        c.apply(&mut oracle, op);
        let state = c.state();
        [a, b] = [a, b].map(|peer| peer.after(&oracle, &[&state]));
    }
    a.apply(&mut oracle, of_a);
    b.apply(&mut oracle, of_b);
    let (from_a, from_b) = (a.state(), b.state());
    let pushed_a = a.replica.delta(&c.replica.vector()).encode();
    let pushed_b = b.replica.delta(&c.replica.vector()).encode();
    let met = [
        a.after(&oracle, &[&from_b]),
        b.after(&oracle, &[&from_a]),
        c.after(&oracle, &[&from_a, &from_b]),
        c.after(&oracle, &[&from_b, &from_a]),
        c.after(&oracle, &[&pushed_a, &pushed_b]),
        c.after(&oracle, &[&pushed_b, &pushed_a, &pushed_b]),
        // A replica that has seen nothing at all before.
        Peer::new(4).after(&oracle, &[&from_b, &from_a, &from_b]),
    ];
    let cell = met[0].cell();
    for peer in met {
        assert_eq!(peer.cell(), cell);
        let bytes = a.after(&oracle, &[&from_b]).replica.canonical_bytes();
        assert_eq!(peer.replica.canonical_bytes(), bytes);
        let Peer { mut replica, view } = peer;
        replica.set_time(AFTER);
        let checked = oracle.check(&view, &replica, AFTER);
        checked.expect("also when the expiry has passed");
        if matches!(cell, Expires(..)) {
            assert_eq!(replica.value(KEY), None);
        }
    }
    cell
}

fn compare(start: Option<Op>, table: Table) {
    for (row, of_a) in ROWS.into_iter().enumerate() {
        for (column, of_b) in COLUMNS.into_iter().enumerate() {
            let cell = outcome(start, [of_a, of_b]);
            let expected = table[row][column];
            assert_eq!(cell, expected, "{} with {}", label(of_a), label(of_b));
        }
    }
}

#[test]
fn concurrent_pairs_on_an_existing_counter() {
    compare(Some(Op::Add(10)), EXISTING);
}

#[test]
fn concurrent_pairs_on_an_absent_counter() {
    compare(None, ABSENT);
}

/// The members of a space in which a counter expires at 1000.
const OWNERS: [Owner; 2] = [[1; 32], [2; 32]];
const NONCE: [u8; 16] = [0; 16];

/// Two members of one space.
fn members() -> [Peer; 2] {
    let [mut a, mut b] = OWNERS.map(|owner| {
        let writer = WriterId::mint(&Space::default(), &owner, &NONCE);
        let mut replica = Replica::new(Space::default(), writer);
        replica.set_time(BEFORE);
        Peer {
            replica,
            view: View::default(),
        }
    });
    let founded = a.replica.members_mut().found(&OWNERS[0], &NONCE, 1);
    founded.expect("a space is founded");
    let forced = a.replica.members_mut().force(&OWNERS);
    forced.expect("it has two members");
    let merged = b.replica.merge(&a.replica.delta(&VersionVector::default()));
    merged.expect("the other one learns of the space");
    let announced = b.replica.members_mut().announce(&OWNERS[1], &NONCE, 1);
    announced.expect("and announces itself");
    [a, b]
}

/// Both receive what the other has, in encoded messages. Returns the read of both.
fn met(oracle: &Oracle, a: &Peer, b: &Peer) -> Cell {
    let cells = [(a, b), (b, a)].map(|(to, from)| {
        let mut to = to.clone();
        let message = from.replica.delta(&to.replica.vector()).encode();
        let message = Message::decode(&message).expect("a message of ours decodes");
        let live = Some(from.replica.writer());
        let merged = to.replica.merge_with(&message, live, &mut |_| ());
        merged.expect("a member merges what another one has");
        let learnt = oracle.learn(&mut to.view, to.replica.writers());
        learnt.expect("the view is a causal cut");
        let checked = oracle.check(&to.view, &to.replica, BEFORE);
        checked.unwrap_or_else(|wrong| panic!("{wrong}"));
        to.cell()
    });
    assert_eq!(cells[0], cells[1]);
    cells[0]
}

/// A member whose clock is fast ends the counter while the other one makes an operation.
#[test]
fn a_refresh_beats_the_end_of_an_expired_counter() {
    let rows = documented("expired");
    assert_eq!(rows[0], ["B", "value"]);
    let ops = [Op::Add(3), Op::Reset, Op::Delete, Op::Set(50)];
    let refreshes = [Op::Expire(2_000), Op::Expire(500), Op::Persist];
    let ops = ops.into_iter().chain(refreshes).map(Some).chain([None]);
    let ops: Vec<Option<Op>> = ops.collect();
    assert_eq!(rows.len(), ops.len() + 1);
    for (row, op) in rows[1..].iter().zip(ops) {
        let mut oracle = Oracle::new(vec![KEY.into()]);
        let [mut a, mut b] = members();
        let stamp = |peer: &Peer| (peer.replica.writer(), peer.replica.clock());
        let own = stamp(&a);
        oracle.note(&mut a.view, own);
        let seen = oracle.learn(&mut b.view, a.replica.writers());
        seen.expect("it saw how the space began");
        let own = stamp(&b);
        oracle.note(&mut b.view, own);
        a.apply(&mut oracle, Op::Add(10));
        a.apply(&mut oracle, Op::Expire(1_000));
        let message = a.replica.delta(&b.replica.vector());
        let live = Some(a.replica.writer());
        let merged = b.replica.merge_with(&message, live, &mut |_| ());
        merged.expect("it sees the counter");
        let seen = oracle.learn(&mut b.view, b.replica.writers());
        seen.expect("it sees the counter");
        let mut end = |peer: &mut Peer| {
            let (view, replica) = (&mut peer.view, &mut peer.replica);
            let ended = oracle.materialize(view, replica, AFTER, 0);
            assert_eq!(ended, Ok(true));
            peer.replica.set_time(BEFORE);
        };
        end(&mut a);
        if op.is_none() {
            end(&mut b);
        }
        if let Some(op) = op {
            b.apply(&mut oracle, op);
        }
        let name = op.map_or("end".into(), label);
        assert_eq!([name, met(&oracle, &a, &b).to_string()], row[..]);
    }
}

/// Of two bases one counts: by the kind, then by the clock, then by the writer id.
#[test]
fn of_two_bases_the_document_s_counts() {
    let rows = documented("clocks");
    assert_eq!(rows[0], ["clock of A", "clock of B", "A", "B", "value"]);
    assert_eq!(rows.len(), 6);
    let op = |text: &str| {
        let all = ROWS.into_iter().chain(COLUMNS);
        all.into_iter()
            .find(|op| label(*op) == text)
            .expect("an operation")
    };
    for row in &rows[1..] {
        let [clock_a, clock_b] = [0, 1].map(|at| row[at].parse().expect("a clock"));
        let mut oracle = Oracle::new(vec![KEY.into(), OTHER.into()]);
        let [mut a, mut b] = [1, 2].map(Peer::new);
        a.apply_at(&mut oracle, clock_a, op(&row[2]));
        b.apply_at(&mut oracle, clock_b, op(&row[3]));
        let (from_a, from_b) = (a.state(), b.state());
        for met in [a.after(&oracle, &[&from_b]), b.after(&oracle, &[&from_a])] {
            assert_eq!(met.cell().to_string(), row[4], "{row:?}");
        }
    }
}
