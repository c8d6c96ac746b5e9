//! What a connection is to be sent, part of which may have to wait.

use std::io::{self, ErrorKind, Write};

/// Memory that is kept for the next answers when all is sent, in bytes.
const IDLE_BYTES: usize = 64 << 10;

/// Bytes on their way to a socket. Places in them are counted from the connection's first byte.
#[derive(Default)]
pub(super) struct Output {
    /// Being sent: `sending[..sent]` is gone.
    sending: Vec<u8>,
    sent: usize,
    /// What comes after it.
    filling: Vec<u8>,
    /// Where `sending` begins.
    begin: u64,
    /// Up to where bytes may be sent.
    free: u64,
}

impl Output {
    /// Where replies are appended.
    pub(super) fn filling(&mut self) -> &mut Vec<u8> {
        &mut self.filling
    }

    /// Where it ends by now.
    pub(super) fn end(&self) -> u64 {
        self.begin + (self.sending.len() + self.filling.len()) as u64
    }

    /// Bytes that are not sent yet.
    pub(super) fn unsent(&self) -> usize {
        self.sending.len() - self.sent + self.filling.len()
    }

    /// Lets all up to a place be sent.
    pub(super) fn free(&mut self, end: u64) {
        self.free = self.free.max(end);
    }

    /// Sends what may be sent, and what the socket itself still keeps; tells whether it may take more.
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

/// Whether all that a socket took is on its way.
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

    /// A socket that takes a few bytes at a time, and may keep some of them.
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
        // What it keeps is sent when it can be, with nothing behind it.
        socket.keeps = true;
        assert!(!out.send(&mut socket).unwrap());
        out.filling().extend_from_slice(b"held");
        assert!(!out.send(&mut socket).unwrap(), "of what is not free, too");
        socket.keeps = false;
        assert!(out.send(&mut socket).unwrap());
    }
}
