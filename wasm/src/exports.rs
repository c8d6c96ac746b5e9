//! What JavaScript calls: a function for each method of an [`Engine`], which is a number there, of where
//! it is.
//!
//! wasm-bindgen would make a class of the engine, count its borrows at each call, and copy bytes by a
//! function of its own for each call that has some: more to download for what cannot happen here, as
//! nothing is called back and there are no threads. So only numbers are handed over, and bytes lie at
//! one place, for the time of one call.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::UnsafeCell;

use wasm_bindgen::prelude::wasm_bindgen;

use crate::Engine;
use crate::engine::ORIGIN_BYTES;

/// An engine, by where it is.
type At = *mut Engine;

/// What [`engine_find`] says for nothing: more than there may be counters.
const NO_HANDLE: u32 = u32::MAX;

fn placed(engine: Option<Engine>) -> At {
    engine.map_or(core::ptr::null_mut(), |engine| {
        Box::into_raw(Box::new(engine))
    })
}

/// The engine at a place. One that is freed is at 0, which is a failure of the module.
fn at<'a>(engine: At) -> &'a mut Engine {
    // SAFETY: js/replica/calls.ts gives back only what `placed` gave it, and 0 once that is freed. The borrow
    // ends with the call: no call begins within another.
    unsafe { engine.as_mut() }.expect("a live engine")
}

/// What crosses beside numbers of 64 bits, in either direction, until something else does.
struct Crossing {
    bytes: Vec<u8>,
    value: i128,
}

struct Place(UnsafeCell<Crossing>);

// SAFETY: the module is built without threads, and nothing but the exports names it.
unsafe impl Sync for Place {}

static PLACE: Place = Place(UnsafeCell::new(Crossing {
    bytes: Vec::new(),
    value: 0,
}));

fn crossing<'a>() -> &'a mut Crossing {
    // SAFETY: each export borrows it once, and for its own time only.
    unsafe { &mut *PLACE.0.get() }
}

/// Makes room for the bytes that the next call takes, and gives where they go.
#[wasm_bindgen]
pub fn room(length: usize) -> *mut u8 {
    let Crossing { bytes, .. } = crossing();
    *bytes = alloc::vec![0; length];
    bytes.as_mut_ptr()
}

/// Where the bytes are that [`engine_take`] took.
#[wasm_bindgen]
pub fn taken() -> *const u8 {
    crossing().bytes.as_ptr()
}

/// [`Engine::take`]: how many bytes it gave.
#[wasm_bindgen]
pub fn engine_take(engine: At) -> usize {
    let Crossing { bytes, .. } = crossing();
    *bytes = at(engine).take();
    bytes.len()
}

/// [`Engine::value_at`], of which [`half`] gives the halves then; false is nothing.
#[wasm_bindgen]
pub fn engine_value_at(engine: At, key_id: u32) -> bool {
    let value = at(engine).value_at(key_id);
    crossing().value = value.unwrap_or_default();
    value.is_some()
}

/// The upper half of the value that was looked up last, or the lower one.
#[wasm_bindgen]
pub fn half(upper: bool) -> i64 {
    (crossing().value >> if upper { 64 } else { 0 }) as i64
}

macro_rules! exports {
    ($($name:ident = $method:ident $([$bytes:ident])? ($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            #[doc = concat!("[`Engine::", stringify!($method), "`]")]
            #[wasm_bindgen]
            pub fn $name(engine: At, $($argument: $type),*) $(-> $result)? {
                $(let $bytes: &[u8] = &crossing().bytes;)?
                at(engine).$method($($bytes,)? $($argument),*)
            }
        )*
    };
}

exports! {
    engine_add = add(key_id: u32, by: i64) -> bool;
    engine_add_small = add_small(key_id: u32, by: i32) -> bool;
    engine_commit = commit() -> bool;
    engine_deadline = deadline() -> f64;
    engine_expiry_at = expiry_at(key_id: u32) -> f64;
    engine_input = input[bytes](what: u32, now: f64, link: u32);
    engine_merge = merge[bytes]() -> bool;
    engine_poll = poll() -> f64;
    engine_read = read(what: u32, key_id: u32) -> bool;
    engine_release = release(key_id: u32) -> bool;
    engine_set_time = set_time(unix_ms: f64);
    engine_stage = stage[key](what: u32, number: i64);
}

#[cfg(feature = "members")]
exports! {
    engine_adopt = adopt(live: bool) -> bool;
    engine_judge_time = judge_time(wall: f64, now: f64) -> f64;
    engine_leave = leave(now: f64) -> bool;
    engine_limit = limit(role: u32);
    engine_restore = restore[record](live: bool) -> bool;
    engine_token = token[before]() -> bool;
}

/// [`Engine::find`]; `u32::MAX` is nothing.
#[wasm_bindgen]
pub fn engine_find(engine: At, pin: bool) -> u32 {
    at(engine).find(&crossing().bytes, pin).unwrap_or(NO_HANDLE)
}

/// [`Engine::holds`]: 0 for no, 1 for yes, 2 for nothing.
#[cfg(feature = "members")]
#[wasm_bindgen]
pub fn engine_holds(engine: At) -> u32 {
    at(engine).holds(&crossing().bytes).map_or(2, u32::from)
}

/// What an engine is made with, and what comes after.
fn parted(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(ORIGIN_BYTES.min(bytes.len()))
}

/// [`Engine::open`]; 0 is nothing. The bytes that cross are its own, then the space's name.
#[wasm_bindgen]
pub fn engine_open() -> At {
    let (origin, space) = parted(&crossing().bytes);
    placed(Engine::open(space, origin))
}

/// [`Engine::resume`]; 0 is nothing. The bytes that cross are its own, then the space's name, which has
/// this length, then the state.
#[cfg(feature = "members")]
#[wasm_bindgen]
pub fn engine_resume(name: usize) -> At {
    let (origin, rest) = parted(&crossing().bytes);
    let (space, state) = rest.split_at(name.min(rest.len()));
    placed(Engine::resume(space, origin, state))
}

/// Frees an engine.
#[wasm_bindgen]
pub fn engine_free(engine: At) {
    // SAFETY: as of `at`; it is never given again.
    drop(unsafe { Box::from_raw(at(engine)) });
}
