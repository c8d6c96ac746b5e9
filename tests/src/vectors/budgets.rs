//! Vectors of budgets, which are counters under keys of their own.

use super::keyed::{members, tell};
use super::{Vector, full, refused, vector, with};
use tallymesh_core::{Encode, Flow, LeaseId, Limit, Message, Replica};

fn flow(replica: &mut Replica, name: &str, flow: Flow) {
    replica
        .quota_mut()
        .flow(name, flow)
        .expect("a vector's operation has what it takes");
}

/// Messages that must decode, and encode to the same bytes.
pub(super) fn messages() -> Vec<Vector> {
    let [mut one, two] = members();
    let known = two.vector();
    flow(&mut one, "gift", Flow::Mint(10));
    flow(&mut one, "gift", Flow::Spend(3));
    let (to, amount) = (two.writer(), 2);
    flow(&mut one, "gift", Flow::Grant { to, amount });
    let budget = one.delta(&known);
    let known = one.vector();
    flow(&mut one, "seats", Flow::RaiseCap(20));
    flow(&mut one, "seats", Flow::Mint(5));
    flow(&mut one, "seats", Flow::LowerFloor(1));
    let capped = one.delta(&known);
    let known = one.vector();
    let id = LeaseId::from_bytes([0x0a; 16]);
    let (until, amount) = (1_800_000_062_600, 4);
    flow(&mut one, "gift", Flow::Lease { id, until, amount });
    flow(&mut one, "gift", Flow::SpendLeased { id, amount: 1 });
    let leased = one.delta(&known);
    let limits = limits();
    vec![
        vector(
            "limits",
            "Of two members 11.. proposed that 100 of login are allowed in a minute, both agreed, and 11.. allowed 1 in the minute that ends at 1800000060000, with its share of 50: what 22.. lacks of that.",
            limits.encode(),
        ),
        vector(
            "budget",
            "Of two members 11.. minted 10 of the budget `gift`, spent 3, and granted 2 to 22..: what 22.. lacks of that.",
            budget.encode(),
        ),
        vector(
            "budget_capped",
            "What came after that: 11.. made the budget `seats` with a cap of 20, minted 5, and lowered the floor by 1.",
            capped.encode(),
        ),
        vector(
            "budget_leased",
            "And after that: 11.. leased 4 of `gift` under the id 0a0a.., which come back at 1800000062600, and spent 1 of that.",
            leased.encode(),
        ),
    ]
}

/// A limit that took effect, and one period of it.
fn limits() -> Message {
    let [mut one, mut two] = members();
    let known = two.vector();
    let limit = Limit {
        name: "login".into(),
        limit: 100,
        period_ms: 60_000,
        since: 0,
    };
    let proposed = one.quota_mut().propose_limits(&[limit]);
    proposed.expect("a member proposes");
    for _ in 0..3 {
        tell(&one, &mut two);
        two.members_mut().vote().expect("a vector's clock is small");
        tell(&two, &mut one);
        one.members_mut().vote().expect("a vector's clock is small");
    }
    one.set_time(1_800_000_000_000);
    let allowed = one.quota_mut().allow("login", 1, &mut Vec::new());
    allowed.expect("a share is left");
    one.delta(&known)
}

/// A message that must be rejected.
pub(super) fn refusals() -> Vec<Vector> {
    // The first two letters of the key `aav` become those of a budget's value.
    let mut bytes = full(&with(0x11, &[("aavx", 5)])).encode();
    let at = bytes.windows(4).position(|part| part == b"aavx");
    let at = at.expect("the key is there");
    bytes[at..at + 2].copy_from_slice(b"\0b");
    vec![refused(
        "message_open_budget",
        "A message of a space without members with a key of a budget.",
        "malformed",
        bytes,
    )]
}
