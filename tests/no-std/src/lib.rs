//! Proof that the core links no std.
//!
//! The module imports nothing. Its one export, `exercise`, uses the core's entry points and returns
//! the sum of what two replicas count, or a negative number that names the step that failed.

#![no_std]

extern crate alloc;

use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering};
use tallymesh_core::{
    Encode, Input, Link, Mark, Message, Output, Replica, Space, SyncMachine, SyncConfig, VersionVector, WriterId,
    frame_space,
};

/// Bytes that one call of `exercise` may allocate in all.
const ARENA_BYTES: usize = 4 << 20;

/// Gives out its arena from front to back and takes nothing back.
struct Bump {
    arena: core::cell::UnsafeCell<[u8; ARENA_BYTES]>,
    used: AtomicUsize,
}

// SAFETY: no byte of the arena is given out twice, since `used` is moved atomically.
unsafe impl core::marker::Sync for Bump {}

// SAFETY: each block is aligned as asked, lies within the arena and is disjoint from all others.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let start = self.arena.get().cast::<u8>();
        let reserve = |used: usize| {
            let padding = start.wrapping_add(used).align_offset(layout.align());
            let end = used.checked_add(padding)?.checked_add(layout.size())?;
            (end <= ARENA_BYTES).then_some(end)
        };
        match self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve)
        {
            Ok(used) => {
                let padding = start.wrapping_add(used).align_offset(layout.align());
                start.wrapping_add(used + padding)
            }
            Err(_) => core::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static HEAP: Bump = Bump {
    arena: core::cell::UnsafeCell::new([0; ARENA_BYTES]),
    used: AtomicUsize::new(0),
};

#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    #[cfg(target_family = "wasm")]
    core::arch::wasm32::unreachable();
    #[cfg(not(target_family = "wasm"))]
    loop {}
}

struct Peer {
    replica: Replica,
    sync: SyncMachine,
}

/// Counts in two replicas, keeps them in step by the sync machine and by messages, and returns
/// their common sum, which is 12; a negative number names the step that failed.
#[unsafe(no_mangle)]
pub extern "C" fn exercise() -> i64 {
    run().unwrap_or_else(|step| -step)
}

fn run() -> Result<i64, i64> {
    let space = Space::new("no-std").map_err(|_| 1)?;
    let mut peers = [1u8, 2].map(|nonce| {
        let writer = WriterId::mint(&space, &[7; 32], &[nonce; 16]);
        Peer {
            replica: Replica::new(space.clone(), writer),
            sync: SyncMachine::new(SyncConfig::default(), u64::from(nonce)),
        }
    });
    let handle = peers[0].replica.intern("a").map_err(|_| 2)?;
    peers[0].replica.add_at(handle, 3).map_err(|_| 3)?;
    peers[1].replica.add("a", 4).map_err(|_| 4)?;
    converse(&mut peers)?;
    peers[0].replica.add("b", 5).map_err(|_| 5)?;
    let mut stored = Mark::default();
    let record = peers[0].replica.since(&mut stored).ok_or(6)?.encode();
    let message = Message::decode(&record).map_err(|_| 7)?;
    peers[1].replica.merge(&message).map_err(|_| 8)?;
    if peers[0].replica.canonical_bytes() != peers[1].replica.canonical_bytes() {
        return Err(9);
    }
    let state = peers[1].replica.delta(&VersionVector::default());
    let mut sum = 0;
    let mut third = Replica::new(space, WriterId::from_bytes([3; 16]));
    third.merge(&state).map_err(|_| 10)?;
    for (handle, _) in third.counters() {
        sum += third.value_at(handle).ok_or(11)?;
    }
    i64::try_from(sum).map_err(|_| 12)
}

/// Exchanges frames until neither peer has anything to say.
fn converse(peers: &mut [Peer; 2]) -> Result<(), i64> {
    let (link, broadcast) = (Link(1), false);
    for Peer { replica, sync } in peers.iter_mut() {
        sync.handle(0, replica, Input::Connected { link, broadcast });
        sync.handle(0, replica, Input::Changed);
    }
    for now in 1..100 {
        for from in 0..2 {
            let Peer { replica, sync } = &mut peers[from];
            sync.handle(now, replica, Input::Tick);
            let outputs: Vec<Output> = core::iter::from_fn(|| sync.poll()).collect();
            for output in outputs {
                let Output::Send { bytes, .. } = output else {
                    continue;
                };
                if frame_space(&bytes) != Ok("no-std") {
                    return Err(13);
                }
                let Peer { replica, sync } = &mut peers[1 - from];
                let bytes = &bytes;
                sync.handle(now, replica, Input::Frame { link, bytes });
            }
        }
    }
    Ok(())
}
