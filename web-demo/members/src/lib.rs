//! Members of a space and the links between them, all in one module: what the stories of the page are
//! played by that need members.
//!
//! The members are the replicas and sync machines of `tallymesh-core` that nodes run. What stands around
//! them here is what a node has around them too: a clock, links, and who waits for what. The clock is
//! told, and chance comes from a seed, so that each run of a story is the same.
//!
//! A member's disk is left out, as nobody ends and starts again here: what it is to have written counts
//! as written at once. A node on no disk is never a member.
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

mod deeds;
/// That of the package's modules: who builds without std brings an allocator along.
#[cfg(target_family = "wasm")]
#[path = "../../../wasm/src/memory.rs"]
mod memory;
mod page_json;
mod random;
#[cfg(test)]
mod tests;
mod world;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use deeds::Deed;
use wasm_bindgen::prelude::{JsError, wasm_bindgen};
use world::World;

#[cfg(target_family = "wasm")]
mod bare {
    #[global_allocator]
    static ALLOCATOR: crate::memory::Allocator = crate::memory::Allocator::new();

    /// Stops the module. The stack of the trap names the call, and a message would weigh more than the
    /// members.
    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        core::arch::wasm32::unreachable()
    }
}

/// Some members of one space, each linked with all others.
///
/// Members go by their place, from 0 on, and time is in milliseconds.
#[wasm_bindgen]
pub struct Members(World);

/// What only a mistake of the page brings about, as a name that is too long.
fn failed(error: impl core::fmt::Display) -> JsError {
    JsError::new(&error.to_string())
}

#[wasm_bindgen]
impl Members {
    /// So many members who have come to know each other. A message takes `delay_ms` on its way, a tenth
    /// more or less.
    ///
    /// # Errors
    /// If they do not come together.
    #[wasm_bindgen(constructor)]
    pub fn new(count: usize, seed: u32, delay_ms: u32) -> Result<Members, JsError> {
        let world = World::new(count, u64::from(seed), u64::from(delay_ms));
        Ok(Members(world.map_err(failed)?))
    }

    /// The time by now.
    pub fn now(&self) -> f64 {
        self.0.now() as f64
    }

    /// Lets time pass until then.
    ///
    /// # Errors
    /// If a member fails at something that it does by itself.
    pub fn run(&mut self, until: f64) -> Result<(), JsError> {
        self.0.run(until as u64).map_err(failed)
    }

    /// Cuts the link of two, or mends it. What is on its way then is lost.
    pub fn cut(&mut self, a: usize, b: usize, cut: bool) {
        self.0.cut([a.min(b), a.max(b)], cut);
    }

    /// Pays into a budget at a member, which holds the rights to all of that then.
    ///
    /// # Errors
    /// As `QuotaMut::flow`.
    pub fn mint(&mut self, at: usize, name: &str, amount: u32) -> Result<(), JsError> {
        self.0.mint(at, name, u64::from(amount)).map_err(failed)
    }

    /// Moves rights from one member to another.
    ///
    /// # Errors
    /// As `QuotaMut::flow`; if fewer are held.
    pub fn grant(&mut self, at: usize, name: &str, to: usize, amount: u32) -> Result<(), JsError> {
        self.0
            .grant(at, name, to, u64::from(amount))
            .map_err(failed)
    }

    /// Spends at a member, as soon as it holds the rights to it. It waits for them for `wait_ms`, and is
    /// refused then.
    ///
    /// # Errors
    /// As `QuotaMut::flow`, but for rights that are short.
    pub fn spend(
        &mut self,
        at: usize,
        name: String,
        amount: u32,
        wait_ms: u32,
    ) -> Result<(), JsError> {
        let amount = u64::from(amount);
        let deed = Deed::Spend { name, amount };
        self.0.ask(at, deed, wait_ms).map_err(failed)
    }

    /// Spends of one budget at a member and pays it into others, to each its share, in one transaction;
    /// or waits, and is refused, as a spend.
    ///
    /// # Errors
    /// As `QuotaTransaction::transfer`, but for rights that are short.
    pub fn transfer(
        &mut self,
        at: usize,
        from: String,
        to: Vec<String>,
        shares: Vec<u32>,
        wait_ms: u32,
    ) -> Result<(), JsError> {
        let to = to.into_iter().zip(shares.into_iter().map(u64::from));
        let to = to.collect();
        let deed = Deed::Transfer { from, to };
        self.0.ask(at, deed, wait_ms).map_err(failed)
    }

    /// Begins a sequence at a member.
    ///
    /// # Errors
    /// As `QuotaMut::begin_sequence`.
    pub fn begin(&mut self, at: usize, name: &str) -> Result<(), JsError> {
        self.0.begin(at, name).map_err(failed)
    }

    /// Watches a number of a sequence.
    ///
    /// # Errors
    /// As `QuotaMut::watch_number`.
    pub fn watch(&mut self, at: usize, name: &str, number: u32) -> Result<(), JsError> {
        self.0.watch(at, name, u64::from(number)).map_err(failed)
    }

    /// Has a member hand a number out; or waits, and is refused, as a spend.
    ///
    /// # Errors
    /// As `QuotaMut::draw`, but for numbers that are short.
    pub fn next(&mut self, at: usize, name: String, wait_ms: u32) -> Result<(), JsError> {
        self.0.ask(at, Deed::Next { name }, wait_ms).map_err(failed)
    }

    /// What each member sees, what happened, and what was found in all views so far, as JSON.
    pub fn state(&self) -> String {
        page_json::state(&self.0)
    }

    /// The frames that are on their way, as JSON.
    pub fn flights(&self) -> String {
        page_json::flights(&self.0)
    }
}
