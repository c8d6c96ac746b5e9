//! The settings of a sync machine.

use crate::message::records::Owner;
use alloc::string::String;

/// Times and names that a sync machine works with.
#[derive(Clone, Debug)]
pub struct SyncConfig {
    /// How long fresh changes are gathered before they are pushed, in milliseconds. 0 pushes at the next
    /// tick. More costs latency and saves messages.
    pub push_delay_ms: u32,
    /// Mean time between two digests on a link, in milliseconds. It bounds how long a lost message
    /// goes unnoticed.
    pub interval_ms: u32,
    /// How long an answer may take before the machine asks another peer, in milliseconds.
    pub pull_timeout_ms: u32,
    /// How long the chunks of a broken transfer are stored for its process to connect again, in milliseconds.
    /// After that they are dropped, and the next pull begins anew. Up to
    /// [`STAGE_BYTES_MAX`](crate::bounds::STAGE_BYTES_MAX) bytes stay in memory for it.
    pub resume_ms: u32,
    /// How long a member waits for an admitted writer without a link, in milliseconds. Then it fences the
    /// writer, which has to rejoin. 0 waits for ever.
    pub guest_timeout_ms: u32,
    /// How long after its last transaction a page gives up its writer, in milliseconds. Lower has pages that
    /// count now and then retire and be admitted each time. Higher keeps the writers of pages that count no
    /// more. In a space with more than 4,096 writers it is 5,000, if that is less.
    #[cfg(feature = "guests")]
    pub idle_ms: u32,
    /// The owner whose member this replica is to be, or `None` if it never is one.
    pub owner: Option<Owner>,
    /// Whether members are to tell this guest their time, for
    /// [`SyncMachine::member_time`](super::SyncMachine::member_time). A program that learns the members' clocks in
    /// another way leaves it off.
    #[cfg(feature = "guests")]
    pub takes_time: bool,
    /// Whether peers may send this replica what changed in rounds, in place of pushes.
    #[cfg(feature = "guests")]
    pub follows: bool,
    /// The program's name and version in the hello, for people. One of more than
    /// [`AGENT_BYTES_MAX`](crate::bounds::AGENT_BYTES_MAX) bytes is not sent.
    pub agent: String,
}

impl Default for SyncConfig {
    fn default() -> SyncConfig {
        SyncConfig {
            push_delay_ms: 5,
            interval_ms: 5_000,
            pull_timeout_ms: 10_000,
            resume_ms: 120_000,
            guest_timeout_ms: 600_000,
            #[cfg(feature = "guests")]
            idle_ms: 60_000,
            owner: None,
            #[cfg(feature = "guests")]
            takes_time: false,
            #[cfg(feature = "guests")]
            follows: true,
            agent: concat!("tallymesh/", env!("CARGO_PKG_VERSION")).into(),
        }
    }
}
