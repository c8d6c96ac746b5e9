//! The bytes of replies, in the version of the protocol that the session uses.

use super::error::ReplyError;
use tallymesh_node_ground::escape;

/// Appends replies to a session's output.
pub(super) struct Reply<'a> {
    pub(super) out: &'a mut Vec<u8>,
    /// Whether the session uses RESP3, which has its own nulls, maps and pushes.
    pub(super) resp3: bool,
}

impl Reply<'_> {
    pub(super) fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// A short answer without line breaks.
    pub(super) fn status(&mut self, text: &str) {
        self.out.push(b'+');
        self.raw(text.as_bytes());
        self.raw(b"\r\n");
    }

    #[inline]
    pub(super) fn integer(&mut self, number: i64) {
        let mut line = Line::new(b':');
        line.put(itoa::Buffer::new().format(number).as_bytes());
        line.end();
        self.raw(line.bytes());
    }

    /// An integer that fits into 63 bits, such as a count.
    pub(super) fn count(&mut self, count: usize) {
        self.integer(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len());
        self.raw(bytes);
        self.raw(b"\r\n");
    }

    /// A counter's value as text, or nil if it is absent.
    #[inline]
    pub(super) fn value(&mut self, value: Option<i128>) {
        let Some(value) = value else {
            return self.null();
        };
        let mut digits = itoa::Buffer::new();
        let Ok(value) = i64::try_from(value) else {
            return self.bulk(digits.format(value).as_bytes());
        };
        let digits = digits.format(value).as_bytes();
        let mut line = Line::new(b'$');
        line.put(itoa::Buffer::new().format(digits.len()).as_bytes());
        line.end();
        line.put(digits);
        line.end();
        self.raw(line.bytes());
    }

    /// The present value, and the added amount.
    pub(super) fn changed(&mut self, value: i128, by: i64) {
        self.array(2);
        self.number(value);
        self.integer(by);
    }

    /// A number, as an integer if it fits into 64 bits.
    pub(super) fn number(&mut self, number: i128) {
        match i64::try_from(number) {
            Ok(number) => self.integer(number),
            Err(_) => self.value(Some(number)),
        }
    }

    pub(super) fn null(&mut self) {
        self.raw(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    pub(super) fn null_array(&mut self) {
        self.raw(if self.resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    pub(super) fn array(&mut self, len: usize) {
        self.header(b'*', len);
    }

    pub(super) fn map(&mut self, pairs: usize) {
        match self.resp3 {
            true => self.header(b'%', pairs),
            false => self.header(b'*', 2 * pairs),
        }
    }

    pub(super) fn set(&mut self, len: usize) {
        self.header(if self.resp3 { b'~' } else { b'*' }, len);
    }

    /// A message that is no answer to a command.
    pub(super) fn push(&mut self, len: usize) {
        self.header(if self.resp3 { b'>' } else { b'*' }, len);
    }

    /// Text for people, of several lines.
    pub(super) fn verbatim(&mut self, text: &str) {
        if !self.resp3 {
            return self.bulk(text.as_bytes());
        }
        self.header(b'=', text.len() + 4);
        self.raw(b"txt:");
        self.raw(text.as_bytes());
        self.raw(b"\r\n");
    }

    pub(super) fn error(&mut self, error: &ReplyError<'_>) {
        if let ReplyError::AtBound { value, .. } = error {
            return self.changed(*value, 0);
        }
        self.out.push(b'-');
        let start = self.out.len();
        error.write(self.out);
        // The text may contain bytes from a client. A line break would end the reply, so it becomes
        // a blank, as in Redis. Other control characters are escaped for terminals.
        let mut text = self.out.split_off(start);
        for byte in &mut text {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.raw(&escape::bytes(&text));
        self.raw(b"\r\n");
    }

    #[inline]
    fn header(&mut self, kind: u8, len: usize) {
        let mut line = Line::new(kind);
        line.put(itoa::Buffer::new().format(len).as_bytes());
        line.end();
        self.raw(line.bytes());
    }

    #[inline]
    fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }
}

/// A short piece of a reply that is put together before it is appended as one. Most replies are
/// this short.
struct Line {
    bytes: [u8; Line::BYTES_MAX],
    len: usize,
}

impl Line {
    /// Room for two 64-bit numbers and the bytes around them.
    const BYTES_MAX: usize = 48;

    #[inline]
    fn new(kind: u8) -> Line {
        let mut bytes = [0; Line::BYTES_MAX];
        bytes[0] = kind;
        Line { bytes, len: 1 }
    }

    #[inline]
    fn put(&mut self, part: &[u8]) {
        self.bytes[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
    }

    #[inline]
    fn end(&mut self) {
        self.put(b"\r\n");
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
