//! Joining: a node shows a ticket to another, which gives its holder rights. The same protocol
//! reports removals. A member informs a node that was removed while it was away, because as a
//! stranger that node receives nothing else.
//!
//! It is one request of the protocol `/tallymesh/join/1` with the ticket in JSON, and a response in
//! JSON (docs/protocol.md). A peer that gained rights has its connections closed once it has the
//! answer, and then connects again.

use super::codec::read_up_to;
use futures::prelude::*;
use libp2p::{StreamProtocol, request_response};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use tallymesh_node_engine::access::{TICKET_BYTES_MAX, TicketError};

/// The protocol's name and version.
pub(super) const PROTOCOL: StreamProtocol = StreamProtocol::new("/tallymesh/join/1");

/// Most bytes of a question: a ticket, and the JSON around it.
const QUESTION_BYTES_MAX: usize = TICKET_BYTES_MAX + 64;

/// Most spaces in one report of removals.
pub(super) const TOLD_MAX: usize = 32;

/// Most spaces that an answer names.
pub(super) const NAMED_MAX: usize = 64;

/// Most bytes of an answer, most of which are names of spaces.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// A ticket is shown.
    Ticket(String),
    /// The receiving node is no longer a member of these spaces.
    Removed(Vec<Removed>),
}

impl Question {
    /// Its approximate number of bytes.
    pub(super) fn size(&self) -> usize {
        match self {
            Question::Ticket(ticket) => ticket.len(),
            Question::Removed(rows) => rows.iter().map(|row| row.space.len() + 32).sum(),
        }
    }
}

/// The receiving node was removed from the members of a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Removed {
    /// The space.
    pub(super) space: String,
    /// The era of a configuration without it.
    pub(super) era: u64,
    /// The number of that configuration.
    pub(super) number: u64,
    /// When it was removed, in seconds since 1970.
    pub(super) at: u64,
}

/// The JSON form of a question. A node that supports only tickets reads a removal as an invalid
/// ticket.
#[derive(Serialize, Deserialize)]
struct Written {
    ticket: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    removed: Vec<Removed>,
}

impl From<Question> for Written {
    fn from(question: Question) -> Written {
        let (ticket, removed) = match question {
            Question::Ticket(ticket) => (ticket, Vec::new()),
            Question::Removed(removed) => (String::new(), removed),
        };
        Written { ticket, removed }
    }
}

impl From<Written> for Question {
    fn from(it: Written) -> Question {
        match it.ticket.is_empty() && !it.removed.is_empty() {
            true => Question::Removed(it.removed),
            false => Question::Ticket(it.ticket),
        }
    }
}

/// The result of a question. Readers ignore unknown fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Answer {
    /// The holder of the ticket has rights now.
    Joined {
        /// Its role.
        role: String,
        /// The spaces of the ticket that are open here, or the first ones of many.
        spaces: Vec<String>,
    },
    /// The removal was received.
    Noted {
        /// Whether it changed anything.
        noted: bool,
    },
    /// The ticket was refused.
    Refused {
        /// A stable name of the kind of refusal.
        code: String,
        /// Advice for the holder.
        detail: String,
    },
}

impl Answer {
    pub(super) fn refused(code: &str, detail: &dyn fmt::Display) -> Answer {
        Answer::Refused {
            code: code.to_owned(),
            detail: detail.to_string(),
        }
    }
}

/// Whether a ticket refused with this code may be accepted a little later.
pub(super) fn may_pass(code: &str) -> bool {
    [Worthless::Issuer, Worthless::Room]
        .iter()
        .any(|it| it.code() == code)
}

impl From<TicketError> for Answer {
    fn from(error: TicketError) -> Answer {
        Answer::refused(error.code(), &error)
    }
}

