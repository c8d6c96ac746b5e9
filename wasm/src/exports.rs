//! What JavaScript calls: a function for each method of an [`Engine`], which is a number there, of where
//! it is.
//!
//! wasm-bindgen would make a class of the engine, and count its borrows at each call: more to download
//! for what cannot happen here, as nothing is called back and there are no threads.

use alloc::boxed::Box;
use alloc::vec::Vec;

use wasm_bindgen::prelude::wasm_bindgen;

use crate::Engine;

/// An engine, by where it is.
type At = *mut Engine;

fn placed(engine: Option<Engine>) -> At {
    engine.map_or(core::ptr::null_mut(), |engine| {
        Box::into_raw(Box::new(engine))
    })
}

/// The engine at a place. One that is freed is at 0, which is a failure of the module.
fn at<'a>(engine: At) -> &'a mut Engine {
    // SAFETY: js/calls.ts gives back only what `placed` gave it, and 0 once that is freed. The borrow
    // ends with the call: no call begins within another.
    unsafe { engine.as_mut() }.expect("a live engine")
}

macro_rules! exports {
    ($($name:ident = $method:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            #[doc = concat!("[`Engine::", stringify!($method), "`]")]
            #[wasm_bindgen]
            pub fn $name(engine: At, $($argument: $type),*) $(-> $result)? {
                at(engine).$method($($argument),*)
            }
        )*
    };
}

exports! {
    engine_add = add(handle: u32, by: i64) -> bool;
    engine_add_small = add_small(handle: u32, by: i32) -> bool;
    engine_commit = commit() -> bool;
    engine_deadline = deadline() -> f64;
    engine_expiry_at = expiry_at(handle: u32) -> f64;
    engine_find = find(key: &[u8], pin: bool) -> Option<u32>;
    engine_input = input(what: u32, now: f64, link: u32, bytes: &[u8]);
    engine_merge = merge(bytes: &[u8]) -> bool;
    engine_poll = poll() -> f64;
    engine_read = read(what: u32, handle: u32) -> bool;
    engine_release = release(handle: u32) -> bool;
    engine_set_time = set_time(unix_ms: f64);
    engine_stage = stage(key: &[u8], what: u32, number: i64);
    engine_take = take() -> Vec<u8>;
    engine_value_at = value_at(handle: u32) -> Option<i128>;
}

#[cfg(feature = "members")]
exports! {
    engine_adopt = adopt(live: bool) -> bool;
    engine_holds = holds(text: &[u8]) -> Option<bool>;
    engine_leave = leave(now: f64) -> bool;
    engine_limit = limit(role: u32);
    engine_restore = restore(record: &[u8], live: bool) -> bool;
    engine_token = token(before: &[u8]) -> bool;
}

/// [`Engine::open`]; 0 is nothing.
#[wasm_bindgen]
pub fn engine_open(space: &[u8], bytes: &[u8]) -> At {
    placed(Engine::open(space, bytes))
}

/// [`Engine::resume`]; 0 is nothing.
#[cfg(feature = "members")]
#[wasm_bindgen]
pub fn engine_resume(space: &[u8], bytes: &[u8], state: &[u8]) -> At {
    placed(Engine::resume(space, bytes, state))
}

/// Frees an engine.
#[wasm_bindgen]
pub fn engine_free(engine: At) {
    // SAFETY: as of `at`; it is never given again.
    drop(unsafe { Box::from_raw(at(engine)) });
}
