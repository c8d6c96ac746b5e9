//! The bindings as WebAssembly, run by the same file in Node and, if the environment of the runner
//! says so, in a browser.
#![cfg(target_family = "wasm")]

use tallymesh_wasm::{Engine, event, op, part};
use wasm_bindgen_test::wasm_bindgen_test;

const SEND: u32 = 1;
const CHANGED: u32 = 2;
const CLOSE: u32 = 3;

fn engine(nonce: u8) -> Engine {
    Engine::open(b"default", &[nonce; 56]).expect("a good name")
}

fn error(engine: &mut Engine) -> String {
    engine.read(part::ERROR, 0);
    String::from_utf8(engine.take()).unwrap()
}

fn delta(engine: &mut Engine) -> Vec<u8> {
    engine.read(part::DELTA, 0);
    engine.take()
}

fn value(engine: &mut Engine, key: &str) -> Option<i128> {
    let counter = engine.find(key.as_bytes(), false)?;
    engine.value_at(counter)
}

#[wasm_bindgen_test]
fn counts_by_key_id() {
    let mut engine = engine(1);
    let likes = engine.find(b"likes", true).unwrap();
    assert_eq!(engine.value_at(likes), None);
    assert!(engine.add(likes, i64::MAX));
    assert!(engine.add_small(likes, -7));
    assert_eq!(engine.value_at(likes), Some(i128::from(i64::MAX) - 7));
    assert!(engine.read(part::KEY, likes));
    assert_eq!(engine.take(), b"likes");
    assert!(!engine.read(part::KEY, likes + 1));
    engine.read(part::COUNTERS, 0);
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
        assert!(Engine::open(name.as_bytes(), &vec![0; bytes]).is_none());
    }
    let mut engine = engine(1);
    assert_eq!(engine.find(b"", true), None);
    assert_eq!(error(&mut engine), "key_length");
    let key = engine.find(b"k", true).unwrap();
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
    let key = engine.find(b"k", true).unwrap();
    assert!(engine.add(key, 5) && engine.add(key, -9));
    engine.read(part::STATUS, 0);
    let status = engine.take();
    let (writer, counts) = status[..48].split_at(16);
    // Clock, counters, shards, faults.
    let counts: Vec<u8> = counts.chunks(8).map(|number| number[0]).collect();
    assert_eq!(counts, [2, 1, 1, 0]);
    let mut shard = writer.to_vec();
    shard.extend(2u64.to_le_bytes());
    assert_eq!(status[48..], shard);
    shard.extend((-4i128).to_le_bytes());
    engine.read(part::SHARDS, key);
    assert_eq!(engine.take(), shard);
}

/// What is told of each operation, if the transaction is made.
fn transact(engine: &mut Engine, ops: &[(&str, u32, i64)]) -> Option<Vec<u8>> {
    for (key, what, number) in ops {
        engine.stage(key.as_bytes(), *what, *number);
    }
    engine.commit().then(|| engine.take())
}

#[wasm_bindgen_test]
fn a_transaction_is_made_whole_or_not_at_all() {
    let (mut a, mut b) = (engine(1), engine(2));
    let ops = [
        ("k", op::ADD, -5),
        ("k", op::SET, i64::MIN),
        ("l", op::RESET, 0),
        ("l", op::EXPIRE, 5_000),
        ("l", op::PERSIST, 0),
        ("l", op::PERSIST, 0),
        ("m", op::DELETE, 0),
    ];
    assert_eq!(transact(&mut a, &ops), Some(vec![0, 1, 0, 1, 1, 0, 0]));
    let before = delta(&mut a);
    assert!(b.merge(&before));
    for engine in [&mut a, &mut b] {
        assert_eq!(value(engine, "k"), Some(i128::from(i64::MIN)));
        assert_eq!(value(engine, "l"), Some(0));
        assert_eq!(value(engine, "m"), None);
    }
    for (refused, code) in [
        (("", op::RESET, 0), "key_length"),
        (("l", op::EXPIRE, 8_640_000_000_000_001), "expiry_range"),
    ] {
        assert_eq!(transact(&mut a, &[("k", op::DELETE, 0), refused]), None);
        assert_eq!(error(&mut a), code);
        assert_eq!(delta(&mut a), before);
    }
    // What was refused does not wait for the next one.
    assert_eq!(transact(&mut a, &[("l", op::ADD, 1)]), Some(vec![1]));
    assert_eq!(value(&mut a, "k"), Some(i128::from(i64::MIN)));
}

