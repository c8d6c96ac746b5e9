//! Framing of requests: from bytes to the arguments of one command, without copying them.
//!
//! A request is an array of bulk strings, or a line (an *inline* command, as typed in telnet).
//! `redis_protocol` decodes bulk strings, one at a time. To decode an array as a whole would
//! allocate memory for it. The array could also be nested as deep as its sender likes. And its
//! decoding would begin again with each piece of a long command.

use super::error::Broken;
use super::limits::{
    ARG_BYTES_MAX, ARGS_MAX, COMMAND_BYTES_MAX, INLINE_BYTES_MAX, LENGTH_LINE_BYTES_MAX,
    UNAUTHENTICATED_ARG_BYTES_MAX, UNAUTHENTICATED_ARGS_MAX, UNAUTHENTICATED_COMMAND_BYTES_MAX,
};
use redis_protocol::resp2::decode::decode_range;
use redis_protocol::resp2::types::RangeFrame;

/// The place of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

/// The arguments of one command, the command's name first. There is at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Args<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    pub(super) fn new(bytes: &'a [u8], spans: &'a [Span]) -> Args<'a> {
        Args { bytes, spans }
    }

    /// The number of arguments, with the name.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    #[inline]
    pub(super) fn name(&self) -> &'a [u8] {
        self.at(0)
    }

    /// The argument at `index`, empty if there is none.
    #[inline]
    pub(super) fn at(&self, index: usize) -> &'a [u8] {
        let span = self.spans.get(index);
        span.and_then(|span| self.bytes.get(span.start as usize..span.end as usize))
            .unwrap_or_default()
    }

    /// The command that begins at this argument, for a command with another inside.
    pub(super) fn from(&self, start: usize) -> Args<'a> {
        Args {
            bytes: self.bytes,
            spans: self.spans.get(start..).unwrap_or_default(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let (bytes, spans) = (self.bytes, self.spans);
        spans.iter().map(move |span| {
            bytes
                .get(span.start as usize..span.end as usize)
                .unwrap_or_default()
        })
    }

    /// Appends the arguments to `bytes`, and their places there to `spans`.
    pub(super) fn copy_to(&self, bytes: &mut Vec<u8>, spans: &mut Vec<Span>) {
        for arg in self.iter() {
            push(bytes, spans, arg);
        }
    }
}

/// Appends one argument. The bounds keep all offsets far below 32 bits.
fn push(bytes: &mut Vec<u8>, spans: &mut Vec<Span>, arg: &[u8]) {
    let start = bytes.len() as u32;
    bytes.extend_from_slice(arg);
    spans.push(Span {
        start,
        end: bytes.len() as u32,
    });
}

/// The meaning of the next bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A command of this many bytes; its arguments are [`Request::args`].
    Command(usize),
    /// This many bytes without a command.
    Nothing(usize),
    /// An incomplete command.
    Incomplete,
}

/// The command that is being read.
#[derive(Default)]
pub(super) struct Request {
    /// The arguments so far, as offsets from the command's first byte, or in `line`.
    spans: Vec<Span>,
    /// Arguments that have not arrived; 0 before the command's header.
    missing: usize,
    /// How far the command was read.
    at: usize,
    /// The arguments of an inline command, which can't be ranges because of quotes.
    line: Vec<u8>,
    inline: bool,
}

