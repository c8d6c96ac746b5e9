//! Reads and settings of a replica for tests alone, with the feature `explore`.

#[cfg(feature = "explore")]
use super::QuotaHooks;
use super::Replica;
#[cfg(feature = "explore")]
use alloc::{format, string::String};

/// The private state of a replica as text. Let two replicas of one writer in a space with members have equal
/// texts and equal [`canonical_bytes`](Replica::canonical_bytes). Then they behave the same, except for
/// faults, marks and key ids.
#[cfg(feature = "explore")]
pub fn local_text(replica: &Replica) -> String {
    let (own, collected) = (replica.writer(), replica.state.has_collected());
    let members = replica.membership.local_text(&replica.state);
    let keyed = replica
        .idempotency
        .keyed_text(&replica.state, &replica.membership);
    let keyed = keyed + &replica.quota.local_text(&replica.state);
    format!("{own} {collected} {members} {keyed}")
}

/// Bounds the bytes of all keys, in place of
/// [`KEY_TABLE_BYTES_MAX`](crate::bounds::KEY_TABLE_BYTES_MAX).
pub fn set_key_bytes_max(replica: &mut Replica, bytes: u32) {
    replica.state.set_key_bytes_max(bytes);
}