#[wasm_bindgen_test]
fn a_counter_expires_by_the_time_that_is_set() {
    let mut engine = engine(1);
    let key = engine.find(b"k", true).unwrap();
    assert!(engine.add(key, 3));
    assert_eq!(engine.expiry_at(key), 0.0);
    engine.set_time(1_000.0);
    assert_eq!(
        transact(&mut engine, &[("k", op::EXPIRE, 5_000)]),
        Some(vec![1])
    );
    assert_eq!(engine.expiry_at(key), 5_000.0);
    engine.set_time(4_999.0);
    assert_eq!(engine.value_at(key), Some(3));
    engine.set_time(5_000.0);
    assert_eq!(engine.value_at(key), None);
    assert_eq!(engine.expiry_at(key), 0.0);
    engine.read(part::COUNTERS, 0);
    assert!(engine.take().is_empty());
    assert!(engine.add(key, 4));
    assert_eq!(engine.value_at(key), Some(4));
}

#[wasm_bindgen_test]
fn merges_and_names_what_changed() {
    let (mut a, mut b) = (engine(1), engine(2));
    let key = a.find(b"k", true).unwrap();
    assert!(a.add(key, 3));
    assert!(a.read(part::CHANGES, 0));
    assert_eq!(a.take(), delta(&mut a));
    assert!(!a.read(part::CHANGES, 0));
    assert!(b.merge(&delta(&mut a)));
    assert_eq!(b.take(), b.find(b"k", false).unwrap().to_le_bytes());
    assert!(b.merge(&delta(&mut a)));
    assert!(b.take().is_empty());
    assert_eq!(value(&mut b, "k"), Some(3));
}

/// The kind and the subject of the next output.
fn poll(engine: &mut Engine) -> Option<(u32, u32)> {
    let output = engine.poll() as u64;
    (output > 0).then_some(((output >> 32) as u32, output as u32))
}

/// Carries frames between two engines until neither has one; tells how many `CHANGED` came up.
fn settle(engines: &mut [Engine; 2], now: f64) -> usize {
    let mut changed = 0;
    loop {
        let mut idle = true;
        for from in 0..2 {
            loop {
                let Some((kind, _)) = poll(&mut engines[from]) else {
                    break;
                };
                match kind {
                    SEND => {
                        let bytes = engines[from].take();
                        engines[1 - from].input(&bytes, event::FRAME, now, 1);
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
        let key = engine.find(b"likes", true).unwrap();
        assert!(engine.add_small(key, 10 + index as i32));
        assert_eq!(engine.deadline(), f64::INFINITY);
        engine.input(&[], event::CONNECTED, 0.0, 1);
    }
    assert_eq!(settle(&mut engines, 1.0), 2);
    let key = engines[0].find(b"likes", false).unwrap();
    assert!(engines[0].add_small(key, 100));
    engines[0].input(&[], event::CHANGED, 10.0, 0);
    let mut now = 10.0;
    // The push is due within milliseconds; the bound is far below the interval of the digests.
    while value(&mut engines[1], "likes") != Some(121) {
        now = engines[0].deadline().max(now);
        assert!(now < 1_000.0, "nothing was pushed");
        engines[0].input(&[], event::TICK, now, 0);
        settle(&mut engines, now);
    }
    for engine in &mut engines {
        assert_eq!(value(engine, "likes"), Some(121));
        engine.input(&[], event::DISCONNECTED, now, 1);
    }
}

#[wasm_bindgen_test]
fn garbage_closes_its_link() {
    let mut engine = engine(1);
    engine.input(&[], event::CONNECTED, 0.0, 9);
    engine.input(b"GET / HTTP/1.1", event::FRAME, 1.0, 9);
    let mut closed = false;
    while let Some((kind, subject)) = poll(&mut engine) {
        if kind == CLOSE {
            assert_eq!(subject, 9);
            assert!(!error(&mut engine).is_empty());
            closed = true;
        }
    }
    assert!(closed);
}
