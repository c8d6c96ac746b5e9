//! The failures of commands, and their exit codes.

use serde_json::{Value, json};
use std::fmt;
use std::io;

use tallymesh_node_ground::escape;

/// The code of an answer that could not be printed. Only the printing failed.
const OUTPUT: &str = "output";

/// The reason for which a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// An argument is invalid.
    Usage {
        /// The problem.
        problem: String,
    },
    /// The same, in several lines whose values are already escaped. It is one line for each wrong
    /// setting, or a warning that was not confirmed.
    Lines {
        /// The lines.
        problem: String,
    },
    /// No node answers at the address.
    NoNode {
        /// The address.
        node: String,
        /// The error of the system.
        problem: String,
    },
    /// The program at the address and this command do not agree on TLS, so no request was sent.
    Unsent {
        /// The address.
        node: String,
        /// The fault.
        problem: String,
        /// The advice.
        advice: &'static str,
    },
    /// The node refused, with its own code and text.
    Refused {
        /// The node's stable code.
        code: String,
        /// The node's text.
        detail: String,
        /// Whether a write counts, if the node reported it.
        applied: Option<String>,
        /// The line of a bulk write that was refused, from 1.
        line: Option<u64>,
        /// The operation of a transaction that was refused, from 0.
        op: Option<usize>,
        /// The keys of the members that the text names; null if it names none.
        members: Box<Value>,
    },
    /// The connection broke before the answer was complete.
    Broken {
        /// The error.
        problem: String,
        /// Whether the request was a write.
        write: bool,
        /// The advice, if the request changes something else than counters.
        advice: Option<&'static str>,
    },
    /// A bulk write ended early.
    Bulk {
        /// The reason.
        cause: Box<Failure>,
        /// Lines that were acknowledged.
        acknowledged: u64,
        /// The last line of the acknowledged part, from 1; 0 if there is none.
        last: u64,
        /// The last line of the part that was being sent.
        sent: u64,
    },
    /// Another failure, on this side.
    Local {
        /// A stable name of the kind of failure.
        code: &'static str,
        /// The error.
        problem: String,
    },
    /// The reader of the output has closed it, which is no failure.
    OutputClosed,
}

impl Failure {
    /// The failure of a request that changes no counters, with the advice for a connection that broke.
    pub(super) fn if_broken(mut self, told: &'static str) -> Failure {
        if let Failure::Broken {
            write: true,
            advice,
            ..
        } = &mut self
        {
            *advice = Some(told);
        }
        self
    }

    /// The failure of a request with one operation, whose index is of no use.
    pub(super) fn without_op(mut self) -> Failure {
        if let Failure::Refused { op, .. } = &mut self {
            *op = None;
        }
        self
    }

    /// The exit code, as the help lists them.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Failure::OutputClosed => 0,
            Failure::Usage { .. } | Failure::Lines { .. } => 2,
            Failure::NoNode { .. } | Failure::Unsent { .. } => 3,
            Failure::Refused { applied, .. } if applied.as_deref() == Some("here") => 6,
            Failure::Local { code, .. } if *code == OUTPUT => 7,
            Failure::Refused { code, .. }
                if matches!(
                    code.as_str(),
                    "absent" | "no_budget" | "no_lease" | "no_limit" | "no_sequence"
                ) =>
            {
                4
            }
            Failure::Refused { applied, .. } if applied.as_deref() == Some("unknown") => 5,
            Failure::Broken { write: true, .. } => 5,
            Failure::Refused { .. } | Failure::Broken { .. } | Failure::Local { .. } => 1,
            Failure::Bulk { cause, .. } => cause.exit_code(),
        }
    }

    fn code(&self) -> &str {
        match self {
            Failure::Usage { .. } | Failure::Lines { .. } => "usage",
            Failure::NoNode { .. } => "no_node",
            Failure::Unsent { .. } => "tls",
            Failure::Refused { code, .. } => code,
            Failure::Broken { .. } => "broken",
            Failure::Bulk { cause, .. } => cause.code(),
            Failure::Local { code, .. } => code,
            Failure::OutputClosed => "output_closed",
        }
    }

    /// How far a bulk write has come.
    fn how_far(&self) -> String {
        let Failure::Bulk {
            cause,
            acknowledged,
            last,
            sent,
        } = self
        else {
            return String::new();
        };
        let first = last + 1;
        let rest = match cause.exit_code() {
            5 => format!("; whether lines {first} to {sent} count is not known, and none after"),
            6 => format!(
                "; lines {first} to {sent} are added at this node too, and none after; go on from there"
            ),
            _ => format!(", and none from line {first} on was added; go on from there"),
        };
        format!("{acknowledged} lines were acknowledged{rest}")
    }

    /// The failure for people. The values in each line are escaped.
    pub(super) fn text(&self) -> String {
        match self {
            Failure::Bulk { cause, .. } => format!("{}\n{}", cause.text(), self.how_far()),
            Failure::Lines { problem } => escape::layout(problem).into_owned(),
            other => escape::value(&other.to_string()).into_owned(),
        }
    }

    /// The failure for programs.
    pub(super) fn json(&self) -> Value {
        let mut value = json!({ "code": self.code(), "detail": self.to_string() });
        if let Failure::Refused { op: Some(op), .. } = self {
            value["op"] = json!(op);
        }
        if let Failure::Refused { members, .. } = self
            && !members.is_null()
        {
            value["members"] = (**members).clone();
        }
        if let Failure::Bulk {
            cause,
            acknowledged,
            ..
        } = self
        {
            value["lines"] = json!(acknowledged);
            if let Failure::Refused { line, .. } = &**cause {
                value["line"] = json!(line);
            }
        }
        value
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage { problem }
            | Failure::Lines { problem }
            | Failure::Local { problem, .. } => f.write_str(problem),
            Failure::NoNode { node, problem } => write!(
                f,
                "no node at {node} ({problem}); start one with `tallymesh up`, or name another \
                 with --node URL"
            ),
            Failure::Unsent {
                node,
                problem,
                advice,
            } => write!(f, "nothing was sent to {node} ({problem}): {advice}"),
            Failure::Refused { detail, line, .. } => {
                if let Some(line) = line {
                    write!(f, "line {line}: ")?;
                }
                f.write_str(detail)?;
                Ok(())
            }
            Failure::Broken {
                problem,
                write,
                advice,
            } => {
                write!(f, "the connection to the node broke ({problem}); ")?;
                match (advice, write) {
                    (Some(advice), _) => {
                        write!(f, "whether this was done is not known: {advice}")
                    }
                    (None, true) => f.write_str(
                        "whether this write counts is not known, so read the counter before you try again",
                    ),
                    (None, false) => f.write_str("try again"),
                }
            }
            Failure::Bulk { cause, .. } => write!(f, "{cause}\n{}", self.how_far()),
            Failure::OutputClosed => f.write_str("the output was closed"),
        }
    }
}

impl From<io::Error> for Failure {
    /// A failure to print.
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Local {
                code: OUTPUT,
                problem: format!("can't print the answer ({error}); a write counts all the same"),
            },
        }
    }
}
