//! Reading and writing of numbers and byte strings.

use crate::error::{Error, Limited, Rule};
use crate::slot::WIDE_MAX;
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
    out.extend_from_slice(bytes);
}

/// Maps signed to unsigned so that small magnitudes stay small.
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

/// Reading failed; the reader knows why. So a result is one bit wide on its way up, which keeps
/// the decoders small where every byte is downloaded.
#[derive(Debug)]
pub(crate) struct Fail;

/// What is left to read, and the error of the first read that failed.
pub(crate) struct Reader<'a> {
    left: &'a [u8],
    error: Error,
}

/// Reads all of `bytes` with `read`.
pub(crate) fn read_all<'a, T>(
    bytes: &'a [u8],
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, Fail>,
) -> Result<T, Error> {
    let mut reader = Reader {
        left: bytes,
        error: Error::Truncated,
    };
    match read(&mut reader) {
        Ok(_) if !reader.left.is_empty() => Err(Error::TrailingBytes {
            bytes: reader.left.len(),
        }),
        Ok(value) => Ok(value),
        Err(Fail) => Err(reader.error),
    }
}

impl<'a> Reader<'a> {
    /// Notes why reading fails.
    #[cold]
    #[inline(never)]
    pub(crate) fn fail(&mut self, error: Error) -> Fail {
        self.error = error;
        Fail
    }

    /// Notes that a rule of the format is broken.
    #[cold]
    #[inline(never)]
    pub(crate) fn malformed(&mut self, rule: Rule) -> Fail {
        self.fail(Error::Malformed { rule })
    }

    /// How many bytes are left.
    pub(crate) fn len(&self) -> usize {
        self.left.len()
    }

    /// Leaves the rest unread.
    pub(crate) fn skip_rest(&mut self) {
        self.left = &[];
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Fail> {
        let (head, rest) = self.left.split_at_checked(count).ok_or(Fail)?;
        self.left = rest;
        Ok(head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Fail> {
        let (first, rest) = self.left.split_first().ok_or(Fail)?;
        self.left = rest;
        Ok(*first)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fail> {
        let (head, rest) = self.left.split_first_chunk().ok_or(Fail)?;
        self.left = rest;
        Ok(*head)
    }

    /// A number in its shortest LEB128 form.
    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, Fail> {
        let first = self.u8()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        self.long_varint(first)
    }

    fn long_varint(&mut self, first: u8) -> Result<u64, Fail> {
        let mut value = u64::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let byte = self.u8()?;
            // A last byte of 0 adds nothing: the number has a shorter form.
            if byte == 0 || shift == 63 && byte > 1 {
                return Err(self.fail(Error::Number));
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
        }
    }

    /// A number that [`put_wide`] wrote, below 2^100 in magnitude.
    pub(crate) fn wide(&mut self) -> Result<i128, Fail> {
        let mut value = 0u128;
        for shift in (0..105).step_by(7) {
            let byte = self.u8()?;
            value |= u128::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                let wide = (value >> 1) as i128 ^ -((value & 1) as i128);
                if byte == 0 && shift > 0 || wide.unsigned_abs() >= WIDE_MAX as u128 {
                    break;
                }
                return Ok(wide);
            }
        }
        Err(self.fail(Error::Number))
    }

    /// A number of 32 bits.
    pub(crate) fn varint32(&mut self) -> Result<u32, Fail> {
        let number = self.varint()?;
        u32::try_from(number).map_err(|_| self.fail(Error::Number))
    }

    /// A count of things that take at least `each` bytes, so no more than the bytes that are left.
    pub(crate) fn count(&mut self, each: usize) -> Result<usize, Fail> {
        let count = self.varint()?;
        if count > (self.left.len() / each) as u64 {
            return Err(Fail);
        }
        Ok(count as usize)
    }

    /// A byte string of at most `max` bytes.
    pub(crate) fn bytes(&mut self, what: Limited, max: usize) -> Result<&'a [u8], Fail> {
        let size = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        if size > max {
            return Err(self.fail(Error::TooLarge { what, size, max }));
        }
        self.take(size)
    }

    /// Text of at most `max` bytes.
    pub(crate) fn text(&mut self, what: Limited, max: usize) -> Result<&'a str, Fail> {
        let bytes = self.bytes(what, max)?;
        core::str::from_utf8(bytes).map_err(|_| self.malformed(Rule::Text))
    }
}
