//! Names in errors: the rules of the format, and the things whose size has a limit.

use core::fmt;

/// A rule of the format. It has a number, so that only programs that show its sentence contain the sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// Text is UTF-8.
    Text,
    /// Writers ascend.
    WritersAscend,
    /// A writer in the table has a clock.
    WriterClock,
    /// Keys ascend and share their longest prefix.
    KeysAscend,
    /// A column's writer is in the table.
    ColumnWriter,
    /// Each key has a shard, or a record beside one.
    KeyUsed,
    /// Records beside shards ascend by key and writer.
    SidesAscend,
    /// The records beside a shard have known parts, and at least one.
    SideParts,
    /// The rare part of a shard goes with its row, and says more than the row.
    Extra,
    /// A lifetime's clocks are in order: it begins, and then has adds and an expiry, up to the row's.
    Lifetime,
    /// Membership records ascend by kind and writer.
    RecordsAscend,
    /// Membership records are of a known kind.
    RecordKind,
    /// A bitmap names some of a page's keys, but not one or all.
    Bitmap,
    /// A column of one shard names one of the page's keys.
    SingleKey,
    /// A shard's clock is after its writer's lo and not after its hi.
    ShardClock,
    /// Totals are signed if one of them is negative.
    Signed,
    /// A hello that offers version 1 is written in version 1.
    VersionByte,
    /// A frame's type is 1 to 19.
    FrameType,
    /// A flag is of few values.
    Flag,
    /// The last chunk's table covers all chunks.
    ChunkCovered,
    /// Only pushes are broadcast.
    OnlyPushes,
    /// The transactions in a store ascend by clock, and are of known kinds.
    Stored,
    /// Withdrawals ascend by clock, each after the add before it, and there is at least one.
    Withdrawals,
    /// Expiries that were carried out ascend by clock, and the slots that they name by writer.
    Expired,
    /// Keyed operations ascend by writer and clock, and what they added by key.
    KeyedAscend,
    /// A space without members has no budgets.
    OpenBudget,
    /// Limits of a configuration ascend by name, and are in range.
    Limits,
    /// A period's name has its end, when its limit began, and a key.
    Period,
    /// A round leads to a later position.
    Positions,
    /// Short names of writers ascend, have 8 to 62 bits, and are no other writer's.
    Names,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::Text => "text is UTF-8",
            Rule::WritersAscend => "writers ascend",
            Rule::WriterClock => "a writer in the table has a clock",
            Rule::KeysAscend => "keys ascend and share their longest prefix",
            Rule::ColumnWriter => "a column's writer is in the table",
            Rule::KeyUsed => "each key has a shard, or something beside one",
            Rule::SidesAscend => "what is beside shards ascends by key and writer",
            Rule::SideParts => "what is beside a shard has known parts, and at least one",
            Rule::Extra => "the rare part of a shard goes with its row and says more than it",
            Rule::Lifetime => "a life's clocks are in order",
            Rule::RecordsAscend => "what is said of writers ascends by kind and writer",
            Rule::RecordKind => "what is said of writers is of a known kind",
            Rule::Bitmap => "a bitmap names some of a page's keys, but not one or all",
            Rule::SingleKey => "a column of one shard names one of the page's keys",
            Rule::ShardClock => "a shard's clock is after its writer's lo and not after its hi",
            Rule::Signed => "totals are signed if one of them is negative",
            Rule::VersionByte => "a hello that offers version 1 is written in version 1",
            Rule::FrameType => "a frame's type is 1 to 19",
            Rule::Flag => "a flag is of few values",
            Rule::ChunkCovered => "the last chunk's table covers all chunks",
            Rule::OnlyPushes => "only pushes are broadcast",
            Rule::Stored => {
                "what a store keeps of transactions ascends by clock, and is of known kinds"
            }
            Rule::Withdrawals => "withdrawals ascend by clock, each after the add before it",
            Rule::Expired => {
                "expiries that were carried out ascend by clock, and their slots by writer"
            }
            Rule::KeyedAscend => "keyed operations ascend by writer and clock",
            Rule::OpenBudget => "a space without members has no keys that begin with U+0000",
            Rule::Limits => "limits of a configuration ascend by name, and are in range",
            Rule::Period => "a period's name has its end, its limit's birth, and a key",
            Rule::Positions => "a round leads to a later position",
            Rule::Names => {
                "short names of writers ascend, have 8 to 62 bits, and are no other writer's"
            }
        })
    }
}

/// A thing whose size has a limit. It has a number for the same reason as [`Rule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limited {
    /// A transfer in bytes.
    Transfer,
    /// A message in bytes.
    Message,
    /// The keys of a message in bytes.
    MessageKeys,
    /// A frame in bytes.
    Frame,
    /// A space's name in bytes.
    SpaceName,
    /// An agent's name in bytes.
    Agent,
    /// A proof in bytes.
    Proof,
    /// A limit's name in bytes.
    LimitName,
    /// The adds of an operation under an idempotency key, with the keys, in bytes.
    Keyed,
    /// The writers in a question to a member.
    AskedWriters,
    /// The counters of a page of an audit.
    AuditedCounters,
    /// The code of a refusal in bytes.
    Refusal,
    /// A budget's name in bytes.
    BudgetName,
    /// The name of a budget of which a part is leased, in bytes.
    LeasedName,
    /// A name of a sequence in bytes.
    SequenceName,
    /// A key that a limit covers in bytes.
    PeriodKey,
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limited::Transfer => "a transfer in bytes",
            Limited::Message => "a message in bytes",
            Limited::MessageKeys => "the keys of a message in bytes",
            Limited::Frame => "a frame in bytes",
            Limited::SpaceName => "a space's name in bytes",
            Limited::Agent => "an agent's name in bytes",
            Limited::Proof => "a proof in bytes",
            Limited::LimitName => "a limit's name in bytes",
            Limited::Keyed => {
                "what an operation under an idempotency key adds, with the keys, in bytes"
            }
            Limited::AskedWriters => "the writers that a member is asked for",
            Limited::AuditedCounters => "the counters of a page of an audit",
            Limited::Refusal => "the code of a refusal in bytes",
            Limited::BudgetName => "a budget's name in bytes",
            Limited::LeasedName => "the name in bytes of a budget that rights are leased of",
            Limited::SequenceName => "a name of a sequence in bytes",
            Limited::PeriodKey => "a key that a limit covers in bytes",
        })
    }
}
