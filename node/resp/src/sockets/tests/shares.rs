//! A client that uses more idempotency keys than the node remembers, beside one that retries.

use super::*;
use std::io::{BufRead, BufReader};
use tallymesh_core::Once;
use tallymesh_node_ground::model::Keyed;

impl Bench {
    /// Adds under a key as a client of HTTP does. Returns whether the add had been made before; the
    /// error is the code of the refusal.
    fn add_once(&self, key: &str, address: u128) -> Result<bool, &'static str> {
        let once = Once::new(key.as_bytes(), b"an add");
        let mut keyed = Keyed::from(once);
        keyed.party.address = Some(address);
        let ops = vec![("a".to_owned(), Op::Add(5)).into()];
        let write = self
            .handle
            .write(SPACE, ops, Some(keyed), Demand::default());
        let written = self.runtime.block_on(write);
        written
            .map(|it| it.done.again)
            .map_err(|refusal| refusal.code())
    }
}

#[test]
fn a_client_that_asks_without_end_makes_no_retry_count_twice() {
    let bench = Bench::new(Durability::Memory);
    assert_eq!(bench.add_once("by http", 1), Ok(false));
    let mut socket = &bench.client;
    let mut replies = BufReader::new(socket).lines();
    let mut ask = |lines: &str| {
        socket.write_all(lines.as_bytes()).expect("send");
        let replies = replies.by_ref().take(lines.lines().count());
        replies.map(|it| it.expect("a reply")).collect::<Vec<_>>()
    };
    assert_eq!(ask("ONCE early INCRBY a 5\r\n"), [":10"]);
    let flood: String = (0..2 * KEYED_BOUNDS.all)
        .map(|at| format!("ONCE x{at} INCRBY junk 1\r\n"))
        .collect();
    let told = ask(&flood);
    let refused = told.iter().filter(|it| it.starts_with("-ERR "));
    assert_eq!(refused.count(), told.len() - (KEYED_BOUNDS.address - 1));
    let max = KEYED_BOUNDS.address.to_string();
    assert!(told.last().is_some_and(|it| it.contains(&max)), "{told:?}");
    // All retries are recognized, and another client's new key is accepted.
    assert_eq!(ask("ONCE early INCRBY a 5\r\n"), [":10"]);
    assert_eq!(
        ask("ONCE x0 INCRBY junk 1\r\n"),
        [format!(":{}", KEYED_BOUNDS.address - 1)]
    );
    assert_eq!(bench.add_once("by http", 1), Ok(true));
    assert_eq!(bench.add_once("later", 1), Ok(false));
    assert_eq!(ask("GET a\r\nGET junk\r\n")[1], "15");
    drop(replies);
    // The same holds over HTTP.
    for at in 0..2 * KEYED_BOUNDS.all {
        let done = bench.add_once(&format!("h{at}"), 2);
        let most = at >= KEYED_BOUNDS.all - KEYED_BOUNDS.address - 2;
        assert!(done.is_ok() || most, "{at}");
    }
    assert_eq!(bench.add_once("one more", 2), Err("keyed_full"));
    for key in ["by http", "later"] {
        assert_eq!(bench.add_once(key, 1), Ok(true));
    }
    bench.stop();
}
