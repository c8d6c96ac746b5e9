//! The memory of the module: lists of free blocks by size.
//!
//! Sizes are rounded up to powers of two, so a block fits every request of its class, and nothing has
//! to be searched, split or joined. That is less code than a general allocator; the price is that a block serves its own class only: memory is the sum of what each class needed at most.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32::memory_grow;
use core::cell::Cell;
use core::ptr::{self, copy_nonoverlapping};

const PAGE: usize = 65_536;
/// Of the smallest class, and what every block is aligned to.
const BLOCK_MIN: usize = 16;

pub(crate) struct Allocator {
    /// The first free block of each class; it begins with where the next one is.
    free: [Cell<*mut u8>; 28],
    /// What was never given out: from here to `end`.
    rest: Cell<usize>,
    end: Cell<usize>,
}

// SAFETY: the module is built without threads.
unsafe impl Sync for Allocator {}

impl Allocator {
    pub(crate) const fn new() -> Allocator {
        Allocator {
            free: [const { Cell::new(ptr::null_mut()) }; 28],
            rest: Cell::new(0),
            end: Cell::new(0),
        }
    }
}

/// The class of a size: 0 for up to 16 bytes, and one more for each doubling.
fn class(bytes: usize) -> usize {
    // Never below 4 nor above 31: a layout is at most `isize::MAX`.
    (bytes.wrapping_sub(1) | (BLOCK_MIN - 1)).ilog2() as usize - 3
}

// SAFETY: a block is in one place only: with its user, in one list, or in the rest. Blocks of a class
// are as large as its largest request, and all are aligned to 16; whoever wants more gets nothing.
unsafe impl GlobalAlloc for Allocator {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > BLOCK_MIN {
            return ptr::null_mut();
        }
        let class = class(layout.size());
        let list = &self.free[class];
        let first = list.get();
        if !first.is_null() {
            // SAFETY: a free block begins with where the next one is.
            list.set(unsafe { first.cast::<*mut u8>().read() });
            return first;
        }
        let bytes = BLOCK_MIN << class;
        if self.end.get().wrapping_sub(self.rest.get()) < bytes {
            let pages = bytes.div_ceil(PAGE);
            let before = memory_grow(0, pages);
            if before == usize::MAX {
                return ptr::null_mut();
            }
            let start = before.wrapping_mul(PAGE);
            // Somebody else may have made the memory grow meanwhile, as happens before the first time.
            if start != self.end.get() {
                self.rest.set(start);
            }
            self.end.set(start.wrapping_add(pages.wrapping_mul(PAGE)));
        }
        let at = self.rest.get();
        self.rest.set(at.wrapping_add(bytes));
        at as *mut u8
    }

    #[inline(never)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let list = &self.free[class(layout.size())];
        // SAFETY: the block is given back, and has room for an address.
        unsafe { block.cast::<*mut u8>().write(list.get()) };
        list.set(block);
    }

    #[inline(never)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if class(layout.size()) == class(size) {
            return block;
        }
        // SAFETY: the caller's promises are those that these two ask for.
        unsafe {
            let next = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !next.is_null() {
                copy_nonoverlapping(block, next, layout.size().min(size));
                self.dealloc(block, layout);
            }
            next
        }
    }
}
