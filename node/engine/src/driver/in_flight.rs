//! Bytes in flight: frames that a transport was given and has not sent yet.
//!
//! A client that asks and does not read must take a bounded part of the memory, and all such clients together, too. A frame
//! beyond the bounds is dropped. Its receiver misses it, and pulls.

use prometheus_client::metrics::gauge::Gauge;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most bytes in flight on the link of a client, if it is not one larger frame alone. A client that follows the protocol
/// has a part of a transfer and a round, of some 100 KiB each. With more, a client that does not read takes more.
const LINK_BYTES_MAX: usize = 1 << 20;

/// Most bytes in flight on all links. With less, fewer clients receive large transfers at a time.
const ALL_BYTES_MAX: usize = 256 << 20;

/// A frame up to this length goes also if all links together have no room, if its link has nothing in flight. So clients that
/// read go on while others fill the room. More takes more memory for each link.
const SMALL_BYTES_MAX: usize = 64 << 10;

/// The bytes in flight on a link, and on all links.
pub(super) struct InFlight {
    link: Arc<AtomicUsize>,
    all: Gauge,
}

impl InFlight {
    /// None on a link so far. `all` counts those of all links.
    pub(super) fn new(all: Gauge) -> InFlight {
        InFlight {
            link: Arc::default(),
            all,
        }
    }

    /// Whether the transport has not sent everything.
    pub(super) fn is_busy(&self) -> bool {
        self.bytes() > 0
    }

    /// The bytes in flight on the link.
    pub(super) fn bytes(&self) -> usize {
        self.link.load(Ordering::Relaxed)
    }

    /// Whether a frame may go now.
    pub(super) fn has_room(&self, bytes: &Arc<[u8]>) -> bool {
        let (here, length) = (self.bytes(), bytes.len());
        let all = usize::try_from(self.all.get()).unwrap_or_default();
        let is_room = all + own_bytes(bytes) <= ALL_BYTES_MAX;
        match here {
            0 => length <= SMALL_BYTES_MAX || is_room,
            _ => here + length <= LINK_BYTES_MAX && is_room,
        }
    }

    /// Counts a frame until it is dropped.
    pub(super) fn count(&self, bytes: Arc<[u8]>) -> Outgoing {
        let (length, own) = (bytes.len(), own_bytes(&bytes) as i64);
        self.link.fetch_add(length, Ordering::Relaxed);
        self.all.inc_by(own);
        Outgoing {
            bytes,
            counted: Counted {
                length,
                own,
                link: Arc::clone(&self.link),
                all: self.all.clone(),
            },
        }
    }
}

/// The bytes that a frame adds to those of all links. Several links share the bytes of a round, which the last of them
/// counts.
fn own_bytes(bytes: &Arc<[u8]>) -> usize {
    match Arc::strong_count(bytes) {
        1 => bytes.len(),
        _ => 0,
    }
}

/// A frame on its way to a transport. It is in flight until the transport drops what is left of it.
pub struct Outgoing {
    bytes: Arc<[u8]>,
    counted: Counted,
}

/// The count of a frame in flight.
pub struct Counted {
    length: usize,
    /// The part of it in the count of all links.
    own: i64,
    link: Arc<AtomicUsize>,
    all: Gauge,
}

impl Outgoing {
    /// A frame that no link counts.
    pub fn uncounted(bytes: Arc<[u8]>) -> Outgoing {
        InFlight::new(Gauge::default()).count(bytes)
    }

    /// The frame, and its count, to be dropped once the frame is sent.
    pub fn open(self) -> (Arc<[u8]>, Counted) {
        (self.bytes, self.counted)
    }
}

impl Deref for Outgoing {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.fmt(f)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.link.fetch_sub(self.length, Ordering::Relaxed);
        self.all.dec_by(self.own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(bytes: usize) -> Arc<[u8]> {
        vec![0; bytes].into()
    }

    #[test]
    fn a_link_has_room_for_one_frame_or_several_small_ones_and_all_links_for_many() {
        let all = Gauge::default();
        let [slow, other] = [(); 2].map(|()| InFlight::new(all.clone()));
        let (bytes, first) = slow.count(frame(LINK_BYTES_MAX - 1)).open();
        drop(bytes);
        assert!(slow.is_busy() && slow.has_room(&frame(1)) && !slow.has_room(&frame(2)));
        assert!(!other.is_busy() && other.has_room(&frame(2 * LINK_BYTES_MAX)));
        assert_eq!(all.get(), LINK_BYTES_MAX as i64 - 1);
        // All links together have no room left.
        all.inc_by(ALL_BYTES_MAX as i64);
        let large = frame(SMALL_BYTES_MAX + 1);
        assert!(other.has_room(&frame(SMALL_BYTES_MAX)) && !other.has_room(&large));
        let small = other.count(frame(1));
        assert!(!other.has_room(&frame(1)) && !slow.has_room(&frame(1)));
        all.dec_by(ALL_BYTES_MAX as i64);
        assert!(other.has_room(&frame(1)));
        drop((first, small));
        assert_eq!((slow.bytes(), other.bytes(), all.get()), (0, 0, 0));
    }

    #[test]
    fn bytes_that_links_share_are_counted_once_for_all_of_them() {
        let all = Gauge::default();
        let bytes = frame(1_000);
        let links = [(); 3].map(|()| InFlight::new(all.clone()));
        let sent: Vec<Outgoing> = links.iter().map(|it| it.count(bytes.clone())).collect();
        assert_eq!((links[0].bytes(), all.get()), (1_000, 0));
        drop(sent);
        let last = links[0].count(bytes);
        assert_eq!(all.get(), 1_000);
        drop(last);
        assert_eq!((links[0].bytes(), all.get()), (0, 0));
    }
}
