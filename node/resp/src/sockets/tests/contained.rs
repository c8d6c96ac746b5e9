//! A panic in the work of one client, and clients that occupy a place without use.

use super::*;
use crate::panics::{BEFORE, WITHIN};

impl Bench {
    /// The bytes that a socket reads until its end.
    fn rest(socket: &mut TcpStream) -> String {
        let mut bytes = Vec::new();
        // The system may reset it.
        let _ = socket.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).replace("\r\n", "|")
    }

    /// Waits until a panic is counted; the client may learn of its end before that.
    fn expect_panic(&self, part: &str) {
        let row = format!("tallymesh_panics_total{{part=\"{part}\"}} 1\n");
        let since = Instant::now();
        while !self.metrics.text(&[]).contains(&row) {
            assert!(since.elapsed() < PATIENCE, "{part}: no panic is counted");
            thread::yield_now();
        }
    }

    /// The value of a counter, or the refusal.
    fn value(&self, key: &str) -> Result<Option<i128>, Refusal> {
        let read = self.handle.read(SPACE, key.to_owned());
        Ok(self.answer(read)?.map(|it| it.now.value))
    }

    /// The node counts and answers.
    fn goes_on(mut self) {
        let added = self.answer(self.handle.add(SPACE, "c".to_owned(), 1));
        assert_eq!(added.map(|it| it.now.value), Ok(1));
        self.subscriber
            .write_all(b"UNSUBSCRIBE\r\nGET c\r\n")
            .expect("send");
        expect(
            &mut self.subscriber,
            "*3|$11|unsubscribe|$16|__keyspace@0__:a|:0|$1|1|",
        );
        self.stop();
    }

    /// The node ends by itself, and reports that its state can't be trusted.
    fn ends_half_changed(&mut self) {
        let ended = within_patience(&self.runtime, &mut self.ended).expect("it tells how it ended");
        assert_eq!(ended.expect_err("stopped").code(), "half_changed");
    }
}

#[test]
fn a_command_that_panics_ends_its_session_alone() {
    for durability in [Durability::Always, Durability::Memory] {
        let mut bench = Bench::new(durability);
        let line = format!("INCR b\r\nECHO {BEFORE}\r\nINCR b\r\n");
        bench.client.write_all(line.as_bytes()).expect("send");
        let told = Bench::rest(&mut bench.client);
        assert!(
            told.starts_with(":1|-ERR internal error in 'echo': "),
            "{told}"
        );
        assert_eq!(told.matches('|').count(), 2, "{told}");
        bench.expect_panic("redis");
        assert_eq!(bench.value("b"), Ok(Some(1)));
        bench.goes_on();
    }
}

#[test]
fn a_node_whose_replica_may_be_half_changed_ends_and_keeps_nothing_of_it() {
    let mut bench = Bench::new(Durability::Always);
    bench.gate.hold();
    let add = format!("INCR b\r\nINCR {WITHIN}\r\n");
    bench.client.write_all(add.as_bytes()).expect("send");
    bench.ends_half_changed();
    assert_eq!(
        Bench::rest(&mut bench.client),
        "",
        "nothing is acknowledged"
    );
    assert_eq!(bench.value("a"), Err(Refusal::Stopped));
}

/// A node whose Redis clients have to authenticate, with a bound on their number.
fn asking(clients_max: usize) -> (Running, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let redis = listener.local_addr().expect("an address");
    let ledger = || tallymesh_node_engine::access::Ledger::open(None).expect("in memory");
    let running = start(Start {
        spaces: vec![Space::default()],
        owner: [7; 32],
        node_table: tallymesh_node_engine::network::NodeTable::default(),
        guest_timeout_ms: 0,
        key_window: Duration::from_secs(60),
        keyed_bounds: KEYED_BOUNDS,
        durability: Durability::Memory,
        store: Box::new(tallymesh_node_store::Memory::default()),
        folder: None,
        ledger: ledger(),
        sockets: Some(crate::begin(Serve {
            listener: Some(listener),
            port: redis.port(),
            rules: RespConfig {
                password: Some("secret".to_owned()),
                ..RespConfig::default()
            },
            clients_max,
            ledger: ledger(),
            token: tallymesh_node_engine::access::OperatorToken::open(None).expect("drawn"),
        })),
        broadcast: mpsc::channel(16).0,
        used: mpsc::unbounded_channel().0,
        metrics: Metrics::new(),
        clock: WallClock::default(),
    });
    (running.expect("start"), redis)
}

