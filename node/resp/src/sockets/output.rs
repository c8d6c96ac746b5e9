//! The output of a connection; some of it may have to wait for a commit.

use std::io::{self, ErrorKind, Write};

/// Memory kept for the next answers after all output is sent, in bytes.
const IDLE_BYTES: usize = 64 << 10;

/// Bytes on their way to a socket. Places in them are counted from the connection's first byte.
#[derive(Default)]
pub(super) struct Output {
    /// The part that is being sent: `sending[..sent]` has been written to the socket.
    sending: Vec<u8>,
    sent: usize,
    /// The part after `sending`.
    filling: Vec<u8>,
    /// The place where `sending` begins.
    begin: u64,
    /// The place up to which bytes may be sent.
    free: u64,
}

impl Output {
    /// The buffer to which replies are appended.
    pub(super) fn filling(&mut self) -> &mut Vec<u8> {
        &mut self.filling
    }

    /// The place where the output ends now.
    pub(super) fn end(&self) -> u64 {
        self.begin + (self.sending.len() + self.filling.len()) as u64
    }

    /// Bytes that are not sent yet.
    pub(super) fn unsent(&self) -> usize {
        self.sending.len() - self.sent + self.filling.len()
    }

    /// Allows to send all bytes up to a place.
    pub(super) fn free(&mut self, end: u64) {
        self.free = self.free.max(end);
    }

    /// Sends the bytes that may be sent, and those that the socket itself still buffers. Returns
    /// whether the socket may accept more.
    pub(super) fn send(&mut self, socket: &mut impl Write) -> io::Result<bool> {
        loop {
            if self.sent == self.sending.len() {
                self.begin += self.sent as u64;
                self.sent = 0;
                self.sending.clear();
                std::mem::swap(&mut self.sending, &mut self.filling);
                if self.sending.is_empty() {
                    self.sending.shrink_to(IDLE_BYTES);
                    self.filling.shrink_to(IDLE_BYTES);
                    return flush(socket);
                }
            }
            let free = usize::try_from(self.free.saturating_sub(self.begin)).unwrap_or(usize::MAX);
            let free = free.min(self.sending.len());
            if free <= self.sent {
                return flush(socket);
            }
            match socket.write(&self.sending[self.sent..free]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether the socket has passed on all bytes that it accepted.
#[inline]
fn flush(socket: &mut impl Write) -> io::Result<bool> {
    match socket.flush() {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket that accepts a few bytes at a time, and may buffer some of them.
    struct Slow {
        taken: Vec<u8>,
        room: usize,
        keeps: bool,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room).min(3);
            if count == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.room -= count;
            self.taken.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            match self.keeps {
                true => Err(ErrorKind::WouldBlock.into()),
                false => Ok(()),
            }
        }
    }

    #[test]
    fn bytes_leave_in_order_and_none_before_it_is_free() {
        let mut socket = Slow {
            taken: Vec::new(),
            room: usize::MAX,
            keeps: false,
        };
        let mut out = Output::default();
        out.filling().extend_from_slice(b"one ");
        let first = out.end();
        out.filling().extend_from_slice(b"two ");
        let second = out.end();
        assert!(out.send(&mut socket).unwrap());
        assert_eq!(socket.taken, b"");
        out.free(first);
        assert!(out.send(&mut socket).unwrap());
        assert_eq!(socket.taken, b"one ");
        out.filling().extend_from_slice(b"three");
        out.free(second);
        socket.room = 2;
        assert!(!out.send(&mut socket).unwrap(), "the socket is full");
        assert_eq!((socket.taken.as_slice(), out.unsent()), (&b"one tw"[..], 7));
        socket.room = usize::MAX;
        out.free(out.end());
        assert!(out.send(&mut socket).unwrap());
        assert_eq!(
            (socket.taken.as_slice(), out.unsent()),
            (&b"one two three"[..], 0)
        );
        assert_eq!(out.end(), 13);
        // The socket sends its buffered bytes once it can, with nothing behind them.
        socket.keeps = true;
        assert!(!out.send(&mut socket).unwrap());
        out.filling().extend_from_slice(b"held");
        assert!(!out.send(&mut socket).unwrap(), "of what is not free, too");
        socket.keeps = false;
        assert!(out.send(&mut socket).unwrap());
    }
}
