//! Framing that can't be read.

#[allow(unused_imports, reason = "what the docs name")]
use crate::protocol::limits;

/// A fault of the framing; the session ends after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The count of arguments is no number, or over [`limits::ARGS_MAX`].
    ArgCount,
    /// Too many arguments before authentication.
    UnauthenticatedArgCount,
    /// The line with the count does not end.
    ArgCountLine,
    /// Another byte is in the place of an argument's length.
    Expected(u8),
    /// An argument's length is no number, or over [`limits::ARG_BYTES_MAX`].
    ArgLength,
    /// An argument is too long before authentication.
    UnauthenticatedArgLength,
    /// A command is longer before authentication than
    /// [`limits::UNAUTHENTICATED_COMMAND_BYTES_MAX`].
    UnauthenticatedCommandLength,
    /// The line with the length does not end.
    ArgLengthLine,
    /// An inline command has no end.
    InlineLength,
    /// An inline command has unbalanced quotes.
    Quotes,
    /// A command is longer than [`limits::COMMAND_BYTES_MAX`].
    CommandLength,
    /// More than [`limits::HELD_BYTES_MAX`] arrived while the session waited.
    Held,
}

impl Broken {
    pub(super) fn code(self) -> &'static str {
        match self {
            Broken::ArgCount => "arg_count",
            Broken::UnauthenticatedArgCount => "unauthenticated_arg_count",
            Broken::ArgCountLine => "arg_count_line",
            Broken::Expected(_) => "expected_bulk",
            Broken::ArgLength => "arg_length",
            Broken::UnauthenticatedArgLength => "unauthenticated_arg_length",
            Broken::ArgLengthLine => "arg_length_line",
            Broken::InlineLength => "inline_length",
            Broken::Quotes => "quotes",
            Broken::CommandLength | Broken::UnauthenticatedCommandLength => "command_length",
            Broken::Held => "held",
        }
    }

    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Protocol error: ");
        out.extend_from_slice(match self {
            Broken::ArgCount => b"invalid multibulk length",
            Broken::UnauthenticatedArgCount => b"unauthenticated multibulk length",
            Broken::ArgCountLine => b"too big mbulk count string",
            Broken::Expected(byte) => {
                out.extend_from_slice(b"expected '$', got '");
                out.extend_from_slice(&[byte, b'\'']);
                return;
            }
            Broken::ArgLength => b"invalid bulk length",
            Broken::UnauthenticatedArgLength => b"unauthenticated bulk length",
            Broken::ArgLengthLine => b"too big bulk count string",
            Broken::InlineLength => b"too big inline request",
            Broken::Quotes => b"unbalanced quotes in request",
            Broken::CommandLength => b"a command has at most 8 MiB",
            Broken::UnauthenticatedCommandLength => {
                b"a command has at most 20480 bytes before authentication"
            }
            Broken::Held => b"more came while replies wait than is kept; read replies first",
        });
    }
}
