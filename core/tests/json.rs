//! The JSON of a replica, as people and other languages read it.
#![cfg(feature = "json")]

use serde_json::json;
use tallymesh_core::{Replica, Space, VersionVector, WriterId};

#[test]
fn the_full_shard_map_with_every_number_as_text() {
    let space = Space::new("shop").unwrap();
    let writer = |byte| WriterId::from_bytes([byte; 16]);
    let mut here = Replica::new(space.clone(), writer(1));
    let mut there = Replica::new(space, writer(2));
    here.add("likes", i64::MAX).unwrap();
    here.add("a \"quoted\" key", -3).unwrap();
    there.add("likes", 2).unwrap();
    here.merge(&there.delta(&VersionVector::default())).unwrap();
    let (one, two) = ("01".repeat(16), "02".repeat(16));
    let expected = json!({
        "space": "shop",
        "writer": one,
        "clock": "2",
        "vector": { &one: "2", &two: "1" },
        "counters": {
            "a \"quoted\" key": {
                "value": "-3",
                "shards": { &one: { "clock": "2", "total": "-3" } },
            },
            "likes": {
                "value": "9223372036854775809",
                "shards": {
                    &one: { "clock": "1", "total": "9223372036854775807" },
                    &two: { "clock": "1", "total": "2" },
                },
            },
        },
    });
    assert_eq!(serde_json::to_value(&here).unwrap(), expected);
}
