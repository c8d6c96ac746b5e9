//! Bounds: every hard limit of the wire and of a replica, in one place.
//!
//! A bound is checked before the bounded memory is allocated.

/// Longest counter key, in bytes of UTF-8.
pub const KEY_BYTES_MAX: usize = 512;
/// Longest name of a budget, in bytes of UTF-8: its keys have a writer's id beside it.
pub const BUDGET_NAME_BYTES_MAX: usize = 477;
/// Longest name of a budget of which a part can be leased, in bytes of UTF-8. A lease's keys have its id and
/// its end beside the name.
pub const LEASED_NAME_BYTES_MAX: usize = 429;
/// Shortest lease of rights, in milliseconds.
pub const LEASE_MS_MIN: u64 = 1_000;
/// Longest lease of rights, in milliseconds: 30 days.
pub const LEASE_MS_MAX: u64 = 30 * 24 * 60 * 60 * 1_000;
/// The greatest error of the clock of a lease's holder: one part in so many of the lease.
pub const LEASE_DRIFT_PART: u64 = 100;
/// Longest name of a sequence, in bytes of UTF-8: its keys have a number beside that.
pub const SEQUENCE_NAME_BYTES_MAX: usize = 461;
/// The greatest number of a sequence.
pub const SEQUENCE_NUMBER_MAX: u64 = i64::MAX as u64 - 1;
/// Most numbers of a sequence that a writer receives at once.
pub const NUMBERS_AT_ONCE_MAX: u64 = 1 << 16;
/// Most numbers of a sequence that are watched.
pub const WATCHES_MAX: usize = 64;
/// Most limits of a space for each period.
pub const LIMITS_MAX: usize = 256;
/// Longest name of such a limit, in bytes of UTF-8.
pub const LIMIT_NAME_BYTES_MAX: usize = 128;
/// Longest key that such a limit covers, in bytes of UTF-8. The keys of its counters have a writer and a
/// period beside it.
pub const PERIOD_KEY_BYTES_MAX: usize = 445;
/// Shortest period of a limit, in milliseconds.
pub const PERIOD_MS_MIN: u64 = 1_000;
/// Longest period of a limit, in milliseconds: 366 days.
pub const PERIOD_MS_MAX: u64 = 366 * 24 * 60 * 60 * 1_000;
/// The greatest difference of two members' wall clocks, in milliseconds. The promises of limits assume it
/// while members start and configurations change.
pub const SKEW_MS_MAX: u64 = 1_000;
/// Longest name of a space, in bytes.
pub const SPACE_BYTES_MAX: usize = 64;
/// Most members of a space.
pub const MEMBERS_MAX: usize = 255;
/// Most operations of one transaction.
pub const TRANSACTION_OPS_MAX: usize = 10_000;
/// Latest expiry, in milliseconds since 1970: the last date that JavaScript has.
pub const EXPIRY_MAX: u64 = 8_640_000_000_000_000;
/// Most expiries of one counter that were carried out and are not decided, as happens while a member is away.
/// A further end of the counter is an ordinary delete.
pub const EXPIRED_MAX: usize = 64;
/// Most slots of writers that these expiries of one counter name. A further end is an ordinary delete.
pub const EXPIRED_SLOTS_MAX: usize = 512;
/// Largest frame that a peer may send, in bytes.
pub const FRAME_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Most writers that a space may have after peers of limited rights brought some or members admitted some.
/// The places above are for the starts of nodes.
pub const WRITERS_MAX: usize = 40_000;
/// Most of them that peers of limited rights with one ticket may bring.
pub const TICKET_WRITERS_MAX: usize = WRITERS_MAX / 4;
/// Most of them that peers of limited rights of one address may bring.
pub const ADDRESS_WRITERS_MAX: usize = WRITERS_MAX / 2;
/// Most writers that a space may have after peers of full rights brought some.
pub const WRITERS_MERGED_MAX: usize = 41_000;
/// Most writers that a version vector or a message of a peer names: each of these must fit a frame.
///
/// A replica's own start may write up to this number. A replica reads back from its store any number of
/// writers.
pub const WRITERS_TOLD_MAX: usize = 41_500;
/// Most bytes of the keys of a replica, by its own writes and merges.
///
/// Its store may bring more, up to 2^32. The reason is that keys that were removed between two records are
/// read before they are removed again.
pub const KEY_TABLE_BYTES_MAX: u32 = u32::MAX - (256 << 20);
/// Most bytes that the keys of one message may take once their shared prefixes are written out.
pub const MESSAGE_KEY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Size at which a transfer closes a chunk, in bytes as estimated before encoding.
pub const CHUNK_BYTES_TARGET: usize = 128 * 1024;
/// How often the chunks of a transfer may double: once for each scan that did not fit one of them.
pub const CHUNK_DOUBLINGS_MAX: u32 = 2;
/// Most bytes of received chunks that are staged before they are merged.
pub const STAGE_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Largest set of fresh changes that is pushed, in bytes as estimated before encoding. A larger set is
/// announced, and pulled in chunks.
pub const PUSH_BYTES_MAX: usize = 128 * 1024;
/// Most pushes that wait for their dependencies.
pub const WAITING_PUSHES_MAX: usize = 256;
/// Most bytes of pushes that wait for their dependencies.
pub const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest name of a program in a hello, in bytes of UTF-8.
pub const AGENT_BYTES_MAX: usize = 64;
/// Longest proof in a hello, in bytes.
pub const PROOF_BYTES_MAX: usize = 256;
/// Most faults whose evidence is kept. A later one replaces an older one of the same kind, or is only
/// counted.
pub const FAULTS_KEPT_MAX: usize = 64;
/// Most forgotten writers whose last clock a member remembers.
///
/// A process may rejoin after more writers were forgotten. Then members reply that they do not remember its
/// clock.
pub const RETURNS_MAX: usize = 65_536;
/// Most of them that a whole state carries, the last forgotten ones. They must fit its last frame.
pub const RETURNS_SENT_MAX: usize = 32_768;
/// Most operations under idempotency keys that a space remembers. The caller with the most operations loses
/// its oldest first.
pub const KEYED_MAX: usize = 1_000_000;
/// Most of them that callers below the role member have made. The rest is for members.
pub const GUESTS_KEYED_MAX: usize = KEYED_MAX / 10 * 9;
/// Most of them that the holders of one ticket have made.
pub const TICKET_KEYED_MAX: usize = KEYED_MAX / 4;
/// Most of them that the clients of one address have made without a ticket.
pub const ADDRESS_KEYED_MAX: usize = KEYED_MAX / 2;
/// Most bytes of the adds of an operation under an idempotency key, with the keys.
pub const KEYED_BYTES_MAX: usize = 128 * 1024;
/// Most writers that a token names.
pub const TOKEN_WRITERS_MAX: usize = 64;
/// Most writers in one question to a member: those of a token.
pub const ASK_WRITERS_MAX: usize = TOKEN_WRITERS_MAX;
/// Most counters that a page of an audit has.
pub const AUDIT_COUNTERS_MAX: usize = 500;
/// Least shards after which a page of an audit has no further counter.
pub const AUDIT_SHARDS_MIN: usize = 2_048;
/// Longest question of an audit, in bytes.
pub const AUDIT_QUESTION_BYTES_MAX: usize = 1_093;
/// Longest code by which such a question is refused, in bytes.
pub const AUDIT_REFUSAL_BYTES_MAX: usize = 64;
/// Most questions of one peer that wait for the transactions that they name.
pub const ASKS_WAITING_MAX: usize = 64;
/// Most writers of one owner that are proved to be its own on one link. If there are more, the last ones
/// count.
///
/// An owner that is no member has no more in a space at a time.
pub const OWN_WRITERS_MAX: usize = 256;