fn connect(redis: std::net::SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(redis).expect("connect");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

#[test]
fn who_does_not_authenticate_is_closed_and_keeps_nobody_out() {
    let (_running, redis) = asking(16);
    let good = || {
        let mut good = connect(redis);
        good.write_all(b"AUTH secret\r\n").expect("send");
        expect(&mut good, "+OK|");
        good
    };
    let mut first = good();
    // Far more connections than there is room for. The oldest are closed, and a valid client is
    // accepted among them.
    let mut silent: Vec<TcpStream> = (0..40).map(|_| connect(redis)).collect();
    let mut second = good();
    // The others receive the reason, in time. A client that sends commands and does not
    // authenticate is treated the same.
    let mut last = connect(redis);
    last.write_all(b"PING\r\n").expect("send");
    let told = Bench::rest(&mut last);
    assert!(
        told.starts_with("-NOAUTH Authentication required.|-NOAUTH auth_time: "),
        "{told}"
    );
    let told: Vec<String> = silent.iter_mut().map(Bench::rest).collect();
    assert!(
        told.iter()
            .all(|it| it.is_empty() || it.starts_with("-NOAUTH auth_time: ")),
        "{told:?}"
    );
    assert!(
        told.iter().any(|it| it.is_empty()) && !told[39].is_empty(),
        "{told:?}"
    );
    // A client that has authenticated may be silent. One that resets its authentication may not.
    first.write_all(b"INCR a\r\n").expect("send");
    expect(&mut first, ":1|");
    second.write_all(b"RESET\r\n").expect("send");
    assert!(Bench::rest(&mut second).starts_with("+RESET|-NOAUTH auth_time: "));
}

/// Waits until one of these connections receives the error that it occupies too much.
fn expect_one_full(all: &mut [TcpStream]) {
    let mut told = [0; 38];
    let since = Instant::now();
    let mut is_told = |socket: &mut TcpStream| {
        socket.set_nonblocking(true).expect("a socket");
        socket.read_exact(&mut told).is_ok()
    };
    while !all.iter_mut().any(&mut is_told) {
        assert!(since.elapsed() < PATIENCE, "nobody is refused");
        thread::yield_now();
    }
    let told = String::from_utf8_lossy(&told);
    assert_eq!(told, "-ERR held_full: this connection holds ");
}

#[test]
fn half_commands_of_all_clients_together_are_bounded() {
    let (_running, redis) = asking(100);
    let mut all: Vec<TcpStream> = (0..5)
        .map(|at| {
            let mut client = connect(redis);
            client.write_all(b"AUTH secret\r\n").expect("send");
            expect(&mut client, "+OK|");
            // The command never ends. The last connection occupies least.
            let (bytes, length) = if at == 4 {
                (1_000, 300_000)
            } else {
                (700 << 10, 1_000_000)
            };
            let _ = client.write_all(
                format!("*2\r\n$4\r\nECHO\r\n${length}\r\n{}", "x".repeat(bytes)).as_bytes(),
            );
            client
        })
        .collect();
    let mut small = all.pop().expect("five");
    expect_one_full(&mut all);
    small.write_all(&[b'x'; 299_000]).expect("send");
    small.write_all(b"\r\n").expect("send");
    let mut head = [0; 9];
    small.read_exact(&mut head).expect("an answer");
    assert_eq!(&head, b"$300000\r\n");
}

/// Subscribes to so many patterns that match no key, each slow to compare.
fn listen_slowly(socket: &mut TcpStream, patterns: usize) {
    let names: String = (0..patterns)
        .map(|at| format!(" *{}{at:04}*", "a?".repeat(55)))
        .collect();
    let line = format!("PSUBSCRIBE{names}\r\n");
    // Inline commands are shorter than that.
    let args: Vec<&str> = line.split_whitespace().collect();
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend(format!("${}\r\n{arg}\r\n", arg.len()).bytes());
    }
    socket.write_all(&bytes).expect("send");
    let end = format!(":{patterns}\r\n");
    let mut answer = Vec::new();
    let mut piece = [0; 1 << 16];
    while !answer.ends_with(end.as_bytes()) {
        let read = socket.read(&mut piece).expect("an answer");
        assert!(read > 0, "closed");
        answer.extend_from_slice(&piece[..read]);
    }
}

