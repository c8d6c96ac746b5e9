//! Reading and writing of numbers and byte strings.

use crate::error::{DecodeError, Error, Limited, Rule, detail};
use crate::state::slot::WIDE_MAX;
use alloc::vec::Vec;

/// Appends the shortest LEB128 form.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a length and the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    put(out, bytes);
}

/// Appends bytes. In WebAssembly this is one function, because each inlined copy costs code.
#[cfg_attr(target_family = "wasm", inline(never))]
#[cfg_attr(not(target_family = "wasm"), inline)]
pub(crate) fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
}

/// Maps signed to unsigned numbers so that small magnitudes stay small.
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Appends a wide number: zigzag, then the shortest LEB128 form.
pub(crate) fn put_wide(out: &mut Vec<u8>, value: i128) {
    let mut value = ((value << 1) ^ (value >> 127)) as u128;
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The result of a failed read. The reader has the error. So a result is one bit wide on its way up, which
/// keeps the decoders small where every byte is downloaded.
#[derive(Debug)]
pub(crate) struct Fail;

/// The bytes that are left to read, and the error of the first read that failed.
///
/// A read that fails leaves no bytes, and returns zeros. All later reads do the same, until a decoder finds a
/// broken rule or reaches the end. Then the first error is reported. So a decoder does not have to test each
/// number.
pub(crate) struct Reader<'a> {
    left: &'a [u8],
    error: Option<Error>,
}

/// Reads all of `bytes` with `read`.
pub(crate) fn read_all<'a, T>(
    bytes: &'a [u8],
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, Fail>,
) -> Result<T, Error> {
    let mut reader = Reader {
        left: bytes,
        error: None,
    };
    let value = read(&mut reader);
    let bytes = reader.left.len();
    match (reader.error, value) {
        (Some(error), _) => Err(error),
        (None, Ok(value)) if bytes == 0 => Ok(value),
        (None, _) => Err(DecodeError::TrailingBytes {
            bytes: detail(bytes),
        }
        .into()),
    }
}

impl<'a> Reader<'a> {
    /// Records the error, unless an earlier read has failed already.
    #[cold]
    #[inline(never)]
    pub(crate) fn fail(&mut self, error: Error) -> Fail {
        self.left = &[];
        self.error.get_or_insert(error);
        Fail
    }

    /// Notes that a rule of the format is broken.
    #[cold]
    #[inline(never)]
    pub(crate) fn malformed(&mut self, rule: Rule) -> Fail {
        self.fail(DecodeError::Malformed { rule: detail(rule) }.into())
    }

    /// Notes that the bytes end too early.
    #[cold]
    #[inline(never)]
    pub(crate) fn truncated(&mut self) -> Fail {
        self.fail(DecodeError::Truncated.into())
    }

    /// How many bytes are left.
    pub(crate) fn len(&self) -> usize {
        self.left.len()
    }

    /// Leaves the rest unread.
    pub(crate) fn skip_rest(&mut self) {
        self.left = &[];
    }

    /// The next bytes, or none.
    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let Some((head, rest)) = self.left.split_at_checked(count) else {
            self.truncated();
            return &[];
        };
        self.left = rest;
        head
    }

    /// The next byte, or 0.
    pub(crate) fn u8(&mut self) -> u8 {
        let Some((first, rest)) = self.left.split_first() else {
            self.truncated();
            return 0;
        };
        self.left = rest;
        *first
    }

    /// The next bytes, or zeros.
    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let Some((head, rest)) = self.left.split_first_chunk() else {
            self.truncated();
            return [0; N];
        };
        self.left = rest;
        *head
    }

    /// A number in its shortest LEB128 form.
    #[inline]
    pub(crate) fn varint(&mut self) -> u64 {
        let first = self.u8();
        if first < 0x80 {
            return u64::from(first);
        }
        self.long_varint(first)
    }

    fn long_varint(&mut self, first: u8) -> u64 {
        let mut value = u64::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let byte = self.u8();
            // A last byte of 0 adds nothing: the number has a shorter form.
            if byte == 0 || shift == 63 && byte > 1 {
                self.fail(DecodeError::Number.into());
                return 0;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return value;
            }
            shift += 7;
        }
    }

    /// A number that [`put_wide`] wrote, below 2^100 in magnitude.
    pub(crate) fn wide(&mut self) -> i128 {
        let mut value = 0u128;
        for shift in (0..105).step_by(7) {
            let byte = self.u8();
            value |= u128::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                let wide = (value >> 1) as i128 ^ -((value & 1) as i128);
                if byte == 0 && shift > 0 || wide.unsigned_abs() >= WIDE_MAX as u128 {
                    break;
                }
                return wide;
            }
        }
        self.fail(DecodeError::Number.into());
        0
    }

    /// A number of 32 bits.
    pub(crate) fn varint32(&mut self) -> u32 {
        match u32::try_from(self.varint()) {
            Ok(number) => number,
            Err(_) => {
                self.fail(DecodeError::Number.into());
                0
            }
        }
    }

    /// A count of items of at least `each` bytes. So it is no greater than the bytes that are left.
    pub(crate) fn count(&mut self, each: usize) -> usize {
        let count = self.varint();
        if count > (self.left.len() / each) as u64 {
            self.truncated();
            return 0;
        }
        count as usize
    }

    /// A byte string of at most `max` bytes.
    pub(crate) fn bytes(&mut self, what: Limited, max: usize) -> &'a [u8] {
        let size = usize::try_from(self.varint()).unwrap_or(usize::MAX);
        if size > max {
            self.fail(
                DecodeError::TooLarge {
                    what: detail(what),
                    size: detail(size),
                    max: detail(max),
                }
                .into(),
            );
            return &[];
        }
        self.take(size)
    }

    /// Text of at most `max` bytes.
    pub(crate) fn text(&mut self, what: Limited, max: usize) -> &'a str {
        core::str::from_utf8(self.bytes(what, max)).unwrap_or_else(|_| {
            self.malformed(Rule::Text);
            ""
        })
    }
}
