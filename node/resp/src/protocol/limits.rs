//! All bounds of the Redis protocol, in one place. Each is checked before memory is used for what
//! it bounds.

pub use tallymesh_core::bounds::{EXPIRY_MAX, KEY_BYTES_MAX, TRANSACTION_OPS_MAX};

/// Most arguments of one command: an `MSET` of as many counters as one transaction may change,
/// under an idempotency key.
pub const ARGS_MAX: usize = 3 + 2 * TRANSACTION_OPS_MAX;
/// Longest argument, in bytes. Keys are far shorter and values are integers. The room allows a
/// clear answer to a program that tries to store something else.
pub const ARG_BYTES_MAX: usize = 1 << 20;
/// Longest command with its framing, in bytes. An `MSET` of [`ARGS_MAX`] with the longest keys
/// needs 6 million. It is checked with each complete argument.
pub const COMMAND_BYTES_MAX: usize = 8 << 20;
/// Most unparsed bytes that are kept while a session waits or its output is full. A connection that
/// is fed more than that is closed.
pub const HELD_BYTES_MAX: usize = 2 * COMMAND_BYTES_MAX;
/// Most bytes of waiting commands and of unsent answers, for all connections of a node together. A
/// quarter is reserved for members. Above it, the ticket or address with the most bytes gives way.
/// A lower value ends clients that send long commands. A higher one lets clients that never end
/// theirs use that memory.
pub const HELD_TOTAL_BYTES_MAX: usize = 128 << 20;
/// Most commands that are read before the first of them is executed. Their counters then fit the
/// fastest memory together.
pub const AHEAD_MAX: usize = 16;
/// Longest line of an inline command, in bytes, as in Redis.
pub const INLINE_BYTES_MAX: usize = 64 << 10;
/// Longest line with a length, in bytes with its first character: no 64-bit number needs more.
pub const LENGTH_LINE_BYTES_MAX: usize = 32;
/// Most arguments, and longest argument in bytes, before a session has authenticated, as in Redis.
pub const UNAUTHENTICATED_ARGS_MAX: usize = 10;
/// See [`UNAUTHENTICATED_ARGS_MAX`].
pub const UNAUTHENTICATED_ARG_BYTES_MAX: usize = 16_384;
/// Longest command with its framing, in bytes, before a session has authenticated. A ticket has at
/// most 8 KiB. A higher value lets each stranger occupy that much. A lower one refuses commands
/// that Redis accepts.
pub const UNAUTHENTICATED_COMMAND_BYTES_MAX: usize = 20 << 10;
/// Bytes of output after which no further command is executed until some of it is flushed.
pub const OUT_BYTES_PAUSE: usize = 1 << 20;
/// Bytes of output above which a reader is too slow and should be disconnected. Replies stop at
/// [`OUT_BYTES_PAUSE`] and one reply more, so only messages to subscribers exceed it.
pub const OUT_BYTES_MAX: usize = 32 << 20;
/// Most bytes of one reply that lists keys (`KEYS`). A longer one is refused, with advice to use
/// `SCAN`.
pub const KEYS_BYTES_MAX: usize = 16 << 20;
/// Most commands that `MULTI` queues; they are also one transaction, which has at most
/// [`TRANSACTION_OPS_MAX`] operations.
pub const QUEUED_COMMANDS_MAX: usize = TRANSACTION_OPS_MAX;
/// Most arguments of all commands that `MULTI` queues. There are as many replies.
pub const QUEUED_ARGS_MAX: usize = 100_000;
/// Most bytes of arguments that `MULTI` queues.
pub const QUEUED_BYTES_MAX: usize = COMMAND_BYTES_MAX;
/// Most keys that one session watches.
pub const WATCHED_MAX: usize = 1_024;
/// Most channels and patterns to which one session is subscribed. Each change is compared with all
/// patterns.
pub const SUBSCRIPTIONS_MAX: usize = 1_024;
/// Most bytes of all channels and patterns to which one session is subscribed. A lower value
/// refuses programs with many long names. A higher one lets one connection occupy more memory.
pub const SUBSCRIPTION_BYTES_MAX: usize = 128 << 10;
/// Longest channel or pattern, in bytes: a key and the text around it, doubled for escapes.
pub const PATTERN_BYTES_MAX: usize = 2 * KEY_BYTES_MAX + 64;
/// Longest name of a client or its library, in bytes, so that a list of clients stays small.
pub const NAME_BYTES_MAX: usize = 128;
/// Most counters that one `SCAN` goes through, whatever its `COUNT`. Other clients wait meanwhile.
pub const SCAN_WORK_MAX: u32 = 100_000;
/// Work of a session before others have their turn: about so many arguments and counters, and 64
/// times as many bytes of answers. A higher value lets one client delay all others for longer. A
/// lower one splits a long pipeline into more commits.
pub const TURN_WORK_MAX: usize = 20_000;
/// Steps of byte comparison that count as one unit of work, in the unit of [`TURN_WORK_MAX`].
pub const STEPS_FOR_WORK: usize = 64;
/// Work of a check of a ticket or a password: a signature takes some 70 µs.
pub const LOGIN_WORK: usize = 2_000;
/// Bytes of memory that a session keeps for its next command when it has nothing to do.
pub const IDLE_BYTES_MAX: usize = 4 << 10;
