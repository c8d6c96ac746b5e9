//! Refuses requests that give the length of their body in two ways, by `content-length` and by
//! `transfer-encoding`.
//!
//! hyper uses the latter and drops the former, so no handler can detect it. A proxy in front of the
//! node may use the former. Then the proxy takes the end of one request for the beginning of
//! another (request smuggling; RFC 9112, section 6.1). So this listener reads the heads of requests
//! as they arrive. It overwrites the last byte of a head that has both. hyper then answers 400 and
//! closes the connection.

use axum::serve::Listener;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most bytes of a head, and most headers. hyper accepts fewer.
const HEAD_BYTES_MAX: usize = 512 << 10;
const HEADERS_MAX: usize = 128;

/// A listener whose connections refuse a body with two lengths.
pub(super) struct OneLength<L>(pub(super) L);

impl<L: Listener> Listener for OneLength<L> {
    type Io = Watched<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (io, address) = self.0.accept().await;
        let heads = Heads::default();
        (Watched { io, heads }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

/// A connection that checks the heads of its requests.
pub(super) struct Watched<T> {
    io: T,
    heads: Heads,
}

/// The position of a connection in its requests.
#[derive(Debug)]
enum At {
    /// In a head, with these bytes of it received.
    Head(Vec<u8>),
    /// In a body; so many bytes of it are left.
    Body(u64),
    /// In a chunked body.
    Chunked(Chunked),
    /// In other bytes than HTTP/1: hyper refuses them, or the connection is a socket by now.
    Other,
}

/// The position in a chunked body.
#[derive(Debug)]
enum Chunked {
    /// In the line with a chunk's size: the size so far, and whether its digits are over.
    Size(u64, bool),
    /// In a chunk and the line end behind it; so many bytes of both are left.
    Data(u64),
    /// In the lines behind the last chunk: how long the present one is.
    Trailer(u64),
}

#[derive(Debug)]
struct Heads(At);

impl Default for Heads {
    fn default() -> Heads {
        Heads(At::Head(Vec::new()))
    }
}

impl Heads {
    /// Reads received bytes, and overwrites the last byte of each head with two lengths.
    fn look(&mut self, mut came: &mut [u8]) {
        while !came.is_empty() {
            let taken = match &mut self.0 {
                At::Other => return,
                At::Head(_) => self.head(came),
                At::Body(left) => {
                    let taken = (*left).min(came.len() as u64);
                    *left -= taken;
                    if *left == 0 {
                        *self = Heads::default();
                    }
                    taken as usize
                }
                At::Chunked(at) => match at.pass(came) {
                    Some((taken, over)) => {
                        if over {
                            *self = Heads::default();
                        }
                        taken
                    }
                    None => {
                        self.0 = At::Other;
                        return;
                    }
                },
            };
            came = &mut came[taken..];
        }
    }

    /// Reads a piece of a head. Returns how many of its bytes belong to the head.
    fn head(&mut self, came: &mut [u8]) -> usize {
        let At::Head(before) = &mut self.0 else {
            return came.len();
        };
        let known = before.len();
        // No method begins so, and each message on a socket does.
        let begins = |byte: &u8| byte.is_ascii_graphic() || matches!(byte, b'\r' | b'\n');
        if known == 0 && !came.first().is_some_and(begins) {
            self.0 = At::Other;
            return came.len();
        }
        before.extend_from_slice(came);
        // Most heads arrive at once. A head that arrives in small pieces is parsed when it is
        // complete.
        let since = &before[known.saturating_sub(3)..];
        let ends = |end: &[u8]| since.windows(end.len()).any(|it| it == end);
        if !ends(b"\n\r\n") && !ends(b"\n\n") && before.len() <= HEAD_BYTES_MAX {
            return came.len();
        }
        let mut places = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut places);
        let (next, taken) = match request.parse(before) {
            Ok(httparse::Status::Partial) if before.len() <= HEAD_BYTES_MAX => return came.len(),
            Ok(httparse::Status::Complete(end)) => {
                (body(request.headers), end.saturating_sub(known))
            }
            _ => (Some(At::Other), came.len()),
        };
        match next {
            Some(next) => self.0 = next,
            None => {
                if let Some(last) = taken.checked_sub(1) {
                    came[last] = 0;
                }
                self.0 = At::Other;
            }
        }
        taken
    }
}

/// The kind of body after a head with these headers; `None` if they give two lengths.
fn body(headers: &[httparse::Header<'_>]) -> Option<At> {
    let of = |name: &str| {
        let mut same = headers
            .iter()
            .filter(|it| it.name.eq_ignore_ascii_case(name));
        same.next().map(|it| it.value)
    };
    match (of("content-length"), of("transfer-encoding")) {
        (Some(_), Some(_)) => None,
        (None, None) => Some(At::Head(Vec::new())),
        (None, Some(_)) => Some(At::Chunked(Chunked::Size(0, false))),
        (Some(length), None) => {
            let length = std::str::from_utf8(length).ok();
            Some(match length.and_then(|it| it.trim().parse().ok()) {
                Some(0) => At::Head(Vec::new()),
                Some(length) => At::Body(length),
                None => At::Other,
            })
        }
    }
}

impl Chunked {
    /// Passes over a piece. Returns how many of its bytes belong to the body, and whether the body is over.
    /// `None` if it is no chunked body.
    fn pass(&mut self, came: &[u8]) -> Option<(usize, bool)> {
        let mut at = 0;
        while let Some(byte) = came.get(at) {
            match self {
                Chunked::Data(left) => {
                    let taken = (*left).min((came.len() - at) as u64);
                    *left -= taken;
                    at += taken as usize;
                    if *left == 0 {
                        *self = Chunked::Size(0, false);
                    }
                    continue;
                }
                Chunked::Size(size, over) => match byte {
                    b'\n' if *size == 0 => *self = Chunked::Trailer(0),
                    // The line end behind the chunk has two bytes.
                    b'\n' => *self = Chunked::Data(size.checked_add(2)?),
                    byte if !*over && byte.is_ascii_hexdigit() => {
                        let digit = char::from(*byte).to_digit(16)?;
                        *size = size.checked_mul(16)?.checked_add(digit.into())?;
                    }
                    _ => *over = true,
                },
                Chunked::Trailer(length) => match byte {
                    b'\n' if *length == 0 => return Some((at + 1, true)),
                    b'\n' => *length = 0,
                    b'\r' => {}
                    _ => *length += 1,
                },
            }
            at += 1;
        }
        Some((at, false))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut this.io).poll_read(context, buffer));
        this.heads.look(&mut buffer.filled_mut()[before..]);
        Poll::Ready(read)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &str =
        "POST /a HTTP/1.1\r\ncontent-length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
    const PLAIN: &str = "GET /a HTTP/1.1\r\nhost: localhost\r\n\r\n";
    const SIZED: &str = "POST /a HTTP/1.1\r\ncontent-length: 80\r\n\r\n";
    const CHUNKED: &str = "POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";

    /// The rest of requests that come in pieces of so many bytes.
    fn looked(text: &str, piece: usize) -> Vec<u8> {
        let mut heads = Heads::default();
        let mut bytes = text.as_bytes().to_vec();
        bytes.chunks_mut(piece).for_each(|it| heads.look(it));
        bytes
    }

    /// It kept up to 512 KiB of what came on a socket.
    #[test]
    fn nothing_is_kept_of_what_comes_on_a_socket() {
        let head = b"GET /sync HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        for first in [0x82, 0x02, 0x89, 0x88] {
            let mut heads = Heads::default();
            heads.look(&mut head.to_vec());
            assert!(matches!(&heads.0, At::Head(bytes) if bytes.is_empty()));
            heads.look(&mut [first, 0x83, 1, 2, 3, 4, b'G', b'E', b'T']);
            assert!(matches!(heads.0, At::Other), "{first}");
        }
    }

