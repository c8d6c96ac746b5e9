//! KeyIds: local ids of keys.

use crate::support::{cases, observer, replica};
use std::collections::BTreeMap;
use tallymesh_core::{Error, KeyId, VersionVector, WriteError};
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

#[test]
fn a_released_id_is_unusable() {
    let mut replica = replica(1);
    let key_id = replica.intern("later").unwrap();
    assert_eq!(replica.intern("later"), Ok(key_id));
    assert_eq!(replica.key(key_id), Some("later"));
    assert_eq!((replica.value("later"), replica.len()), (None, 0));
    replica.release(key_id).unwrap();
    assert_eq!(replica.key_id("later"), Some(key_id));
    replica.release(key_id).unwrap();
    let unknown = Error::Write(WriteError::UnknownKeyId {
        key_id: key_id.as_u32(),
    });
    assert_eq!(replica.add_at(key_id, 1), Err(unknown.clone()));
    assert_eq!(replica.release(key_id), Err(unknown.clone()));
    assert_eq!(replica.key(key_id), None);
    assert_eq!(replica.value_at(key_id), None);
    assert_eq!(replica.key_id("later"), None);
    assert_eq!(replica.clock(), 0);
    let never = KeyId::from_u32(4_000_000_000);
    assert!(replica.add_at(never, 1).is_err() && replica.release(never).is_err());
    assert_eq!(replica.shards(never).count(), 0);
    // The number is used again, for another key.
    assert_eq!(replica.intern("other"), Ok(key_id));
    assert_eq!(replica.key(key_id), Some("other"));
}

#[test]
fn a_counter_outlives_its_last_pin() {
    let mut replica = replica(1);
    let key_id = replica.intern("a").unwrap();
    replica.add_at(key_id, 5).unwrap();
    replica.release(key_id).unwrap();
    assert_eq!(replica.value("a"), Some(5));
    replica.add_at(key_id, 1).unwrap();
    assert_eq!(replica.add("a", 1), Ok(key_id));
    assert_eq!(replica.value_at(key_id), Some(7));
    // Also one that came by merge while it was interned.
    let mut other = observer();
    let pinned = other.intern("a").unwrap();
    other
        .merge(&replica.delta(&VersionVector::default()))
        .unwrap();
    assert_eq!(other.value_at(pinned), Some(7));
    other.release(pinned).unwrap();
    assert_eq!(other.value("a"), Some(7));
}

#[test]
fn what_is_released_costs_nothing() {
    let mut replica = replica(1);
    replica.add("stays", 1).unwrap();
    let intern_all = |replica: &mut tallymesh_core::Replica, round: usize| {
        let names = (0..500).map(|at| format!("{round}:{at}:{}", "x".repeat(100)));
        let key_ids: Vec<_> = names.map(|name| replica.intern(&name).unwrap()).collect();
        for key_id in key_ids {
            replica.release(key_id).unwrap();
        }
        replica.heap_bytes()
    };
    let first = intern_all(&mut replica, 0);
    for round in 1..50 {
        assert!(intern_all(&mut replica, round) <= first * 2);
    }
    assert_eq!(replica.len(), 1);
    assert_eq!(replica.value("stays"), Some(1));
}

/// Random use, against a map.
#[test]
fn ids_follow_their_keys() {
    cases(300, |random| {
        let mut replica = replica(1);
        let mut pins: BTreeMap<String, (KeyId, u32)> = BTreeMap::new();
        let mut values: BTreeMap<String, i128> = BTreeMap::new();
        for _ in 0..random.below(300) {
            let key = format!("key-{}", random.below(90));
            match random.below(4) {
                0 => {
                    let key_id = replica.intern(&key).unwrap();
                    let pin = pins.entry(key).or_insert((key_id, 0));
                    assert_eq!(pin.0, key_id);
                    pin.1 += 1;
                }
                1 => {
                    if let Some((key_id, count)) = pins.get_mut(&key) {
                        replica.release(*key_id).unwrap();
                        *count -= 1;
                        if *count == 0 {
                            pins.remove(&key);
                        }
                    }
                }
                2 => {
                    replica.add(&key, 3).unwrap();
                    *values.entry(key).or_default() += 3;
                }
                _ => {
                    if let Some((key_id, _)) = pins.get(&key) {
                        replica.add_at(*key_id, 4).unwrap();
                        *values.entry(key).or_default() += 4;
                    }
                }
            }
        }
        for (key, (key_id, _)) in &pins {
            assert_eq!(replica.key(*key_id), Some(key.as_str()));
            assert_eq!(replica.value_at(*key_id), values.get(key).copied());
        }
        assert_eq!(replica.len(), values.len());
        for (key, value) in &values {
            assert_eq!(replica.value(key), Some(*value));
        }
        for at in 0..90 {
            let key = format!("key-{at}");
            let known = pins.contains_key(&key) || values.contains_key(&key);
            assert_eq!(replica.key_id(&key).is_some(), known);
        }
    });
}
