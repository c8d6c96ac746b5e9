//! Connections that silently carry nothing any more, in one direction or in both. A proxy between two
//! nodes takes what is sent, and drops it. Connections that are made later are sound.

use crate::members::close;
use crate::process::{Node, eventually};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The longest time until a dead connection is replaced. It takes less than 6 s, and some more where many
/// tests share few processors. Two pings without an answer took 25 s.
const REPLACED_MAX: Duration = Duration::from_secs(12);

/// Directions, as bits.
const TO_DIALLER: u8 = 1;
const TO_LISTENER: u8 = 2;

/// A proxy before an address. It ends with the process.
struct Proxy {
    port: u16,
    /// The directions in which connections of the present generation carry nothing. New connections
    /// have a generation of their own.
    dead: Arc<std::sync::Mutex<Arc<AtomicU8>>>,
}

impl Proxy {
    fn before(port: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = listener.local_addr().expect("its address").port();
        let dead = Arc::new(std::sync::Mutex::new(Arc::new(AtomicU8::new(0))));
        let generation = dead.clone();
        thread::spawn(move || {
            for dialler in listener.incoming().flatten() {
                let Ok(listener) = TcpStream::connect(("127.0.0.1", port)) else {
                    continue;
                };
                let dead = generation.lock().expect("no panic").clone();
                let copy = |stream: &TcpStream| stream.try_clone().expect("a second handle");
                let (one, other) = (copy(&dialler), copy(&listener));
                let flag = dead.clone();
                thread::spawn(move || carry(one, other, &flag, TO_LISTENER));
                thread::spawn(move || carry(listener, dialler, &dead, TO_DIALLER));
            }
        });
        Proxy { port: own, dead }
    }

    /// Lets the present connections carry nothing in these directions.
    fn kill(&self, directions: u8) {
        let mut present = self.dead.lock().expect("no panic");
        present.store(directions, Ordering::SeqCst);
        *present = Arc::new(AtomicU8::new(0));
    }
}

/// Carries bytes, and the end of the stream where it is not dead.
fn carry(mut from: TcpStream, mut to: TcpStream, dead: &AtomicU8, direction: u8) {
    let mut bytes = [0; 16_384];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let is_dead = dead.load(Ordering::SeqCst) & direction != 0;
        if !is_dead && to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    if dead.load(Ordering::SeqCst) & direction == 0 {
        let _ = to.shutdown(Shutdown::Both);
    }
}

fn connections(node: &Node) -> usize {
    node.log().matches(" connected ").count()
}

/// Two nodes with a proxy between them, whose connection is dead in these directions after a while.
fn is_replaced(directions: u8) {
    let one = Node::start(&["--listen", "/ip4/127.0.0.1/tcp/0"]);
    let mut parts = one.listen[0].split('/');
    let port = parts.nth(4).and_then(|it| it.parse().ok()).expect("a port");
    let proxy = Proxy::before(port);
    let address = format!("/ip4/127.0.0.1/tcp/{}/p2p/{}", proxy.port, one.peer_id);
    let listen = ["--listen", "/ip4/127.0.0.1/tcp/0", "--address-book=off"];
    let two = Node::start(&[&listen[..], &["--peer", &address]].concat());
    close(&[&one, &two]);
    one.add("likes", 1);
    eventually("it is linked", || {
        (two.value("likes") == Some(1)).then_some(())
    });
    proxy.kill(directions);
    let begun = Instant::now();
    one.add("likes", 1);
    two.add("likes", 1);
    for node in [&one, &two] {
        eventually("all count", || {
            (node.value("likes") == Some(3)).then_some(())
        });
    }
    let took = begun.elapsed();
    println!("directions {directions}: replaced after {took:?}");
    assert!(took < REPLACED_MAX, "{directions}: {took:?}\n{}", two.log());
    assert!(connections(&two) <= 3, "{}", two.log());
}

#[test]
fn a_connection_that_carries_nothing_is_replaced_in_seconds() {
    thread::scope(|scope| {
        for directions in [TO_DIALLER | TO_LISTENER, TO_LISTENER, TO_DIALLER] {
            scope.spawn(move || is_replaced(directions));
        }
    });
}
