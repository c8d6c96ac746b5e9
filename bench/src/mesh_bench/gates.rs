//! Ways between nodes that can be cut: each node dials another one through a gate of its own.

use anyhow::Result;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Room for what is passed on at once.
const BUFFER_BYTES: usize = 64 << 10;
/// How often a connection that carries nothing looks whether it may.
const LOOK: Duration = Duration::from_millis(2);

/// The directions of a connection, as bits: what the node says that dialled, and what it hears.
pub(super) const SAID: u8 = 1;
pub(super) const HEARD: u8 = 2;
/// No connection is taken, and the present ones are closed.
const CLOSED: u8 = 4;

/// What a gate does with what is sent through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Open,
    /// Connections are closed, and none is taken.
    Reset,
    /// Connections stay and are taken. What is sent arrives once the gate is open again.
    Stalled,
    /// The same in one direction.
    Half,
}

/// A port that leads to a node. It ends with the process.
pub(super) struct Gate {
    /// What to dial.
    pub(super) address: String,
    state: Arc<State>,
}

struct State {
    /// The port that it leads to, or 0.
    to: AtomicU16,
    /// What is closed, as bits.
    shut: AtomicU8,
    /// The directions in which the connections of now lose what is sent, for ever. Later connections have
    /// another one.
    lost: Mutex<Arc<AtomicU8>>,
}

impl Gate {
    /// A gate that leads nowhere yet.
    pub(super) fn new() -> Result<Gate> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = format!("/ip4/127.0.0.1/tcp/{}", listener.local_addr()?.port());
        let state = Arc::new(State {
            to: AtomicU16::new(0),
            shut: AtomicU8::new(0),
            lost: Mutex::default(),
        });
        let own = state.clone();
        thread::spawn(move || {
            for one in listener.incoming().flatten() {
                let port = state.to.load(Ordering::SeqCst);
                let closed = state.shut.load(Ordering::SeqCst) & CLOSED != 0;
                if let (false, Ok(other)) = (closed, TcpStream::connect(("127.0.0.1", port))) {
                    connect(&one, &other, &state);
                }
            }
        });
        Ok(Gate {
            address,
            state: own,
        })
    }

    /// Leads to the port of `listen`, `/ip4/127.0.0.1/tcp/PORT/...`, from now on.
    pub(super) fn lead_to(&self, listen: &str) {
        let port = listen.split('/').nth(4).and_then(|it| it.parse().ok());
        self.state.to.store(port.unwrap_or(0), Ordering::SeqCst);
    }

    pub(super) fn set(&self, way: Way) {
        let bits = match way {
            Way::Open => 0,
            Way::Reset => CLOSED,
            Way::Stalled => SAID | HEARD,
            Way::Half => SAID,
        };
        self.state.shut.store(bits, Ordering::SeqCst);
    }

    /// Has the connections of now lose what is sent in these directions, for ever.
    pub(super) fn lose(&self, directions: u8) {
        let mut lost = self
            .state
            .lost
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        lost.store(directions, Ordering::SeqCst);
        *lost = Arc::default();
    }
}

fn connect(one: &TcpStream, other: &TcpStream, state: &Arc<State>) {
    let _ = (one.set_nodelay(true), other.set_nodelay(true));
    let lost = state.lost.lock().unwrap_or_else(PoisonError::into_inner);
    for (from, to, direction) in [(one, other, SAID), (other, one, HEARD)] {
        let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else {
            return;
        };
        // A thread that waits for bytes has to hear of a reset, too.
        let _ = from.set_read_timeout(Some(LOOK * 10));
        let (state, lost) = (state.clone(), lost.clone());
        thread::spawn(move || {
            pass(&from, &to, direction, &state, &lost);
            let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
        });
    }
}

fn pass(mut from: &TcpStream, mut to: &TcpStream, direction: u8, state: &State, lost: &AtomicU8) {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let shut = state.shut.load(Ordering::SeqCst);
        if shut & CLOSED != 0 {
            return;
        }
        if shut & direction != 0 {
            thread::sleep(LOOK);
            continue;
        }
        let bytes = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), TimedOut | WouldBlock) => continue,
            Err(_) => return,
        };
        if lost.load(Ordering::SeqCst) & direction == 0 && to.write_all(&buffer[..bytes]).is_err() {
            return;
        }
    }
}
