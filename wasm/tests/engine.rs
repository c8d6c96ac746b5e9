//! The bindings as WebAssembly, run by the same file in Node and, if the environment of the runner
//! says so, in a browser.
#![cfg(target_family = "wasm")]

use tallymesh_wasm::Engine;
use wasm_bindgen_test::wasm_bindgen_test;

const NOTHING: u32 = 0;
const SEND: u32 = 1;
const CHANGED: u32 = 2;
const CLOSE: u32 = 3;

fn engine(nonce: u8) -> Engine {
    Engine::open("default", &[nonce; 56]).expect("a good name")
}

fn error(engine: &mut Engine) -> String {
    engine.read_error();
    String::from_utf8(engine.take()).unwrap()
}

fn delta(engine: &mut Engine) -> Vec<u8> {
    engine.read_delta();
    engine.take()
}

fn value(engine: &Engine, key: &str) -> Option<i128> {
    engine.value_at(engine.handle(key)?)
}

#[wasm_bindgen_test]
fn counts_by_handle() {
    let mut engine = engine(1);
    let likes = engine.intern("likes").unwrap();
    assert_eq!(engine.value_at(likes), None);
    assert!(engine.add(likes, i64::MAX));
    assert!(engine.add_small(likes, -7));
    assert_eq!(engine.value_at(likes), Some(i128::from(i64::MAX) - 7));
    assert!(engine.read_key(likes));
    assert_eq!(engine.take(), b"likes");
    assert!(!engine.read_key(likes + 1));
    engine.read_counters();
    assert_eq!(engine.take(), likes.to_le_bytes());
    assert!(engine.release(likes));
    assert!(!engine.release(likes));
    assert_eq!(error(&mut engine), "unknown_handle");
}

#[wasm_bindgen_test]
fn refusals_have_codes_and_change_nothing() {
    for (name, bytes) in [
        ("a b", 56),
        ("default", 55),
        ("default", 57),
        ("default", 0),
    ] {
        assert!(Engine::open(name, &vec![0; bytes]).is_none());
    }
    let mut engine = engine(1);
    assert_eq!(engine.intern(""), None);
    assert_eq!(error(&mut engine), "key_length");
    let key = engine.intern("k").unwrap();
    assert!(engine.add(key, i64::MIN));
    let before = delta(&mut engine);
    assert!(!engine.add_small(key, -1));
    assert_eq!(error(&mut engine), "overflow");
    assert!(!engine.merge(&before[..before.len() - 1]));
    assert_eq!(error(&mut engine), "truncated");
    assert_eq!(delta(&mut engine), before);
}

#[wasm_bindgen_test]
fn packed_shards_and_vector_hold_writer_clock_and_total() {
    let mut engine = engine(1);
    let key = engine.intern("k").unwrap();
    assert!(engine.add(key, 5) && engine.add(key, -9));
    engine.read_status();
    let status = engine.take();
    let (writer, counts) = status[..48].split_at(16);
    // Clock, counters, shards, faults.
    let counts: Vec<u8> = counts.chunks(8).map(|number| number[0]).collect();
    assert_eq!(counts, [2, 1, 1, 0]);
    let mut shard = writer.to_vec();
    shard.extend(2u64.to_le_bytes());
    assert_eq!(status[48..], shard);
    shard.extend((-4i64).to_le_bytes());
    engine.read_shards(key);
    assert_eq!(engine.take(), shard);
}

#[wasm_bindgen_test]
fn merges_and_names_what_changed() {
    let (mut a, mut b) = (engine(1), engine(2));
    let key = a.intern("k").unwrap();
    assert!(a.add(key, 3));
    assert!(a.read_changes());
    assert_eq!(a.take(), delta(&mut a));
    assert!(!a.read_changes());
    assert!(b.merge(&delta(&mut a)));
    assert_eq!(b.take(), b.handle("k").unwrap().to_le_bytes());
    assert!(b.merge(&delta(&mut a)));
    assert!(b.take().is_empty());
    assert_eq!(value(&b, "k"), Some(3));
}

/// Carries frames between two engines until neither has one; tells how many `CHANGED` came up.
fn settle(engines: &mut [Engine; 2], now: f64) -> usize {
    let mut changed = 0;
    loop {
        let mut idle = true;
        for from in 0..2 {
            loop {
                match engines[from].poll() {
                    NOTHING => break,
                    SEND => {
                        let bytes = engines[from].take();
                        engines[1 - from].frame(now, 1, &bytes);
                        idle = false;
                    }
                    CHANGED => changed += 1,
                    other => panic!("output {other}: {}", error(&mut engines[from])),
                }
            }
        }
        if idle {
            return changed;
        }
    }
}

#[wasm_bindgen_test]
fn two_engines_sync_over_a_link() {
    let mut engines = [engine(1), engine(2)];
    for (index, engine) in engines.iter_mut().enumerate() {
        let key = engine.intern("likes").unwrap();
        assert!(engine.add_small(key, 10 + index as i32));
        assert_eq!(engine.deadline(), f64::INFINITY);
        engine.connected(0.0, 1);
    }
    assert_eq!(settle(&mut engines, 1.0), 2);
    let key = engines[0].handle("likes").unwrap();
    assert!(engines[0].add_small(key, 100));
    engines[0].changed(10.0);
    let mut now = 10.0;
    // The push is due within milliseconds; the bound is far below the interval of the digests.
    while value(&engines[1], "likes") != Some(121) {
        now = engines[0].deadline().max(now);
        assert!(now < 1_000.0, "nothing was pushed");
        engines[0].tick(now);
        settle(&mut engines, now);
    }
    for engine in &mut engines {
        assert_eq!(value(engine, "likes"), Some(121));
        engine.disconnected(now, 1);
    }
}

#[wasm_bindgen_test]
fn garbage_closes_its_link() {
    let mut engine = engine(1);
    engine.connected(0.0, 9);
    engine.frame(1.0, 9, b"GET / HTTP/1.1");
    let mut closed = false;
    loop {
        match engine.poll() {
            NOTHING => break,
            CLOSE => {
                assert_eq!(engine.subject(), 9);
                assert!(!error(&mut engine).is_empty());
                closed = true;
            }
            _ => {}
        }
    }
    assert!(closed);
}
