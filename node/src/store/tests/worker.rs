//! A worker whose store fails while somebody waits for room.

use super::super::{Each, Record, Store, StoreError};
use super::{Durability, Worker, change};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;
use tallymesh_core::Space;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store whose first commit fails when it is told to.
struct Failing {
    begun: Sender<()>,
    fail: Receiver<()>,
}

impl Store for Failing {
    fn identity(&mut self, fresh: [u8; 32]) -> Result<[u8; 32], StoreError> {
        Ok(fresh)
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn load(&mut self, _: &Space, _: &mut Each<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    fn commit(&mut self, _: &[Record]) -> Result<(), StoreError> {
        self.begun.send(()).expect("the test listens");
        self.fail.recv().expect("the test speaks");
        Err(StoreError::io("commit", "this store was told to fail"))
    }

    fn wants_snapshot(&self) -> Option<Space> {
        None
    }

    fn prepare(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }
}

#[test]
fn whoever_waits_for_room_goes_on_when_the_store_fails() {
    let (begin, begun) = channel();
    let (tell, fail) = channel();
    let store = Failing { begun: begin, fail };
    let worker = Worker::start(Box::new(store), Durability::Always, |_| ()).expect("start");
    worker.submit(vec![change("one", b"a")]);
    begun.recv_timeout(PATIENCE).expect("a commit");
    // More than may wait.
    worker.submit(vec![change("one", &vec![0; 65 << 20])]);
    let worker = std::sync::Arc::new(worker);
    let (submitting, submits) = channel();
    let (submitted, done) = channel();
    for _ in 0..4 {
        let (worker, submitting, submitted) =
            (worker.clone(), submitting.clone(), submitted.clone());
        thread::spawn(move || {
            submitting.send(()).expect("the test listens");
            worker.submit(vec![change("one", b"b")]);
            // The test may have given up.
            let _ = submitted.send(());
        });
    }
    for _ in 0..4 {
        submits.recv_timeout(PATIENCE).expect("a thread");
    }
    // Most of them wait by now; none may go on.
    for _ in 0..1000 {
        thread::yield_now();
    }
    assert!(done.try_recv().is_err(), "there is no room");
    tell.send(()).expect("the store listens");
    for _ in 0..4 {
        done.recv_timeout(PATIENCE).expect("nobody waits any more");
    }
    assert_eq!(worker.durable().expect_err("failed").code(), "store_io");
}
