//! The check of libp2p's WebSocket listener. Before the handshake, the request that opens a socket
//! is judged by the rule for [browsers](tallymesh_node_engine::browser).
//!
//! The library does not pass that request on. So it is read here, between TCP and WebSocket, and
//! the library then reads the same bytes again. If the request came from a browser, the connection
//! is recorded as a browser's while it lasts.

use super::Admit;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use futures::prelude::*;
use libp2p::Multiaddr;
use libp2p::core::ConnectedPoint;
use libp2p::multiaddr::Protocol;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tallymesh_node_engine::browser::{Comer, Pages};
use tokio::time::timeout;

/// Longest request that opens a socket, in bytes.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// Most headers of it.
const HEADERS_MAX: usize = 64;

/// How long the request may take to arrive. A silent client occupies one of the few places for
/// connections that are being set up.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

const REFUSAL: &[u8] = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// The rule, and which of the connected peers are browsers. Clones share it.
#[derive(Clone)]
pub(super) struct BrowserCheck(Arc<Shared>);

struct Shared {
    pages: Pages,
    admit: Admit,
    /// The addresses of browsers, with the number of connections of each.
    browsers: Mutex<HashMap<SocketAddr, usize>>,
}

impl BrowserCheck {
    pub(super) fn new(pages: Pages, admit: Admit) -> BrowserCheck {
        let browsers = Mutex::default();
        BrowserCheck(Arc::new(Shared {
            pages,
            admit,
            browsers,
        }))
    }

    /// Whether a connection was opened by a browser.
    pub(super) fn is_browser(&self, endpoint: &ConnectedPoint) -> bool {
        match endpoint {
            ConnectedPoint::Listener { send_back_addr, .. } => self.came_by_browser(send_back_addr),
            ConnectedPoint::Dialer { .. } => false,
        }
    }

    /// Whether the connection that came from this address was opened by a browser.
    pub(super) fn came_by_browser(&self, from: &Multiaddr) -> bool {
        let browsers = self.0.browsers.lock();
        let browsers = browsers.unwrap_or_else(PoisonError::into_inner);
        socket(from).is_some_and(|address| browsers.contains_key(&address))
    }

    /// Judges the request at the beginning of a connection, if the connection is incoming.
    pub(super) async fn look<S>(self, stream: S, endpoint: ConnectedPoint) -> io::Result<Looked<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut looked = Looked {
            read: Vec::new(),
            taken: 0,
            stream,
            browser: None,
        };
        let ConnectedPoint::Listener { send_back_addr, .. } = endpoint else {
            return Ok(looked);
        };
        let judged = timeout(REQUEST_TIMEOUT, looked.request()).await;
        let judged = judged.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let judged = judged.and_then(|(target, headers)| {
            (self.0.admit)(&self.0.pages, &headers, target.authority()).ok()
        });
        match judged {
            Some(Comer::Program) => Ok(looked),
            Some(Comer::OwnPage | Comer::Browser) => {
                let address = socket(&send_back_addr);
                looked.browser = address.map(|address| Browser::new(self, address));
                Ok(looked)
            }
            None => {
                // The client may already be gone.
                let _ = looked.stream.write_all(REFUSAL).await;
                let _ = looked.stream.close().await;
                let problem = "a page that may not talk to this node";
                Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
            }
        }
    }
}

/// The socket address in `/ip4/ADDRESS/tcp/PORT`, with or without more parts.
fn socket(address: &Multiaddr) -> Option<SocketAddr> {
    let mut parts = address.iter();
    let ip = match parts.next()? {
        Protocol::Ip4(ip) => IpAddr::V4(ip),
        Protocol::Ip6(ip) => IpAddr::V6(ip),
        _ => return None,
    };
    match parts.next()? {
        Protocol::Tcp(port) => Some(SocketAddr::new(ip, port)),
        _ => None,
    }
}

/// A connection of a browser, recorded while it lasts.
struct Browser {
    browser_check: BrowserCheck,
    address: SocketAddr,
}

impl Browser {
    fn new(browser_check: BrowserCheck, address: SocketAddr) -> Browser {
        let browsers = browser_check.0.browsers.lock();
        let mut browsers = browsers.unwrap_or_else(PoisonError::into_inner);
        *browsers.entry(address).or_default() += 1;
        drop(browsers);
        Browser {
            browser_check,
            address,
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let browsers = self.browser_check.0.browsers.lock();
        let mut browsers = browsers.unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = browsers.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                browsers.remove(&self.address);
            }
        }
    }
}

/// A stream whose beginning was already read.
pub(super) struct Looked<S> {
    read: Vec<u8>,
    /// The number of those bytes that were read again.
    taken: usize,
    stream: S,
    browser: Option<Browser>,
}

impl<S: AsyncRead + Unpin> Looked<S> {
    /// Reads the head of a request: its target, and its headers. Returns `None` if it is no
    /// request.
    async fn request(&mut self) -> io::Result<Option<(Uri, HeaderMap)>> {
        let mut piece = [0; 1024];
        loop {
            let count = self.stream.read(&mut piece).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.read.extend_from_slice(&piece[..count]);
            let mut places = [httparse::EMPTY_HEADER; HEADERS_MAX];
            let mut request = httparse::Request::new(&mut places);
            match request.parse(&self.read) {
                Ok(httparse::Status::Complete(_)) => {
                    let target = request.path.and_then(|it| it.parse().ok());
                    return Ok(target.zip(headers(request.headers)));
                }
                Ok(httparse::Status::Partial) if self.read.len() < REQUEST_BYTES_MAX => {}
                _ => return Ok(None),
            }
        }
    }
}

fn headers(parsed: &[httparse::Header<'_>]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for it in parsed {
        let name = HeaderName::from_bytes(it.name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_bytes(it.value).ok()?);
    }
    Some(headers)
}

impl<S: AsyncRead + Unpin> AsyncRead for Looked<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let left = &self.read[self.taken..];
        if left.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, into);
        }
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        self.taken += count;
        if self.taken == self.read.len() {
            (self.read, self.taken) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(count))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Looked<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(context)
    }
}