#[test]
fn patterns_that_take_long_hold_up_neither_writes_nor_other_subscribers() {
    let (_running, redis) = asking(16);
    let known = || {
        let mut socket = connect(redis);
        socket.write_all(b"AUTH secret\r\n").expect("send");
        expect(&mut socket, "+OK|");
        socket
    };
    let mut slow: Vec<TcpStream> = (0..3).map(|_| known()).collect();
    slow.iter_mut().for_each(|it| listen_slowly(it, 500));
    let mut fair = known();
    fair.write_all(b"PSUBSCRIBE __keyevent@0__:*\r\n")
        .expect("send");
    expect(&mut fair, "*3|$10|psubscribe|$16|__keyevent@0__:*|:1|");
    let mut writer = known();
    let key = "a".repeat(400);
    // The patterns take longer for one write than this whole test may.
    for at in 1..=160 {
        writer
            .write_all(format!("INCR {key}\r\n").as_bytes())
            .expect("send");
        expect(&mut writer, &format!(":{at}|"));
        expect(
            &mut fair,
            &format!("*4|$8|pmessage|$16|__keyevent@0__:*|$21|__keyevent@0__:incrby|$400|{key}|"),
        );
    }
    // A subscriber that is too far behind is disconnected, and its waiting events are dropped.
    let since = Instant::now();
    let is_cut = |socket: &mut TcpStream| {
        socket.set_nonblocking(true).expect("a socket");
        match socket.read(&mut [0; 1024]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    };
    while !slow.iter_mut().any(is_cut) {
        assert!(since.elapsed() < PATIENCE, "nobody is cut off");
        thread::yield_now();
    }
}

/// A connection from another address of this machine.
#[cfg(target_os = "linux")]
fn connect_from(address: [u8; 4], redis: std::net::SocketAddr) -> TcpStream {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let own = std::net::SocketAddr::from((address, 0));
    socket
        .bind(&own.into())
        .expect("an address of the loopback");
    socket.connect(&redis.into()).expect("connect");
    let socket = TcpStream::from(socket);
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

/// Opens more connections than strangers have places. Closes older ones while there are more than
/// 100.
#[cfg(target_os = "linux")]
fn crowd_in(crowd: &mut std::collections::VecDeque<TcpStream>, redis: std::net::SocketAddr) {
    for _ in 0..130 {
        // The system refuses one if too many wait for the node.
        let one = TcpStream::connect_timeout(&redis, Duration::from_millis(20));
        crowd.extend(one.ok());
        if crowd.len() > 100 {
            crowd.pop_front();
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn who_comes_and_goes_without_end_pushes_out_nobody_who_is_slow_to_authenticate() {
    // At most 64 of the connections may be strangers.
    let (_running, redis) = asking(128);
    let mut crowd = std::collections::VecDeque::new();
    crowd_in(&mut crowd, redis);
    for address in [[127, 0, 0, 2], [127, 0, 0, 1]] {
        for _ in 0..2 {
            let mut slow = connect_from(address, redis);
            let mut ping = || {
                slow.write_all(b"PING\r\n").expect("send");
                expect(&mut slow, "-NOAUTH Authentication required.|");
            };
            // The answer shows that the connection has a place.
            ping();
            crowd_in(&mut crowd, redis);
            // The driver has looked at its listener by the second answer.
            ping();
            ping();
            slow.write_all(b"AUTH secret\r\n").expect("send");
            expect(&mut slow, "+OK|");
        }
    }
}

#[test]
fn strangers_end_nobody_who_has_authenticated() {
    let (_running, redis) = asking(200);
    let mut known = connect(redis);
    known.write_all(b"AUTH secret\r\n").expect("send");
    expect(&mut known, "+OK|");
    // The command is larger than all strangers together may occupy, and it is not complete yet.
    let long = 700 << 10;
    known
        .write_all(format!("*2\r\n$4\r\nECHO\r\n${long}\r\n").as_bytes())
        .expect("send");
    known.write_all(&vec![b'x'; long - 10]).expect("send");
    // One stranger may not send much, however its command is divided.
    let mut parts = String::from("*10\r\n");
    for _ in 0..3 {
        parts += &format!("$9000\r\n{}\r\n", "y".repeat(9_000));
    }
    let mut greedy = connect(redis);
    let _ = greedy.write_all(parts.as_bytes());
    let told = Bench::rest(&mut greedy);
    assert_eq!(
        told,
        "-ERR Protocol error: a command has at most 20480 bytes before authentication|"
    );
    // Many strangers occupy as much as each may, and the largest of them are closed.
    let part = format!("*2\r\n$4\r\nAUTH\r\n$16000\r\n{}", "z".repeat(15_000));
    let mut all: Vec<TcpStream> = (0..60)
        .map(|_| {
            let mut socket = connect(redis);
            let _ = socket.write_all(part.as_bytes());
            socket
        })
        .collect();
    expect_one_full(&mut all);
    known.write_all(&[b'x'; 10]).expect("send");
    known.write_all(b"\r\n").expect("send");
    let mut head = [0; 9];
    known.read_exact(&mut head).expect("an answer");
    assert_eq!(&head, b"$716800\r\n");
}