impl Request {
    /// Looks for a command at the start of `source`. After [`Parsed::Incomplete`] it continues
    /// where it stopped: `source` then begins with the same bytes.
    ///
    /// # Errors
    /// When the framing is broken; then the session can't continue.
    #[inline]
    pub(super) fn next(&mut self, source: &[u8], trusted: bool) -> Result<Parsed, Broken> {
        if self.missing == 0 {
            match source.first() {
                None => return Ok(Parsed::Incomplete),
                Some(b'*') => match self.begin(source, trusted)? {
                    Some(0) => {
                        let used = std::mem::take(&mut self.at);
                        return Ok(Parsed::Nothing(used));
                    }
                    Some(count) => self.missing = count,
                    None => return Ok(Parsed::Incomplete),
                },
                Some(_) => return self.next_line(source, trusted),
            }
        }
        while self.missing > 0 {
            let rest = source.get(self.at..).unwrap_or_default();
            match rest.first() {
                None => return Ok(Parsed::Incomplete),
                Some(b'$') => {}
                Some(byte) => return Err(Broken::Expected(*byte)),
            }
            let (start, end, used) = match decode_range(rest) {
                Ok(Some((RangeFrame::BulkString((start, end)), used))) => (start, end, used),
                Ok(None) => {
                    check_length(rest, trusted)?;
                    check_whole(self.at + rest.len(), trusted)?;
                    return Ok(Parsed::Incomplete);
                }
                Ok(Some(_)) | Err(_) => {
                    check_length(rest, trusted)?;
                    return Err(Broken::ArgLength);
                }
            };
            // The library accepts numbers in forms that Redis refuses.
            match rest.get(1) {
                Some(b'1'..=b'9') if start <= LENGTH_LINE_BYTES_MAX + 1 => {}
                Some(b'0') if start == b"$0\r\n".len() => {}
                _ => check_length(rest, trusted)?,
            }
            check_bytes(end - start, trusted)?;
            if self.at + used > COMMAND_BYTES_MAX {
                return Err(Broken::CommandLength);
            }
            check_whole(self.at + used, trusted)?;
            self.spans.push(Span {
                start: (self.at + start) as u32,
                end: (self.at + end) as u32,
            });
            self.at += used;
            self.missing -= 1;
        }
        Ok(Parsed::Command(std::mem::take(&mut self.at)))
    }

    /// The arguments of the command that was found in `source`.
    #[inline]
    pub(super) fn args<'a>(&'a self, source: &'a [u8]) -> Args<'a> {
        Args {
            bytes: if self.inline { &self.line } else { source },
            spans: &self.spans,
        }
    }

    /// Forgets the command that was found, or the part that was read.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.spans.clear();
        self.missing = 0;
        self.at = 0;
        self.inline = false;
    }

    /// Returns memory beyond `bytes`, if no command is half read.
    pub(super) fn shrink(&mut self, bytes: usize) {
        if self.spans.is_empty() {
            self.spans.shrink_to(bytes / size_of::<Span>());
            self.line.clear();
            self.line.shrink_to(bytes);
        }
    }

    /// The memory in use, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.line.capacity()
    }

    /// Reads the number of arguments.
    #[inline]
    fn begin(&mut self, source: &[u8], trusted: bool) -> Result<Option<usize>, Broken> {
        let line = source.get(1..).unwrap_or_default();
        let line = &line[..line.len().min(LENGTH_LINE_BYTES_MAX)];
        let Some(end) = line.iter().position(|byte| *byte == b'\r') else {
            return match line.len() < LENGTH_LINE_BYTES_MAX {
                true => Ok(None),
                false => Err(Broken::ArgCountLine),
            };
        };
        if source.len() < end + 3 {
            return Ok(None);
        }
        let count = number(&line[..end]).ok_or(Broken::ArgCount)?;
        // Redis treats a count of 0 or less as an empty command.
        let count = usize::try_from(count).unwrap_or(0);
        if count > UNAUTHENTICATED_ARGS_MAX && !trusted {
            return Err(Broken::UnauthenticatedArgCount);
        }
        if count > ARGS_MAX {
            return Err(Broken::ArgCount);
        }
        self.at = end + 3;
        Ok(Some(count))
    }

    fn next_line(&mut self, source: &[u8], trusted: bool) -> Result<Parsed, Broken> {
        let longest = match trusted {
            true => INLINE_BYTES_MAX,
            false => UNAUTHENTICATED_COMMAND_BYTES_MAX,
        };
        let seen = self.at.min(source.len());
        let Some(end) = source[seen..].iter().position(|byte| *byte == b'\n') else {
            self.at = source.len();
            return match source.len() > longest {
                true => Err(Broken::InlineLength),
                false => Ok(Parsed::Incomplete),
            };
        };
        let end = seen + end;
        if end > longest {
            return Err(Broken::InlineLength);
        }
        self.at = 0;
        self.line.clear();
        split(&source[..end], &mut self.line, &mut self.spans)?;
        self.inline = !self.spans.is_empty();
        Ok(match self.inline {
            true => Parsed::Command(end + 1),
            false => Parsed::Nothing(end + 1),
        })
    }
}

