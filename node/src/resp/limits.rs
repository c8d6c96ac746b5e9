//! Every limit of the Redis face, in one place. Each is checked before memory is taken for what it
//! bounds.

pub use tallymesh_core::limits::{EXPIRY_MAX, KEY_BYTES_MAX, TRANSACTION_OPS_MAX};

/// Most arguments of one command: an `MSET` of as many counters as one transaction may touch, under an
/// idempotency key.
pub const ARGS_MAX: usize = 3 + 2 * TRANSACTION_OPS_MAX;
/// Longest idempotency key, in bytes, over HTTP too.
pub const ONCE_KEY_BYTES_MAX: usize = 255;
/// Longest wait for a level, in milliseconds, over HTTP too.
pub const LEVEL_WAIT_MS_MAX: u64 = 20_000;
/// Longest argument, in bytes. Keys are far shorter and values are integers; the room is for a
/// clear answer to a program that tries to store something else.
pub const ARG_BYTES_MAX: usize = 1 << 20;
/// Longest command with its framing, in bytes: an `MSET` of [`ARGS_MAX`] with the longest keys
/// takes 6 million. It is checked with each argument that is complete.
pub const COMMAND_BYTES_MAX: usize = 8 << 20;
/// Most bytes that are kept unparsed while a session waits or its output is full. Whoever feeds on
/// all the same is cut off.
pub const HELD_BYTES_MAX: usize = 2 * COMMAND_BYTES_MAX;
/// Most bytes of commands that wait and of answers that are not sent yet, of all connections of a node
/// together, of which a quarter is kept for members. Beyond it the ticket or address that holds most gives way. Less ends clients that send long commands; more
/// lets clients that never end theirs take that memory.
pub const HELD_TOTAL_BYTES_MAX: usize = 128 << 20;
/// Most commands that are read before the first of them is executed: their counters then fit the
/// fastest memory together.
pub const AHEAD_MAX: usize = 16;
/// Longest line of an inline command, in bytes, as in Redis.
pub const INLINE_BYTES_MAX: usize = 64 << 10;
/// Longest line that says a length, in bytes with its first character: no 64-bit number takes more.
pub const LENGTH_LINE_BYTES_MAX: usize = 32;
/// Most arguments, and longest argument in bytes, before a session has authenticated, as in Redis.
pub const UNAUTHENTICATED_ARGS_MAX: usize = 10;
/// See [`UNAUTHENTICATED_ARGS_MAX`].
pub const UNAUTHENTICATED_ARG_BYTES_MAX: usize = 16_384;
/// Longest command with its framing, in bytes, before a session has authenticated: a ticket takes 8 KiB at
/// most. More lets strangers hold that much each; less refuses what Redis takes.
pub const UNAUTHENTICATED_COMMAND_BYTES_MAX: usize = 20 << 10;
/// Bytes of output after which no further command is executed until some of it is flushed.
pub const OUT_BYTES_PAUSE: usize = 1 << 20;
/// Bytes of output beyond which a reader is too slow and should be cut off: replies stop at
/// [`OUT_BYTES_PAUSE`] and one reply more, so that only messages to subscribers get there.
pub const OUT_BYTES_MAX: usize = 32 << 20;
/// Most bytes of one reply that lists keys (`KEYS`); more is refused and `SCAN` is named.
pub const KEYS_BYTES_MAX: usize = 16 << 20;
/// Most commands that `MULTI` queues; they are also one transaction, which has at most
/// [`TRANSACTION_OPS_MAX`] operations.
pub const QUEUED_COMMANDS_MAX: usize = TRANSACTION_OPS_MAX;
/// Most arguments of all commands that `MULTI` queues: replies are as many.
pub const QUEUED_ARGS_MAX: usize = 100_000;
/// Most bytes of arguments that `MULTI` queues.
pub const QUEUED_BYTES_MAX: usize = COMMAND_BYTES_MAX;
/// Most keys that one session watches.
pub const WATCHED_MAX: usize = 1_024;
/// Most channels and patterns that one session is subscribed to: each change is held against all
/// patterns.
pub const SUBSCRIPTIONS_MAX: usize = 1_024;
/// Most bytes of all channels and patterns that one session is subscribed to. Less refuses programs that
/// listen to many long names; more lets one connection hold more memory.
pub const SUBSCRIPTION_BYTES_MAX: usize = 128 << 10;
/// Longest channel or pattern, in bytes: a key and what stands around it, twice over for escapes.
pub const PATTERN_BYTES_MAX: usize = 2 * KEY_BYTES_MAX + 64;
/// Longest name that a client gives itself or its library, in bytes: a list of clients stays small.
pub const NAME_BYTES_MAX: usize = 128;
/// Most counters that one `SCAN` looks at, whatever `COUNT` asks for: others wait meanwhile.
pub const SCAN_WORK_MAX: u32 = 100_000;
/// Work that a session does before others have their turn: about so many arguments and counters looked at,
/// and 64 times as many bytes answered. More lets one client hold up all others for longer; less makes
/// more commits of a long pipeline.
pub const TURN_WORK_MAX: usize = 20_000;
/// Steps of comparing bytes that count for one piece of work, in the unit of [`TURN_WORK_MAX`].
pub const STEPS_FOR_WORK: usize = 64;
/// Work that looking at a ticket or a password counts for: a signature takes some 70 µs.
pub const LOGIN_WORK: usize = 2_000;
/// Bytes of memory that a session keeps for its next command when it has nothing to do.
pub const IDLE_BYTES_MAX: usize = 4 << 10;