/// The reason why a ticket gives no rights here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worthless {
    /// It is for another holder.
    Holder,
    /// None of its spaces is open here.
    Space,
    /// It was revoked in all of its spaces.
    Revoked,
    /// Its issuer is trusted in none of its spaces.
    Issuer,
    /// Its holder was removed from the members of its spaces after it was signed.
    Removed,
    /// Too many peers have shown tickets, so that there is no room for this one.
    Room,
}

impl Worthless {
    pub(super) fn code(self) -> &'static str {
        match self {
            Worthless::Holder => "ticket_holder",
            Worthless::Space => "space_not_open",
            Worthless::Revoked => "ticket_revoked",
            Worthless::Issuer => "ticket_issuer",
            Worthless::Removed => "ticket_removed",
            Worthless::Room => "busy",
        }
    }
}

impl fmt::Display for Worthless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Worthless::Holder => "the ticket is for another node; ask for one of your own",
            Worthless::Space => {
                "none of the ticket's spaces is open at this node; show it to another member"
            }
            Worthless::Revoked => "the ticket was revoked; ask a member for another",
            Worthless::Issuer => {
                "who signed the ticket has no say in its spaces at this node; ask a member for another"
            }
            Worthless::Removed => {
                "this node was removed from the members after the ticket was signed; ask a member for a new \
                 ticket"
            }
            Worthless::Room => "too many nodes have shown tickets here; try again later",
        })
    }
}

/// Tickets and removals as requests, and their results as responses.
#[derive(Clone, Default)]
pub(super) struct JoinCodec;

impl request_response::Codec for JoinCodec {
    type Protocol = StreamProtocol;
    type Request = Question;
    type Response = Answer;

    async fn read_request<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<Question>
    where
        T: AsyncRead + Unpin + Send,
    {
        let bytes = read_up_to(io, QUESTION_BYTES_MAX).await?;
        let written: Written = serde_json::from_slice(&bytes)?;
        Ok(written.into())
    }

    async fn read_response<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<Answer>
    where
        T: AsyncRead + Unpin + Send,
    {
        let bytes = read_up_to(io, ANSWER_BYTES_MAX).await?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    async fn write_request<T>(
        &mut self,
        _: &StreamProtocol,
        io: &mut T,
        question: Question,
    ) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        io.write_all(&serde_json::to_vec(&Written::from(question))?)
            .await?;
        io.close().await
    }

    async fn write_response<T>(
        &mut self,
        _: &StreamProtocol,
        io: &mut T,
        answer: Answer,
    ) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        io.write_all(&serde_json::to_vec(&answer)?).await?;
        io.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart_by_what_they_say() {
        let joined = Answer::Joined {
            role: "member".into(),
            spaces: vec!["default".into()],
        };
        let refused = Answer::refused("ticket_revoked", &Worthless::Revoked);
        let noted = Answer::Noted { noted: true };
        for answer in [joined, refused, noted] {
            let text = serde_json::to_string(&answer).expect("JSON");
            let read: Answer = serde_json::from_str(&text).expect(&text);
            assert_eq!(read, answer);
        }
        assert!(serde_json::from_str::<Answer>("{}").is_err());
    }

    #[test]
    fn tickets_are_written_as_ever_and_the_longest_removal_fits() {
        let ticket = Question::Ticket("eyJ0".into());
        let text = serde_json::to_string(&Written::from(ticket.clone())).expect("JSON");
        assert_eq!(text, r#"{"ticket":"eyJ0"}"#);
        let removed = Removed {
            space: "s".repeat(64),
            era: u64::MAX,
            number: u64::MAX,
            at: u64::MAX,
        };
        let removed = Question::Removed(vec![removed; TOLD_MAX]);
        for question in [ticket, removed] {
            let text = serde_json::to_string(&Written::from(question.clone())).expect("JSON");
            assert!(text.len() <= QUESTION_BYTES_MAX, "{}", text.len());
            let read: Written = serde_json::from_str(&text).expect(&text);
            assert_eq!(Question::from(read), question);
        }
    }
}