    #[test]
    fn a_head_with_two_lengths_is_spoilt_wherever_it_comes() {
        let body = BOTH[..80.min(BOTH.len())].to_owned() + &"x".repeat(80 - BOTH.len().min(80));
        let chunks = format!("{:x};a=b\r\n{BOTH}\r\n0\r\nt: v\r\n\r\n", BOTH.len());
        for before in [
            String::new(),
            PLAIN.to_owned(),
            format!("{SIZED}{body}"),
            format!("{CHUNKED}{chunks}"),
            format!("{CHUNKED}{chunks}{SIZED}{body}{PLAIN}"),
        ] {
            for piece in [1, 2, 7, 64, 4096] {
                let text = format!("{before}{BOTH}rest");
                let looked = looked(&text, piece);
                let end = text.len() - "rest".len() - 1;
                assert_eq!(looked[end], 0, "in pieces of {piece}: {text}");
                let mut changed = looked.iter().zip(text.as_bytes());
                let changed = changed.by_ref().filter(|(one, other)| one != other);
                assert_eq!(changed.count(), 1, "in pieces of {piece}: {text}");
                // Other bytes stay unchanged, even bodies that look like a head.
                assert_eq!(super::tests::looked(&before, piece), before.as_bytes());
            }
        }
    }

    #[test]
    fn what_is_no_request_is_left_as_it_is() {
        for text in [
            format!("nonsense\r\n\r\n{BOTH}"),
            format!("{CHUNKED}fffffffffffffffff\r\n{BOTH}"),
            format!("POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n{BOTH}"),
        ] {
            assert_eq!(looked(&text, 5), text.as_bytes(), "{text}");
        }
    }
}
