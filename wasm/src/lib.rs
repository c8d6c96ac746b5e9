//! Thin bindings of `tallymesh-core` for JavaScript.
//!
//! Nothing is decided here: each method is one call of the core, in types that cross the boundary
//! cheaply. The API that people use is the TypeScript in `js/`.
//!
//! Three rules keep the boundary small and safe:
//! - No callback is ever called from inside wasm; whatever happened is polled. So a `&mut` borrow
//!   never meets itself.
//! - A key crosses once and is a number from then on.
//! - A failure crosses as `false`; its stable code is read with [`part::ERROR`]. TypeScript makes the
//!   sentence, so the module carries no text formatting.
#![cfg_attr(all(target_family = "wasm", not(feature = "std")), no_std)]

extern crate alloc;

mod engine;
pub mod exports;
#[cfg(all(target_family = "wasm", not(feature = "std")))]
mod memory;

pub use engine::{Engine, event, op, part};

#[cfg(all(target_family = "wasm", not(feature = "std")))]
mod bare {
    //! What std would bring, without its weight.

    #[global_allocator]
    static ALLOCATOR: crate::memory::Allocator = crate::memory::Allocator::new();

    /// Stops the module. The message is dropped: carrying it costs several kilobytes of formatting
    /// code, and the JavaScript stack of the trap already names the call.
    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        core::arch::wasm32::unreachable()
    }
}
