//! Bodies that are not read to their end before the answer.
//!
//! Many refusals need no body, so the answer is ready before the body has arrived. hyper then closes
//! the connection after the answer, because the rest of the body stands before the next request. It
//! has decided on the headers before that, so the answer does not say so, and a client that keeps
//! its connections sends its next request in vain. So this module reads the part of the body that
//! is already here. If the body goes on, the answer has `connection: close` (RFC 9112, section 9.6).

use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header;
use futures::Stream;
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

/// Most bytes that are read after the answer is ready. More would be work for nothing.
const BYTES_MAX: usize = 64 << 10;

/// How often the connection may look for more of a body before the body counts as incomplete. The
/// connection reads its socket between two looks.
const LOOKS_MAX: usize = 4;

/// The rest of a request's body, once nobody reads it any more.
type Rest = Arc<Mutex<Option<BodyDataStream>>>;

/// The body of a request that is under way.
pub(super) struct Unread {
    rest: Rest,
    /// Whether the client waits for a word before it sends the body (`expect: 100-continue`). It
    /// may never send the body then.
    expects: bool,
}

impl Unread {
    /// Watches the body of a request. Returns `None` if the request has no body.
    pub(super) fn of(request: &mut Request) -> Option<Unread> {
        if request.body().is_end_stream() {
            return None;
        }
        let rest = Rest::default();
        let body = mem::take(request.body_mut()).into_data_stream();
        *request.body_mut() = Body::from_stream(Watched {
            body: Some(body),
            rest: rest.clone(),
        });
        let expects = request.headers().contains_key(header::EXPECT);
        Some(Unread { rest, expects })
    }

    /// Reads the part of the body that is here. Returns whether that is all of it.
    pub(super) async fn take_rest(self) -> bool {
        let rest = self
            .rest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(mut body) = rest else {
            return true;
        };
        if self.expects {
            return false;
        }
        let (mut bytes, mut looks) = (0, 0);
        poll_fn(|context| {
            loop {
                match Pin::new(&mut body).poll_next(context) {
                    Poll::Ready(None) => return Poll::Ready(true),
                    Poll::Ready(Some(Ok(came))) if bytes < BYTES_MAX => {
                        bytes += came.len();
                        looks = 0;
                    }
                    Poll::Pending if looks < LOOKS_MAX => {
                        looks += 1;
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Poll::Ready(Some(_)) | Poll::Pending => return Poll::Ready(false),
                }
            }
        })
        .await
    }
}

/// A body that leaves its rest behind.
struct Watched {
    body: Option<BodyDataStream>,
    rest: Rest,
}

impl Stream for Watched {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, axum::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_next(context),
            None => Poll::Ready(None),
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let rest = self.body.take().filter(|body| !body.is_end_stream());
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = rest;
    }
}
