//! Maelstrom's messages, one JSON object a line, and the errors that a node returns.

use serde_json::{Value, json};
use std::fmt;
use tallymesh_core::Error;

/// Most characters of a foreign value in an error.
const SHOWN_MAX: usize = 80;

/// The reason why a node did not execute a request. The request changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A line is not a message.
    Line {
        /// The reason.
        why: String,
    },
    /// There is no such request.
    NotSupported {
        /// Its type.
        kind: String,
    },
    /// A request other than `init` came first.
    NotStarted {
        /// Its type.
        kind: String,
    },
    /// A second `init` differs from the first.
    Started {
        /// The id of the node.
        id: String,
    },
    /// A field is missing or of the wrong kind.
    Field {
        /// Its name.
        name: &'static str,
        /// The type or form that it should have.
        wanted: &'static str,
        /// Its value, as JSON.
        found: String,
    },
    /// An add of less than 0 to a counter that only grows.
    Negative {
        /// The amount of the add.
        delta: i64,
    },
    /// A frame came from a node that `init` did not name.
    Stranger {
        /// The sender's id.
        id: String,
    },
    /// The sum of all nodes' adds does not fit into the answer.
    TooWide {
        /// The sum.
        value: i128,
    },
    /// The replica rejected the add.
    Counter(Error),
}

impl Refusal {
    /// Maelstrom's code for it. Each of these codes means that the operation was not done and never will be.
    pub fn code(&self) -> u64 {
        match self {
            Refusal::NotSupported { .. } => 10,
            Refusal::NotStarted { .. } => 11,
            Refusal::Line { .. }
            | Refusal::Started { .. }
            | Refusal::Field { .. }
            | Refusal::Negative { .. }
            | Refusal::Stranger { .. } => 12,
            Refusal::TooWide { .. } | Refusal::Counter(_) => 14,
        }
    }

    /// The error that a field is missing or is not `wanted`.
    fn field(body: &Value, name: &'static str, wanted: &'static str) -> Refusal {
        let found = match body.get(name) {
            None => "missing".to_owned(),
            Some(value) => shown(&value.to_string()),
        };
        Refusal::Field {
            name,
            wanted,
            found,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Line { why } => write!(
                f,
                "a line is no message: {why}; send objects with src, dest and body"
            ),
            Refusal::NotSupported { kind } => write!(
                f,
                "there is no request {kind:?}; there are init, add and read"
            ),
            Refusal::NotStarted { kind } => write!(
                f,
                "{kind:?} came before init, and nobody counts yet; send init first"
            ),
            Refusal::Started { id } => write!(
                f,
                "this is node {id:?} already, of other nodes or by another name; start another \
                 process"
            ),
            Refusal::Field {
                name,
                wanted,
                found,
            } => write!(f, "{name} is {found}; send {wanted}"),
            Refusal::Negative { delta } => write!(
                f,
                "delta is {delta}, and a g-counter only grows; send 0 or more, or start the node \
                 with --workload=pn-counter"
            ),
            Refusal::Stranger { id } => write!(
                f,
                "a frame came from {id:?}, which init did not name; name all nodes there"
            ),
            Refusal::TooWide { value } => write!(
                f,
                "the value is {value}, and an answer has at most 64 bits ({} to {}); read it again \
                 once adds have brought it back",
                i64::MIN,
                i64::MAX
            ),
            Refusal::Counter(error) => error.fmt(f),
        }
    }
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// A message between clients and nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The id of the sender.
    pub src: String,
    /// The id of the receiver.
    pub dest: String,
    /// The content: an object.
    pub body: Value,
}

impl Message {
    /// Parses the message of a line.
    ///
    /// # Errors
    /// [`Refusal::Line`] if the line is not a message.
    pub fn parse(line: &str) -> Result<Message, Refusal> {
        let wrong = |why: String| Refusal::Line { why };
        let mut value: Value =
            serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        let missing = |name| wrong(format!("{} has no {name}", shown(line)));
        let mut end = |name| match value.get_mut(name).map(Value::take) {
            Some(Value::String(text)) => Ok(text),
            _ => Err(missing(name)),
        };
        let (src, dest) = (end("src")?, end("dest")?);
        match value.get_mut("body").map(Value::take) {
            Some(body) if body.is_object() => Ok(Message { src, dest, body }),
            _ => Err(missing("body")),
        }
    }

    /// A message from `src` to `dest`; `body` is an object.
    pub fn new(src: &str, dest: &str, body: Value) -> Message {
        Message {
            src: src.to_owned(),
            dest: dest.to_owned(),
            body,
        }
    }

    /// The line of this message, without its end.
    pub fn line(&self) -> String {
        json!({"src": self.src, "dest": self.dest, "body": self.body}).to_string()
    }

    /// Its type.
    ///
    /// # Errors
    /// [`Refusal::Field`] if it has none.
    pub fn kind(&self) -> Result<&str, Refusal> {
        self.text("type")
    }

    /// A field that is a string.
    ///
    /// # Errors
    /// [`Refusal::Field`] if it is none.
    pub fn text(&self, name: &'static str) -> Result<&str, Refusal> {
        let text = self.body.get(name).and_then(Value::as_str);
        text.ok_or_else(|| Refusal::field(&self.body, name, "a string"))
    }

    /// A field that is a list of strings.
    ///
    /// # Errors
    /// [`Refusal::Field`] if it is none.
    pub fn texts(&self, name: &'static str) -> Result<Vec<String>, Refusal> {
        let list = self.body.get(name).and_then(Value::as_array);
        let list = list.and_then(|list| {
            let texts = list.iter().map(|it| it.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<String>>>()
        });
        list.ok_or_else(|| Refusal::field(&self.body, name, "a list of strings"))
    }

    /// A field that is an integer of 64 bits, written without a fraction or an exponent.
    ///
    /// # Errors
    /// [`Refusal::Field`] if it is none.
    pub fn integer(&self, name: &'static str) -> Result<i64, Refusal> {
        let wanted =
            "an integer from -9223372036854775808 to 9223372036854775807, with no fraction";
        let number = self.body.get(name).and_then(Value::as_i64);
        number.ok_or_else(|| Refusal::field(&self.body, name, wanted))
    }

    /// The answer to this request, as it goes back.
    pub fn answer(&self, id: i64, outcome: Result<Value, Refusal>) -> Message {
        let mut body = outcome.unwrap_or_else(
            |refusal| json!({"type": "error", "code": refusal.code(), "text": refusal.to_string()}),
        );
        body["in_reply_to"] = id.into();
        Message::new(&self.dest, &self.src, body)
    }
}
