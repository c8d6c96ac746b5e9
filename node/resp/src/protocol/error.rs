//! All refusals of commands, and their texts. The meaning of the codes is in the table of all
//! [`problems`].
//!
//! If Redis has the same refusal, the text is exactly Redis's, because programs compare it.

mod broken;

pub use broken::Broken;
use tallymesh_node_ground::model::bounds::ONCE_KEY_BYTES_MAX;

use super::levels::Unmet;
use super::limits;
use super::request::Args;
use super::why::Why;
use std::io::Write;
use tallymesh_core::bounds::SEQUENCE_NUMBER_MAX;
use tallymesh_core::{Error, QuotaError, QuotaRef, WriteError};
use tallymesh_node_ground::model::{AtPresent, Lack, OperationError, StuckPart, Turned};
use tallymesh_node_ground::problems;

/// The reason why a command was refused. Names in it come from the client, or are a command's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyError<'a> {
    /// The framing is broken.
    Protocol(Broken),
    /// No such command.
    UnknownCommand(Args<'a>),
    /// No such subcommand of the command.
    UnknownSubcommand {
        /// The command.
        command: &'static str,
        /// The text in place of a subcommand.
        name: &'a [u8],
    },
    /// The command has another number of arguments.
    Arity(&'static str),
    /// A subcommand has another number of arguments.
    SubcommandArity {
        /// The command.
        command: &'static str,
        /// Its subcommand.
        name: &'static str,
    },
    /// Redis has this command, and this node does not.
    Unsupported {
        /// The command as it was sent.
        name: &'a [u8],
        /// The reason.
        why: Why,
    },
    /// Only a centre could do it, and strict sessions refuse to decide by this node's state.
    NeedsCentre {
        /// The command, with its option if only that is refused.
        what: &'static str,
        /// The alternative.
        instead: &'static str,
    },
    /// Bounds and an expiry that only a centre could keep, with the alternative.
    BoundNeedsCentre(Box<str>),
    /// A change that would leave the bounds is not made. For Redis that is no error: the answer is
    /// the present value.
    AtBound {
        /// The value at this node.
        value: i128,
        /// The reason.
        why: Box<ReplyError<'a>>,
    },
    /// `LBOUND` is over `UBOUND`.
    BoundsCrossed,
    /// `ENX` without an expiry.
    EnxAlone,
    /// An argument that should be a number is none.
    NotInteger,
    /// The value of an option is no number.
    NotIntegerOption(&'static str),
    /// A value that is to be stored is no integer.
    NotCounterValue,
    /// The sum would leave 64 bits.
    Overflow,
    /// The number can't be negated.
    DecrementOverflow,
    /// A word is in a wrong place.
    Syntax,
    /// A key is not UTF-8.
    KeyText,
    /// An expiry is not a time that a counter can have.
    ExpireTime(&'static str),
    /// An option of the `EXPIRE` family that does not exist.
    ExpireOption(&'a [u8]),
    /// `NX` beside another option of the `EXPIRE` family.
    ExpireNx,
    /// `GT` beside `LT`.
    ExpireGtLt,
    /// The replica refused.
    Core(Error),
    /// The node refused an operation on a budget.
    Operation(OperationError),
    /// An amount of a budget is below 0.
    Quantity,
    /// A number of a sequence is below 0.
    Number(i64),
    /// The recipient of a grant is neither a member's key nor a writer.
    Recipient(&'a [u8]),
    /// The session has to authenticate first.
    NoAuth,
    /// `HELLO` without authentication.
    HelloNoAuth,
    /// The password is wrong.
    WrongPass,
    /// A password was sent and none is configured.
    NoPassword,
    /// The shown ticket is not valid.
    WrongTicket(Turned),
    /// The session's ticket is no longer valid, or not in this space.
    TicketOver(Turned),
    /// The session's ticket does not allow this.
    NoPerm(Turned),
    /// Too many attempts to authenticate failed recently at the session's address.
    TooManyTries {
        /// How long to wait, in seconds.
        wait_s: u64,
    },
    /// The version of the protocol is not 2 or 3.
    NoProto,
    /// The version of the protocol is no number.
    ProtoNotInteger,
    /// An option of `HELLO` that does not exist.
    HelloOption(&'a [u8]),
    /// A queued command was refused.
    ExecAbort,
    /// `EXEC` itself was wrong, or the replica can't make the transaction.
    ExecAbortBecause(Box<ReplyError<'a>>),
    /// An idempotency key is empty or too long.
    OnceKey(usize),
    /// The command can't be made under an idempotency key.
    NotOnce(&'static str),
    /// `ONCE` in `MULTI`, with another command than `EXEC`.
    OnceInMulti,
    /// Another request was made under this idempotency key.
    KeyReused,
    /// The command was made before under its idempotency key, and lacks a part of its effect.
    MadeWeaker,
    /// The adds under an idempotency key have this many bytes with their keys.
    OnceTooLarge {
        /// The number of bytes.
        bytes: usize,
    },
    /// The command was made before under this idempotency key, and its answer was not stored.
    Replayed(&'static str),
    /// A level above local in a space without members.
    NoMembers,
    /// A level was not reached.
    Unmet(Unmet),
    /// A level that does not exist.
    LevelName(&'a [u8]),
    /// `MULTI` in `MULTI`.
    MultiNested,
    /// `EXEC` without `MULTI`.
    ExecWithoutMulti,
    /// `DISCARD` without `MULTI`.
    DiscardWithoutMulti,
    /// `WATCH` in `MULTI`.
    WatchInMulti,
    /// The command can't be queued.
    NotInMulti,
    /// `MULTI` has its most queued commands.
    QueueFull,
    /// The number of watched keys is at its bound.
    WatchedFull,
    /// The number of subscribed channels and patterns is at its bound.
    SubscriptionsFull,
    /// All channels and patterns together would have so many bytes.
    SubscriptionBytes(usize),
    /// A channel or a pattern is too long.
    PatternLength(usize),
    /// A subscribed session of RESP2 can't do this any more.
    Subscribed(&'static str),
    /// No space has this number.
    DbIndex,
    /// The cursor of `SCAN` is no number.
    Cursor,
    /// The type for `SCAN` does not exist.
    TypeName(&'a [u8]),
    /// `KEYS` found too much.
    KeysTooMany,
    /// A client's name has characters that it can't have.
    ClientName,
    /// An attribute of a client's library has such characters.
    ClientAttribute(&'a [u8]),
    /// A client's name, or its library's, is too long.
    NameLength(usize),
    /// An option of `CLIENT SETINFO` that does not exist.
    ClientInfoOption(&'a [u8]),
    /// A client's number is invalid.
    ClientId,
    /// A kind of client that does not exist.
    ClientType(&'a [u8]),
    /// A parameter that does not exist.
    ConfigUnknown(&'a [u8]),
    /// A parameter that can't be changed while the node runs.
    ConfigImmutable(&'a [u8]),
    /// `FLUSHDB` and `FLUSHALL` are configured as unavailable.
    FlushOff,
    /// A timeout is no number.
    TimeoutNotInteger,
    /// A timeout is below 0.
    TimeoutNegative,
    /// A timeout is later than any time.
    TimeoutRange,
    /// The node does not record how often a counter is read.
    Frequency,
    /// The node does not record when a counter was last read.
    IdleTime,
    /// A fault of the program ended the session in the middle of a command.
    Internal(&'static str),
    /// The session did not authenticate in time.
    AuthTime,
    /// Sessions together occupy more than they may, and this one occupies most among those that
    /// give way.
    HeldFull {
        /// The bytes of this session.
        bytes: usize,
        /// The bytes of its ticket, or of its address.
        sum: usize,
        /// The sessions whose bytes together are over a limit.
        who: &'static str,
        /// The limit.
        limit: usize,
    },
}

impl ReplyError<'_> {
    /// The stable code of this refusal, which does not change when a text does.
    pub fn code(&self) -> &'static str {
        match self {
            ReplyError::Protocol(broken) => broken.code(),
            ReplyError::UnknownCommand(_) => "unknown_command",
            ReplyError::UnknownSubcommand { .. } => "unknown_subcommand",
            ReplyError::Arity(_) | ReplyError::SubcommandArity { .. } => "arity",
            ReplyError::NeedsCentre { .. }
            | ReplyError::BoundNeedsCentre(_)
            | ReplyError::Unsupported {
                why: Why::Conditional,
                ..
            } => "needs_centre",
            ReplyError::Unsupported { .. } => "unsupported",
            ReplyError::AtBound { why, .. } => why.code(),
            ReplyError::BoundsCrossed => "bounds_crossed",
            ReplyError::EnxAlone => "expire_options",
            ReplyError::NotInteger | ReplyError::NotIntegerOption(_) => "not_integer",
            ReplyError::NotCounterValue => "not_counter_value",
            ReplyError::Overflow | ReplyError::DecrementOverflow => "overflow",
            ReplyError::Syntax => "syntax",
            ReplyError::KeyText => "key_text",
            ReplyError::ExpireTime(_) => "expiry_range",
            ReplyError::ExpireOption(_) => "expire_option",
            ReplyError::ExpireNx | ReplyError::ExpireGtLt => "expire_options",
            ReplyError::Core(error) => error.code(),
            ReplyError::Operation(error) => error.code(),
            ReplyError::Quantity => "amount_range",
            ReplyError::Number(_) => "number_range",
            ReplyError::Recipient(_) => "recipient",
            ReplyError::NoAuth | ReplyError::HelloNoAuth => "no_auth",
            ReplyError::WrongPass => "wrong_pass",
            ReplyError::NoPassword => "no_password",
            ReplyError::WrongTicket(turned) if turned.is_full() => "clients_full",
            ReplyError::WrongTicket(turned)
            | ReplyError::TicketOver(turned)
            | ReplyError::NoPerm(turned) => turned.code,
            ReplyError::TooManyTries { .. } => "rate_limited",
            ReplyError::NoProto => "no_proto",
            ReplyError::ProtoNotInteger => "proto_not_integer",
            ReplyError::HelloOption(_) => "hello_option",
            ReplyError::ExecAbort | ReplyError::ExecAbortBecause(_) => "exec_abort",
            ReplyError::OnceKey(_) => "idempotency_key",
            ReplyError::NotOnce(_) => "not_once",
            ReplyError::OnceInMulti => "once_in_multi",
            ReplyError::KeyReused => "key_reused",
            ReplyError::MadeWeaker => "made_weaker",
            ReplyError::OnceTooLarge { .. } => "keyed_too_large",
            ReplyError::Replayed(_) => "replayed",
            ReplyError::NoMembers => "no_members",
            ReplyError::Unmet(unmet) => unmet.code,
            ReplyError::LevelName(_) => "level",
            ReplyError::MultiNested => "multi_nested",
            ReplyError::ExecWithoutMulti => "exec_without_multi",
            ReplyError::DiscardWithoutMulti => "discard_without_multi",
            ReplyError::WatchInMulti => "watch_in_multi",
            ReplyError::NotInMulti => "not_in_multi",
            ReplyError::QueueFull => "queue_full",
            ReplyError::WatchedFull => "watched_full",
            ReplyError::SubscriptionsFull | ReplyError::SubscriptionBytes(_) => {
                "subscriptions_full"
            }
            ReplyError::PatternLength(_) => "pattern_length",
            ReplyError::Subscribed(_) => "subscribed",
            ReplyError::DbIndex => "space_not_open",
            ReplyError::Cursor => "cursor",
            ReplyError::TypeName(_) => "type_name",
            ReplyError::KeysTooMany => "keys_too_many",
            ReplyError::ClientName | ReplyError::ClientAttribute(_) => "client_name",
            ReplyError::NameLength(_) => "client_name_length",
            ReplyError::ClientInfoOption(_) => "client_info_option",
            ReplyError::ClientId => "client_id",
            ReplyError::ClientType(_) => "client_type",
            ReplyError::ConfigUnknown(_) => "config_unknown",
            ReplyError::ConfigImmutable(_) => "config_immutable",
            ReplyError::FlushOff => "flush_off",
            ReplyError::TimeoutNotInteger => "timeout_not_integer",
            ReplyError::TimeoutNegative => "timeout_negative",
            ReplyError::TimeoutRange => "timeout_range",
            ReplyError::Frequency => "frequency",
            ReplyError::IdleTime => "idle_time",
            ReplyError::Internal(_) => "internal",
            ReplyError::AuthTime => "auth_time",
            ReplyError::HeldFull { .. } => "held_full",
        }
    }

    /// The word before the text, by which Redis's clients distinguish kinds of errors.
    pub fn prefix(&self) -> &'static str {
        match self {
            // For a ticket, the prefix shows when it was refused, and the code shows why.
            ReplyError::WrongTicket(turned) if turned.is_full() => "ERR",
            ReplyError::WrongTicket(_) => "WRONGPASS",
            ReplyError::TicketOver(_) => "NOAUTH",
            _ => problems::of(self.code()).prefix(),
        }
    }

    /// Appends the prefix and the text.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.prefix().as_bytes());
        out.push(b' ');
        self.write_text(out);
    }

    fn write_text(&self, out: &mut Vec<u8>) {
        let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| out.extend_from_slice(part));
        match self {
            ReplyError::Protocol(broken) => broken.write(out),
            ReplyError::UnknownCommand(args) => write_unknown(args, out),
            ReplyError::UnknownSubcommand { command, name } => put(&[
                b"unknown subcommand '",
                head(name),
                b"'. Try ",
                command.to_ascii_uppercase().as_bytes(),
                b" HELP.",
            ]),
            ReplyError::Arity(name) => put(&[ARITY, name.as_bytes(), b"' command"]),
            ReplyError::SubcommandArity { command, name } => put(&[
                ARITY,
                command.as_bytes(),
                b"|",
                name.as_bytes(),
                b"' command",
            ]),
            ReplyError::Unsupported { name, why } => {
                put(&[
                    b"'",
                    head(name),
                    b"' is not supported: ",
                    why.text().as_bytes(),
                ]);
            }
            ReplyError::NeedsCentre { what, instead } => put(&[
                b"'",
                what.as_bytes(),
                b"' takes a centre and is refused in strict mode: it depends on what this node has \
                  seen, and others may have counted meanwhile. ",
                instead.as_bytes(),
            ]),
            ReplyError::BoundNeedsCentre(instead) => put(&[
                b"'increx' as this one takes a centre, and there is none. ",
                instead.as_bytes(),
            ]),
            ReplyError::AtBound { why, .. } => why.write_text(out),
            ReplyError::NotOnce(name) => put(&[
                b"'",
                name.as_bytes(),
                b"' can't be made under an idempotency key: ONCE takes one command that writes \
                  counters, or EXEC",
            ]),
            ReplyError::Replayed(name) => put(&[
                b"'",
                name.as_bytes(),
                b"' was made before under this idempotency key, and counts once; what it answered \
                  then is not kept, so GET the counter",
            ]),
            ReplyError::Internal(last) => put(&[
                b"internal error in '",
                last.as_bytes(),
                b"': a fault of the program ended this connection, and whether the command was done is \
                  not known; read before you try again, and report what the node's log says",
            ]),
            ReplyError::HeldFull {
                bytes,
                sum,
                who,
                limit,
            } => show(
                out,
                format_args!(
                    "held_full: this connection holds {bytes} bytes of commands, answers and \
                     subscriptions, and its ticket or address {sum}, more than any other; {who} are \
                     over the limit of {limit} together; send less at a time, and read the answers"
                ),
            ),
            ReplyError::Number(number) => show(
                out,
                format_args!(
                    "numbers go from 1 to {SEQUENCE_NUMBER_MAX}, and {number} is none of them"
                ),
            ),
            ReplyError::Unmet(unmet) => put(&[unmet.text.as_bytes()]),
            ReplyError::WrongTicket(turned)
            | ReplyError::TicketOver(turned)
            | ReplyError::NoPerm(turned) => {
                put(&[turned.code.as_bytes(), b": ", turned.text.as_bytes()]);
            }
            ReplyError::TooManyTries { wait_s } => show(
                out,
                format_args!(
                    "rate_limited: too many tickets or passwords that let nobody in came from this \
                     address; wait {wait_s} s, and find out which client sends them"
                ),
            ),
            ReplyError::LevelName(name) => put(&[
                b"'",
                head(name),
                b"' is no level: there are local, quorum and all",
            ]),
            ReplyError::ExecAbortBecause(error) => {
                put(&[b"Transaction discarded because of: "]);
                error.write_text(out);
            }
            ReplyError::Subscribed(name) => put(&[
                b"Can't execute '",
                name.as_bytes(),
                b"': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
                  this context",
            ]),
            ReplyError::Core(Error::Quota(QuotaError::WrongKind { .. })) => {
                put(&[b"Operation against a key holding the wrong kind of value"]);
            }
            ReplyError::Core(error) => put(&[problems::text(error).as_bytes()]),
            ReplyError::Operation(error) => show(out, format_args!("{error}")),
            ReplyError::Recipient(text) => put(&[
                b"'",
                head(text),
                b"' is no member's key, which has 64 hex digits, nor a writer, which has 32",
            ]),
            ReplyError::PatternLength(bytes) => show(
                out,
                format_args!(
                    "a channel or pattern has at most {} bytes, not {bytes}",
                    limits::PATTERN_BYTES_MAX
                ),
            ),
            ReplyError::SubscriptionBytes(bytes) => show(
                out,
                format_args!(
                    "the channels and patterns of a connection have at most {} bytes together, and \
                     these would have {bytes}; use a pattern for several keys",
                    limits::SUBSCRIPTION_BYTES_MAX
                ),
            ),
            ReplyError::OnceKey(bytes) => show(
                out,
                format_args!(
                    "an idempotency key has 1 to {ONCE_KEY_BYTES_MAX} bytes, this one has {bytes}"
                ),
            ),
            ReplyError::OnceTooLarge { bytes } => show(
                out,
                format_args!(
                    "what is added under this idempotency key takes {bytes} bytes with the keys of \
                     the counters, over the limit of {}; send it in several parts, each under a key \
                     of its own",
                    tallymesh_core::bounds::KEYED_BYTES_MAX
                ),
            ),
            ReplyError::NameLength(bytes) => show(
                out,
                format_args!(
                    "a name has at most {} bytes, not {bytes}",
                    limits::NAME_BYTES_MAX
                ),
            ),
            other => other.write_option(out),
        }
    }

    /// The text of refusals that name an option from the client, or a command with options.
    fn write_option(&self, out: &mut Vec<u8>) {
        let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| out.extend_from_slice(part));
        match self {
            ReplyError::ExpireTime(name) => {
                put(&[b"invalid expire time in '", name.as_bytes(), b"' command"]);
            }
            ReplyError::NotIntegerOption(name) => {
                put(&[name.as_bytes(), b" is not an integer or out of range"]);
            }
            ReplyError::ExpireOption(name) => put(&[b"Unsupported option ", head(name)]),
            ReplyError::HelloOption(name) => {
                put(&[b"Syntax error in HELLO option '", head(name), b"'"]);
            }
            ReplyError::TypeName(name) => put(&[b"unknown type name '", head(name), b"'"]),
            ReplyError::ClientAttribute(name) => put(&[
                head(name),
                b" cannot contain spaces, newlines or special characters.",
            ]),
            ReplyError::ClientInfoOption(name) => {
                put(&[b"Unrecognized option '", head(name), b"'"]);
            }
            ReplyError::ClientType(name) => put(&[b"Unknown client type '", head(name), b"'"]),
            ReplyError::ConfigUnknown(name) => put(&[
                b"Unknown option or number of arguments for CONFIG SET - '",
                head(name),
                b"'",
            ]),
            ReplyError::ConfigImmutable(name) => put(&[
                b"CONFIG SET failed (possibly related to argument '",
                head(name),
                b"') - can't set immutable config",
            ]),
            fixed => put(&[fixed.fixed_text().as_bytes()]),
        }
    }

    /// The text of refusals whose text is always the same.
    fn fixed_text(&self) -> &'static str {
        match self {
            ReplyError::BoundsCrossed => "LBOUND can't be greater than UBOUND",
            ReplyError::EnxAlone => "ENX flag requires an expiration",
            ReplyError::NotInteger => "value is not an integer or out of range",
            ReplyError::NotCounterValue => {
                "counters hold integers from -9223372036854775808 to 9223372036854775807, and \
                 the value that was sent is no such number"
            }
            ReplyError::AuthTime => {
                "auth_time: this connection has not authenticated within 10 s, or its ticket ended, and is \
                 closed"
            }
            ReplyError::Overflow => "increment or decrement would overflow",
            ReplyError::DecrementOverflow => "decrement would overflow",
            ReplyError::Syntax => "syntax error",
            ReplyError::Quantity => "an amount of a budget is 0 to 9223372036854775807",
            ReplyError::KeyText => {
                "a key is UTF-8 text of 1 to 512 bytes, and this one is not UTF-8"
            }
            ReplyError::ExpireNx => {
                "NX and XX, GT or LT options at the same time are not compatible"
            }
            ReplyError::ExpireGtLt => "GT and LT options at the same time are not compatible",
            ReplyError::NoAuth => "Authentication required.",
            ReplyError::HelloNoAuth => {
                "HELLO must be called with the client already authenticated, otherwise the HELLO \
                 <proto> AUTH <user> <pass> option can be used to authenticate the client and \
                 select the RESP protocol version at the same time"
            }
            ReplyError::WrongPass => "invalid username-password pair or user is disabled.",
            ReplyError::NoPassword => {
                "AUTH <password> called without any password configured for the default user. Are \
                 you sure your configuration is correct?"
            }
            ReplyError::NoProto => "unsupported protocol version",
            ReplyError::ProtoNotInteger => "Protocol version is not an integer or out of range",
            ReplyError::ExecAbort => "Transaction discarded because of previous errors.",
            ReplyError::OnceInMulti => {
                "ONCE inside MULTI takes nothing but EXEC: its key is that of all that is queued"
            }
            ReplyError::KeyReused => {
                "something else was made under this idempotency key; give each operation a key of \
                 its own, and retry it with the same"
            }
            ReplyError::MadeWeaker => problems::MADE_WEAKER_TEXT,
            ReplyError::NoMembers => {
                "the space has no members that could reach a level above local, so nothing was done; \
                 CLIENT LEVEL local, or make a node the first member with `tallymesh members init`"
            }
            ReplyError::MultiNested => "MULTI calls can not be nested",
            ReplyError::ExecWithoutMulti => "EXEC without MULTI",
            ReplyError::DiscardWithoutMulti => "DISCARD without MULTI",
            ReplyError::WatchInMulti => "WATCH inside MULTI is not allowed",
            ReplyError::NotInMulti => "Command not allowed inside a transaction",
            ReplyError::QueueFull => {
                "a transaction has at most 10000 operations and 8 MiB of arguments; EXEC what is \
                 queued in several parts"
            }
            ReplyError::WatchedFull => {
                "a connection watches at most 1024 keys; EXEC or UNWATCH first"
            }
            ReplyError::SubscriptionsFull => {
                "a connection has at most 1024 channels and patterns; use a pattern for several keys"
            }
            ReplyError::DbIndex => "DB index is out of range",
            ReplyError::Cursor => "invalid cursor",
            ReplyError::KeysTooMany => "more keys match than one reply may hold; use SCAN",
            ReplyError::ClientName => {
                "Client names cannot contain spaces, newlines or special characters."
            }
            ReplyError::ClientId => "Invalid client ID",
            ReplyError::FlushOff => {
                "flushing is off at this node, since it deletes what all replicas counted; start \
                 the node with --resp-flush, or DEL single keys"
            }
            ReplyError::TimeoutNotInteger => "timeout is not an integer or out of range",
            ReplyError::TimeoutNegative => "timeout is negative",
            ReplyError::TimeoutRange => "timeout is out of range",
            ReplyError::Frequency => {
                "An LFU maxmemory policy is not selected, access frequency not tracked. Please \
                 note that when switching between policies at runtime LRU and LFU data will take \
                 some time to adjust."
            }
            ReplyError::IdleTime => "idle time not tracked: counters are never evicted",
            // All others have variable parts, and are written above.
            _ => "",
        }
    }
}

const ARITY: &[u8] = b"wrong number of arguments for '";

/// The part of a client's text that an error may contain.
fn head(name: &[u8]) -> &[u8] {
    &name[..name.len().min(128)]
}

fn write_unknown(args: &Args<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"unknown command '");
    out.extend_from_slice(head(args.name()));
    out.extend_from_slice(b"', with args beginning with: ");
    let start = out.len();
    for arg in args.iter().skip(1) {
        let room = 128_usize.saturating_sub(out.len() - start);
        if room == 0 {
            break;
        }
        out.push(b'\'');
        out.extend_from_slice(&arg[..arg.len().min(room)]);
        out.extend_from_slice(b"' ");
    }
}

fn show(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector can't fail.
    let _ = out.write_fmt(text);
}

impl ReplyError<'_> {
    /// The error with the reason for which it stands [at present](AtPresent). `lack` is what was missing.
    pub(super) fn at_present(self, present: &AtPresent, lack: Option<&Lack>, q: QuotaRef) -> Self {
        let why = match &self {
            ReplyError::AtBound { why, .. } => why,
            error => error,
        };
        let ReplyError::Core(error) = why else {
            return self;
        };
        let reason = present.reason(error, lack, q);
        reason.map_or(self, Into::into)
    }

    /// Adds what members hold that are away, of what the command lacks.
    pub(super) fn with_stuck(self, parts: Vec<StuckPart>) -> Self {
        match self {
            ReplyError::Core(error) if !parts.is_empty() => {
                ReplyError::Operation(OperationError::Core(error).stuck(parts))
            }
            error => error,
        }
    }

    /// Whether only a member may do it, and this node is about to be one.
    pub(super) fn is_catching_up(&self) -> bool {
        matches!(self, ReplyError::Operation(OperationError::CatchingUp(_)))
    }
}

impl From<OperationError> for ReplyError<'_> {
    fn from(error: OperationError) -> Self {
        match error {
            OperationError::Core(error) => error.into(),
            error => ReplyError::Operation(error),
        }
    }
}

impl From<Error> for ReplyError<'_> {
    fn from(error: Error) -> Self {
        match error {
            Error::Write(WriteError::Overflow { .. }) => ReplyError::Overflow,
            error => ReplyError::Core(error),
        }
    }
}
