//! A panic in the work of one client.

use super::*;
use crate::contain::tests::{BEFORE, WITHIN};

impl Alone {
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
        let read = within_patience(&self.runtime, read)?;
        Ok(read.map(|it| it.now.value))
    }

    fn add(&self, key: &str) -> Result<i128, Refusal> {
        let add = self.handle.add(SPACE, key.to_owned(), 1);
        Ok(within_patience(&self.runtime, add)?.now.value)
    }
}

#[test]
fn a_request_that_panics_ends_alone_and_so_does_a_link() {
    for durability in [Durability::Always, Durability::Memory] {
        let alone = Alone::new(durability);
        assert_eq!(alone.value(BEFORE), Err(Refusal::Internal));
        alone.expect_panic("request");
        let (outbox, mut inbox) = mpsc::channel(16);
        let link = alone.handle.next_link();
        let connect = alone.handle.connect(NewLink {
            link,
            spaces: None,
            kind: PeerKind::Libp2p,
            peer: "a test".to_owned(),
            broadcast: false,
            outbox,
            from: Default::default(),
        });
        within_patience(&alone.runtime, connect);
        let frame = alone.handle.frame(link, BEFORE.into());
        within_patience(&alone.runtime, frame);
        while !matches!(
            within_patience(&alone.runtime, inbox.recv()).expect("it is closed in order"),
            Order::Close(..)
        ) {}
        alone.expect_panic("sync");
        assert_eq!(alone.add("c"), Ok(1));
        assert_eq!(alone.value("c"), Ok(Some(1)));
    }
}

#[test]
fn a_node_whose_replica_may_be_half_changed_ends_and_keeps_nothing_of_it() {
    let mut alone = Alone::new(Durability::Always);
    alone.gate.hold();
    let refused = alone.add(WITHIN).err();
    assert!(
        matches!(refused, Some(Refusal::Internal | Refusal::Stopped)),
        "{refused:?}"
    );
    let ended = within_patience(&alone.runtime, &mut alone.ended).expect("it tells how it ended");
    assert_eq!(ended.expect_err("stopped").code(), "half_changed");
    assert_eq!(alone.value("a"), Err(Refusal::Stopped));
}