/// Refuses a bulk string by its length before it arrives.
#[cold]
fn check_length(rest: &[u8], trusted: bool) -> Result<(), Broken> {
    let line = &rest[..rest.len().min(LENGTH_LINE_BYTES_MAX)];
    let Some(end) = line.iter().position(|byte| *byte == b'\r') else {
        return match line.len() < LENGTH_LINE_BYTES_MAX {
            true => Ok(()),
            false => Err(Broken::ArgLengthLine),
        };
    };
    // Otherwise each new piece of input would be searched for the end of such a line.
    if rest.get(end + 1).is_some_and(|byte| *byte != b'\n') {
        return Err(Broken::ArgLength);
    }
    let length = line.get(1..end).and_then(number).ok_or(Broken::ArgLength)?;
    check_bytes(
        usize::try_from(length).map_err(|_| Broken::ArgLength)?,
        trusted,
    )
}

/// Refuses a command before authentication that is longer, or has more bytes so far, than one may.
#[inline]
fn check_whole(bytes: usize, trusted: bool) -> Result<(), Broken> {
    match trusted || bytes <= UNAUTHENTICATED_COMMAND_BYTES_MAX {
        true => Ok(()),
        false => Err(Broken::UnauthenticatedCommandLength),
    }
}

#[inline]
fn check_bytes(bytes: usize, trusted: bool) -> Result<(), Broken> {
    if bytes > UNAUTHENTICATED_ARG_BYTES_MAX {
        if bytes > ARG_BYTES_MAX {
            return Err(Broken::ArgLength);
        }
        if !trusted {
            return Err(Broken::UnauthenticatedArgLength);
        }
    }
    Ok(())
}

/// An integer in Redis's form: no sign except a minus, no leading zeros, no spaces.
pub(super) fn number(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        _ => (false, text),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut number = 0_i64;
    for digit in digits {
        let digit = i64::from(digit.is_ascii_digit().then(|| digit - b'0')?);
        // It counts downwards, because the lowest number has no positive counterpart.
        number = number.checked_mul(10)?.checked_sub(digit)?;
    }
    match negative {
        true => Some(number),
        false => number.checked_neg(),
    }
}

/// Splits an inline command into its arguments, with Redis's quotes and escapes.
fn split(line: &[u8], bytes: &mut Vec<u8>, spans: &mut Vec<Span>) -> Result<(), Broken> {
    let blank = |byte: u8| byte == 0 || byte == b'\x0b' || byte.is_ascii_whitespace();
    let mut rest = line;
    let mut arg = Vec::new();
    loop {
        let begin = rest.iter().position(|byte| !blank(*byte));
        let Some(begin) = begin else { return Ok(()) };
        rest = &rest[begin..];
        arg.clear();
        while let Some((&byte, after)) = rest.split_first() {
            rest = match byte {
                _ if blank(byte) => break,
                b'"' | b'\'' => {
                    let after = quoted(after, byte, &mut arg)?;
                    if after.first().is_some_and(|next| !blank(*next)) {
                        return Err(Broken::Quotes);
                    }
                    after
                }
                _ => {
                    arg.push(byte);
                    after
                }
            };
        }
        push(bytes, spans, &arg);
    }
}

/// Reads the text in quotes; returns the bytes after it.
fn quoted<'a>(mut rest: &'a [u8], quote: u8, arg: &mut Vec<u8>) -> Result<&'a [u8], Broken> {
    loop {
        let (byte, after) = match *rest {
            [byte, ref after @ ..] if byte == quote => {
                let _ = byte;
                return Ok(after);
            }
            [b'\\', b'\'', ref after @ ..] if quote == b'\'' => (b'\'', after),
            [b'\\', b'x', high, low, ref after @ ..]
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                (hex(high) * 16 + hex(low), after)
            }
            [b'\\', escaped, ref after @ ..] if quote == b'"' => (escape(escaped), after),
            [byte, ref after @ ..] => (byte, after),
            [] => return Err(Broken::Quotes),
        };
        arg.push(byte);
        rest = after;
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

fn escape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}
