//! The questions of this node to peers about their counters, on their way to the network part.

use libp2p_identity::PeerId;
use std::fmt;
use tallymesh_core::wire::{AuditQuestion, AuditedPage};
use tallymesh_node_ground::identity::Peer;
use tokio::sync::mpsc;
use tokio::sync::oneshot;

/// Most questions of this node that wait to be sent. A caller with more questions waits.
const REQUESTS_MAX: usize = 16;

/// The reason why a peer sent no usable answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// It is not connected to this node.
    NotConnected,
    /// It refused, with this code.
    Refused(String),
    /// It closed the stream, took too long, does not support the protocol, or answered another
    /// question.
    Broken(String),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::NotConnected => f.write_str("it is not connected to this node"),
            Unanswered::Refused(code) => write!(f, "it refused with `{code}`"),
            Unanswered::Broken(problem) => f.write_str(problem),
        }
    }
}

/// The answer of a peer to a question.
pub type Reply = Result<AuditedPage, Unanswered>;

/// A question of this node.
pub struct Request {
    /// The peer that is asked.
    pub peer: PeerId,
    /// The question.
    pub question: AuditQuestion,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Reply>,
}

/// Sends audits to peers.
#[derive(Clone)]
pub struct Auditor(mpsc::Sender<Request>);

impl Auditor {
    /// Asks a connected peer. The answer arrives within the time limit of a request.
    ///
    /// # Errors
    /// As [`Unanswered`] lists them.
    pub async fn ask(&self, peer: Peer, question: AuditQuestion) -> Reply {
        let (reply, told) = oneshot::channel();
        let request = Request {
            peer: peer.0,
            question,
            reply,
        };
        let stopped = || Unanswered::Broken("this node stops".into());
        self.0.send(request).await.map_err(|_| stopped())?;
        told.await.map_err(|_| stopped())?
    }
}

/// The channel of questions: the end of the client, and the end of the network.
pub fn channel() -> (Auditor, mpsc::Receiver<Request>) {
    let (requests, inbox) = mpsc::channel(REQUESTS_MAX);
    (Auditor(requests), inbox)
}
