//! Audits between nodes: questions to peers about their counters, and answers to peers.
//!
//! A question is one request of the protocol `/tallymesh/audit/1`, and a page of counters is its
//! response. A peer that may sync a space may have all of it. So a peer that has sent its hello in
//! the space receives answers, and no other peer does.
//!
//! Each peer has one open question at a time, and this node works on one question at a time. After
//! each, it leaves at least as much time for other work as the answer took.

use super::codec::read_up_to;
use futures::prelude::*;
use libp2p::request_response::{self, InboundRequestId, OutboundRequestId, ResponseChannel};
use libp2p::{PeerId, StreamProtocol};
use std::collections::HashMap;
use std::io;
use std::time::Instant;
use tallymesh_core::bounds::{AUDIT_COUNTERS_MAX, AUDIT_QUESTION_BYTES_MAX, FRAME_BYTES_MAX};
use tallymesh_core::wire::{AuditAnswer, AuditQuestion, AuditedPage};
use tallymesh_node_engine::driver::Handle;
use tallymesh_node_engine::network::{Reply, Request, Unanswered};
use tallymesh_node_ground::model::{AuditPage, Query};
use tokio::sync::mpsc;

/// The protocol's name and version.
pub(super) const PROTOCOL: StreamProtocol = StreamProtocol::new("/tallymesh/audit/1");

/// Most questions of peers that wait for work. Further ones are refused as busy.
const TASKS_MAX: usize = 256;

/// The code with which a second question is refused while the first is open.
const BUSY: &str = "busy";

/// A question as a request, and an answer as its response.
#[derive(Clone, Default)]
pub(super) struct AuditCodec;

impl request_response::Codec for AuditCodec {
    type Protocol = StreamProtocol;
    type Request = Vec<u8>;
    type Response = Vec<u8>;

    async fn read_request<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<Vec<u8>>
    where
        T: AsyncRead + Unpin + Send,
    {
        read_up_to(io, AUDIT_QUESTION_BYTES_MAX).await
    }

    async fn read_response<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<Vec<u8>>
    where
        T: AsyncRead + Unpin + Send,
    {
        read_up_to(io, FRAME_BYTES_MAX).await
    }

    async fn write_request<T>(
        &mut self,
        _: &StreamProtocol,
        io: &mut T,
        question: Vec<u8>,
    ) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        io.write_all(&question).await?;
        io.close().await
    }

    async fn write_response<T>(
        &mut self,
        _: &StreamProtocol,
        io: &mut T,
        answer: Vec<u8>,
    ) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        io.write_all(&answer).await?;
        io.close().await
    }
}

/// A question of a peer that waits for work.
struct Task {
    peer: PeerId,
    question: AuditQuestion,
    channel: ResponseChannel<Vec<u8>>,
}

/// An answer that is ready to be sent.
pub(super) struct Done {
    pub(super) peer: PeerId,
    pub(super) answer: Vec<u8>,
    pub(super) channel: ResponseChannel<Vec<u8>>,
}

/// The open questions in both directions.
pub(super) struct Audits {
    requests: mpsc::Receiver<Request>,
    asked: HashMap<OutboundRequestId, Request>,
    /// The one open question of each peer.
    open: HashMap<PeerId, InboundRequestId>,
    tasks: mpsc::Sender<Task>,
    done: mpsc::Receiver<Done>,
}

/// The next task of the network's loop.
pub(super) enum Next {
    /// Send this question.
    Ask(Request),
    /// Send this answer.
    Answer(Done),
}

impl Audits {
    /// Starts the task that answers peers. It ends along with this value.
    pub(super) fn start(handle: Handle, requests: mpsc::Receiver<Request>) -> Audits {
        let (tasks, todo) = mpsc::channel(TASKS_MAX);
        let (answers, done) = mpsc::channel(1);
        tokio::spawn(work(handle, todo, answers));
        Audits {
            requests,
            asked: HashMap::new(),
            open: HashMap::new(),
            tasks,
            done,
        }
    }

    /// Waits for something to send.
    pub(super) async fn next(&mut self) -> Next {
        tokio::select! {
            Some(request) = self.requests.recv() => Next::Ask(request),
            Some(done) = self.done.recv() => Next::Answer(done),
            else => std::future::pending().await,
        }
    }

    /// Sends a question with `send`, which returns `None` if the peer is not connected.
    pub(super) fn ask(
        &mut self,
        request: Request,
        send: impl FnOnce(&PeerId, Vec<u8>) -> Option<OutboundRequestId>,
    ) {
        match send(&request.peer, request.question.encode()) {
            Some(id) => {
                self.asked.insert(id, request);
            }
            None => reply(request, Err(Unanswered::NotConnected)),
        }
    }

    /// Records that an answer arrived.
    pub(super) fn answered(&mut self, id: OutboundRequestId, answer: &[u8]) {
        if let Some(request) = self.asked.remove(&id) {
            let told = read(&request.question, answer);
            reply(request, told);
        }
    }

    /// Records that no answer will arrive.
    pub(super) fn failed(&mut self, id: OutboundRequestId, problem: String) {
        if let Some(request) = self.asked.remove(&id) {
            reply(request, Err(Unanswered::Broken(problem)));
        }
    }

