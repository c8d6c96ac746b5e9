//! When digests are sent.

use super::super::{Input, Output, SyncConfig};
use super::*;
use crate::wire::Frame;
use crate::writer_id::{Space, WriterId};

/// A replica with a machine, and the links on which it has sent digests since the last look.
struct End(Replica, SyncMachine);

impl End {
    fn new(byte: u8) -> End {
        let writer = WriterId::from_bytes([byte; 16]);
        let replica = Replica::new(Space::default(), writer);
        End(replica, SyncMachine::new(SyncConfig::default(), 1))
    }

    fn handle(&mut self, now: Millis, input: Input<'_>) {
        self.1.handle(now, &mut self.0, input);
    }

    fn frames(&mut self) -> Vec<(Link, Vec<u8>)> {
        let outputs = core::iter::from_fn(|| self.1.poll());
        let frames = outputs.filter_map(|output| match output {
            Output::Send { link, bytes } => Some((link, bytes.to_vec())),
            _ => None,
        });
        frames.collect()
    }

    fn digests(&mut self) -> Vec<Link> {
        let frames = self.frames().into_iter();
        let is_digest = |bytes: &[u8]| {
            let body = Frame::decode(bytes).unwrap().body;
            matches!(body, Body::Digest(_) | Body::Position(_))
        };
        let digests = frames.filter(|(_, bytes)| is_digest(bytes));
        digests.map(|(link, _)| link).collect()
    }
}

#[test]
fn a_link_that_may_have_lost_frames_is_compared_at_once() {
    let (mut end, mut other) = (End::new(1), End::new(2));
    let links = [Link(3), Link(4)];
    for link in links {
        let broadcast = false;
        for it in [&mut end, &mut other] {
            it.handle(0, Input::Connected { link, broadcast });
        }
        for (_, bytes) in other.frames() {
            let bytes = &bytes;
            end.handle(0, Input::Frame { link, bytes });
        }
    }
    end.frames();
    end.handle(10, Input::Tick);
    assert_eq!(end.digests(), []);
    end.1.compare_soon(20, Link(4));
    end.1.compare_soon(20, Link(9));
    end.handle(20, Input::Tick);
    assert_eq!(end.digests(), [Link(4)]);
    end.handle(30, Input::Tick);
    assert_eq!(end.digests(), []);
}
