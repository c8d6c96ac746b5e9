//! A length that a peer announces allocates nothing until its bytes have arrived.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use tallymesh_core::wire::Frame;
use tallymesh_core::{Encode, Message, frame_space};
use tallymesh_tests::vectors::{frames, messages, refusals};

/// Counts the allocated bytes.
struct Counting;

static ASKED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static HEAP: Counting = Counting;

/// Bytes that decoding allocates in total.
fn cost(bytes: &[u8]) -> usize {
    let before = ASKED.load(Ordering::Relaxed);
    let _ = Message::decode(bytes);
    let _ = Message::decode_stored(bytes);
    let _ = Frame::decode(bytes);
    let _ = frame_space(bytes);
    ASKED.load(Ordering::Relaxed) - before
}

/// The only test of this program, because the allocations of another test would be counted too.
#[test]
fn announced_lengths_are_not_believed() {
    let huge: [&[u8]; 3] = [
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        &[0x80, 0x80, 0x40],
    ];
    let all = messages().into_iter().chain(frames()).chain(refusals());
    let mut worst = 0;
    for vector in all {
        for at in 0..vector.bytes.len() {
            for number in huge {
                let mut bytes = vector.bytes.clone();
                bytes.splice(at..at + 1, number.iter().copied());
                let asked = cost(&bytes);
                let allowed = 4096 + 64 * bytes.len();
                assert!(asked < allowed, "{}: {asked} bytes at {at}", vector.name);
                worst = worst.max(asked);
            }
        }
    }
    assert!(worst > 100, "nothing was counted");
}