    /// Handles a question of a peer. `may` judges the question, and returns a code to refuse it.
    /// Returns the refusal, which is sent at once, or `None`.
    pub(super) fn question(
        &mut self,
        peer: PeerId,
        id: InboundRequestId,
        bytes: &[u8],
        channel: ResponseChannel<Vec<u8>>,
        may: impl FnOnce(&AuditQuestion) -> Result<(), &'static str>,
    ) -> Option<Done> {
        let judged = AuditQuestion::decode(bytes).map_err(|error| error.code());
        let judged = judged.and_then(|question| may(&question).map(|()| question));
        let judged = judged.and_then(|question| match self.open.contains_key(&peer) {
            true => Err(BUSY),
            false => Ok(question),
        });
        let (code, channel) = match judged {
            Err(code) => (code, channel),
            Ok(question) => match self.tasks.try_send(Task {
                peer,
                question,
                channel,
            }) {
                Ok(()) => {
                    self.open.insert(peer, id);
                    return None;
                }
                Err(full) => (BUSY, full.into_inner().channel),
            },
        };
        let answer = AuditAnswer::Refused(code.to_owned()).encode();
        Some(Done {
            peer,
            answer,
            channel,
        })
    }

    /// Records that a peer's question is no longer open: it was answered, or the peer is gone.
    pub(super) fn closed(&mut self, peer: &PeerId, id: InboundRequestId) {
        if self.open.get(peer) == Some(&id) {
            self.open.remove(peer);
        }
    }
}

fn reply(request: Request, told: Reply) {
    // The caller may have gone away meanwhile.
    let _ = request.reply.send(told);
}

fn read(question: &AuditQuestion, answer: &[u8]) -> Reply {
    match AuditAnswer::decode(answer) {
        Ok(AuditAnswer::Page(page)) if page.answers(question) => Ok(page),
        Ok(AuditAnswer::Page(_)) => Err(Unanswered::Broken(
            "it answered with counters that were not asked for".into(),
        )),
        Ok(AuditAnswer::Refused(code)) => Err(Unanswered::Refused(code)),
        Err(error) => Err(Unanswered::Broken(format!(
            "its answer can't be read (`{}`): {error}",
            error.code()
        ))),
    }
}

/// Answers peers, one question after another.
async fn work(handle: Handle, mut todo: mpsc::Receiver<Task>, answers: mpsc::Sender<Done>) {
    while let Some(task) = todo.recv().await {
        let Task {
            peer,
            question,
            channel,
        } = task;
        let begun = Instant::now();
        let answer = match shown(&handle, question).await {
            Ok(page) => AuditAnswer::Page(page),
            Err(code) => AuditAnswer::Refused(code.to_owned()),
        };
        let answer = answer.encode();
        let done = Done {
            peer,
            answer,
            channel,
        };
        if answers.send(done).await.is_err() {
            return; // The network ended.
        }
        // The driver has at least as much time for other work as this answer took.
        tokio::time::sleep(begun.elapsed()).await;
    }
}

/// The page that answers a question, or the code of the refusal.
async fn shown(handle: &Handle, question: AuditQuestion) -> Result<AuditedPage, &'static str> {
    let space = handle.space(question.space.as_str());
    let query = Query {
        prefix: question.prefix,
        after: Some(question.after).filter(|after| !after.is_empty()),
        limit: AUDIT_COUNTERS_MAX,
    };
    let page = match space {
        Ok(space) => handle.audit(space, query).await,
        Err(refusal) => Err(refusal),
    };
    let AuditPage {
        digest,
        counters,
        next,
    } = page.map_err(|refusal| refusal.code())?;
    let counters = counters.into_iter().map(|it| (it.key, it.shards));
    Ok(AuditedPage {
        digest,
        counters: counters.collect(),
        more: next.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallymesh_core::Space;

    #[test]
    fn only_what_was_asked_for_is_taken() {
        let question = AuditQuestion {
            space: Space::default(),
            prefix: "a".into(),
            after: "ab".into(),
        };
        let page = |keys: &[&str], more| AuditedPage {
            digest: [7; 16],
            counters: keys.iter().map(|key| ((*key).to_owned(), vec![])).collect(),
            more,
        };
        let told = |page| read(&question, &AuditAnswer::Page(page).encode());
        let fits = page(&["abc", "ac"], true);
        assert_eq!(told(fits.clone()), Ok(fits));
        for keys in [["ab", "ac"], ["aa", "ac"], ["ac", "b"]] {
            let told = told(page(&keys, false));
            assert!(matches!(told, Err(Unanswered::Broken(_))), "{told:?}");
        }
        let refused = AuditAnswer::Refused(BUSY.into()).encode();
        let busy = Err(Unanswered::Refused(BUSY.into()));
        assert_eq!(read(&question, &refused), busy);
        // An answer that announces more must contain something. Otherwise the asking node would
        // never end.
        for bytes in [&[9][..], b"", &AuditAnswer::Page(page(&[], true)).encode()] {
            let told = read(&question, bytes);
            assert!(matches!(told, Err(Unanswered::Broken(_))), "{told:?}");
        }
    }
}
