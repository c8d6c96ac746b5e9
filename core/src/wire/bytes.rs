//! Reading and writing of numbers and byte strings.

use crate::error::Error;
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

/// What is left to read.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        let (first, rest) = self.0.split_first().ok_or(Error::Truncated)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(Error::Truncated)?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (head, rest) = self.0.split_first_chunk().ok_or(Error::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    /// A number in its shortest LEB128 form.
    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, Error> {
        let first = self.u8()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let byte = self.u8()?;
            if shift == 63 && byte > 1 {
                return Err(Error::Number);
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                // A last byte of 0 adds nothing: the number has a shorter form.
                return if byte == 0 {
                    Err(Error::Number)
                } else {
                    Ok(value)
                };
            }
            shift += 7;
        }
    }

    /// A count of things that take at least `each` bytes, so no more than the bytes that are left.
    pub(crate) fn count(&mut self, each: usize) -> Result<usize, Error> {
        let count = self.varint()?;
        if count > (self.0.len() / each) as u64 {
            return Err(Error::Truncated);
        }
        Ok(count as usize)
    }

    /// A byte string of at most `max` bytes.
    pub(crate) fn bytes(&mut self, what: &'static str, max: usize) -> Result<&'a [u8], Error> {
        let size = self.varint()?;
        let max = max as u64;
        if size > max {
            return Err(Error::TooLarge { what, size, max });
        }
        self.take(size as usize)
    }

    /// Text of at most `max` bytes.
    pub(crate) fn text(&mut self, what: &'static str, max: usize) -> Result<&'a str, Error> {
        let rule = "text is UTF-8";
        core::str::from_utf8(self.bytes(what, max)?).map_err(|_| Error::Malformed { rule })
    }

    pub(crate) fn end(&self) -> Result<(), Error> {
        match self.0.len() {
            0 => Ok(()),
            bytes => Err(Error::TrailingBytes { bytes }),
        }
    }
}
