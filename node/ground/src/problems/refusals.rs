//! The texts of refusals: what happened, and what to do.

use crate::model::{Centre, MemberNames, OperationError, RESERVED, Refusal, Unreached};
use crate::problems;
use std::fmt;
use tallymesh_core::bounds::{
    BUDGET_NAME_BYTES_MAX, LEASED_NAME_BYTES_MAX, PERIOD_KEY_BYTES_MAX, SEQUENCE_NAME_BYTES_MAX,
};

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Core(error) => f.write_str(&problems::text(error)),
            Refusal::CatchingUp => OperationError::CatchingUp(Vec::new()).fmt(f),
            Refusal::FolderCopied => OperationError::FolderCopied.fmt(f),
            Refusal::Line { line, key, error } => {
                write!(f, "line {line}, counter `{key}`: {}", problems::text(error))
            }
            Refusal::Op {
                index,
                on,
                key,
                error,
            } => {
                write!(f, "operation {index} from 0, {on} `{key}`: {error}")
            }
            Refusal::SpaceNotOpen { space } if space.starts_with(RESERVED) => write!(
                f,
                "space `{space}` can't be used: names that begin with `{RESERVED}` are for the node's \
                 own spaces; choose another"
            ),
            Refusal::SpaceNotOpen { space } => write!(
                f,
                "space `{space}` is not open at this node: start it with --space {space}"
            ),
            Refusal::NoMembers {
                space,
                may_found: true,
            } => write!(
                f,
                "space `{space}` has no members yet; make this node the first one with \
                 `tallymesh members init`"
            ),
            Refusal::NoMembers { space, .. } => write!(
                f,
                "space `{space}` has no members yet, and this node, which came in with a ticket, can't be \
                 the first one: ask whoever gave you the ticket to make theirs a member"
            ),
            Refusal::MemoryOnly => f.write_str(
                "this node keeps its state in memory only, so it can be no member: what it \
                 acknowledged would be lost with the process; start it on a data folder",
            ),
            Refusal::IsMember { owner } => write!(
                f,
                "{owner} is a member; take it out first with `tallymesh members remove {owner}`, \
                 and its writers are retired by themselves"
            ),
            Refusal::UnknownOwner { owner } => write!(
                f,
                "no writer of owner {owner} is known here; `tallymesh writers` lists them"
            ),
            Refusal::Undecided { unanswered } => {
                let who = match unanswered.is_empty() {
                    true => "the others' answers are on their way".to_owned(),
                    false => format!("no answer yet from {}", MemberNames(unanswered)),
                };
                write!(
                    f,
                    "the change is proposed but a majority has not agreed yet ({who}); it takes \
                     effect when they do: look with `tallymesh members`. If a majority is lost for \
                     ever, see `tallymesh members force --help`"
                )
            }
            Refusal::LevelNotReached(unreached) => unreached.fmt(f),
            Refusal::TokenNotReached { lacking } => write!(
                f,
                "nothing was read: in time this node has not seen all that the token depends on, of \
                 {} writers ({}); try again, here or where the session wrote last. What a process \
                 wrote that ended before anybody heard of it is made again under another writer, and \
                 its token never comes true: begin a new session then",
                lacking.len(),
                lacking.join(", ")
            ),
            Refusal::NeedsCentre(wanted) => wanted.fmt(f),
            Refusal::KeyReused => f.write_str(
                "something else was made under this idempotency key; give each operation a key of its \
                 own, and retry it with the same",
            ),
            Refusal::MadeWeaker => f.write_str(super::MADE_WEAKER_TEXT),
            Refusal::KeyedTooLarge { bytes, max } => write!(
                f,
                "what is added under this idempotency key takes {bytes} bytes with the keys of the \
                 counters, over the limit of {max}; send it in several parts, each under a key of its own"
            ),
            Refusal::Ticket { text, .. } => f.write_str(text),
            Refusal::Internal => f.write_str(super::INTERNAL_TEXT),
            Refusal::Stopped => f.write_str(
                "the node stopped before it could confirm; whether a write counts is not known, \
                 so read the counter when the node is back",
            ),
        }
    }
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OperationError::Core(error) => f.write_str(&problems::text(error)),
            OperationError::Asked { error, asked } => write!(
                f,
                "{error}; {asked} more are asked for of other members: try again, or let the write \
                 wait for them: `--rights-wait` of commands, `tallymesh-rights-wait-ms` over HTTP"
            ),
            OperationError::Stuck { error, parts } => {
                error.fmt(f)?;
                parts.iter().try_for_each(|part| write!(f, "; {part}"))
            }
            OperationError::NoRecipient(to) => write!(
                f,
                "{to} is no other member, or none of which a start is known here; rights move to \
                 members only: see `tallymesh members`"
            ),
            OperationError::BudgetName(bytes) => write!(
                f,
                "a budget's name has at most {BUDGET_NAME_BYTES_MAX} bytes, not {bytes}"
            ),
            OperationError::LeasedName(bytes) => write!(
                f,
                "rights are leased of budgets whose names have at most {LEASED_NAME_BYTES_MAX} bytes, not {bytes}"
            ),
            OperationError::SequenceName(bytes) => write!(
                f,
                "a sequence's name has at most {SEQUENCE_NAME_BYTES_MAX} bytes, not {bytes}"
            ),
            OperationError::LimitKey(bytes) => write!(
                f,
                "a key that a limit covers has at most {PERIOD_KEY_BYTES_MAX} bytes, not {bytes}"
            ),
            OperationError::NeedsMesh => f.write_str(problems::NEEDS_MESH),
            OperationError::FolderCopied => f.write_str(
                "this node's data folder is a copy, and the node that it was copied from may still run, or a node on \
                 a copy of it has started since, so this one spends, draws and decides nothing; ask the other one, \
                 or, if that is gone for good, run `tallymesh adopt` here",
            ),
            OperationError::CatchingUp(unreached) if !unreached.is_empty() => write!(
                f,
                "this node may use what its earlier start held once enough other members know of its restart, and \
                 nothing was heard of {} since it started or for 10 s; to wait does not help: start them, or, if \
                 they are gone for good, see `tallymesh doctor` and `tallymesh members force --help`",
                MemberNames(unreached)
            ),
            OperationError::CatchingUp(_) => f.write_str(
                "this node catches up with the other members since its start, and does not take part in this \
                 yet; try again in some seconds, and ask `tallymesh doctor` if it stays so",
            ),
        }
    }
}

impl Centre {
    /// The alternative.
    fn advice(self) -> &'static str {
        match self {
            Centre::CompareAndSet => {
                "a write can't depend on a value that holds in all of the mesh at once: that takes a \
                 centre. To stay above a floor, take a budget; to decide at one place, let one member \
                 alone `set` the counter, at level quorum, and read at level quorum"
            }
            Centre::Sequence => {
                "what add returns is what this node sees, and another node may return the same: a \
                 unique sequence takes a centre. Take numbers from tickets, or let one member alone \
                 add to this counter"
            }
        }
    }
}

impl fmt::Display for Centre {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.advice())
    }
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unreached {
            needed, reached, ..
        } = self;
        let level = self.level.name();
        let names = MemberNames(&self.lacking);
        match self.applied {
            true => write!(
                f,
                "the write is applied here and goes on to the others, but in time only {reached} of \
                 {needed} members that level {level} takes were known to hold it (not {names}); do not \
                 write it again: read it at level {level}, or look at `tallymesh members`"
            ),
            false => write!(
                f,
                "nothing was read: in time only {reached} of {needed} members that level {level} takes \
                 had told what they hold, and all of that was seen here (not {names}); try again, or \
                 read at level local what this node has"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::identity::OwnerKey;
    use crate::model::{Centre, MemberName, Refusal, Unreached};
    use tallymesh_core::Level;

    #[test]
    fn a_refusal_says_what_happened_and_what_to_do() {
        let unreached = |applied| Unreached {
            level: Level::Quorum,
            applied,
            needed: 3,
            reached: 2,
            lacking: vec![MemberName {
                owner: OwnerKey([0xab; 32]),
                address: Some("/ip4/127.0.0.1/tcp/1".to_owned()),
            }],
        };
        let lacking = vec!["00ff".to_owned()];
        let cases = [
            (
                Refusal::LevelNotReached(unreached(true)),
                "level_not_reached",
                [
                    "applied here",
                    "2 of 3",
                    "quorum",
                    "(not abababab… at /ip4/127.0.0.1/tcp/1)",
                    "do not write it again",
                ],
            ),
            (
                Refusal::LevelNotReached(unreached(false)),
                "level_not_reached",
                [
                    "nothing was read",
                    "2 of 3",
                    "quorum",
                    "(not abababab… at",
                    "try again",
                ],
            ),
            (
                Refusal::TokenNotReached { lacking },
                "token_not_reached",
                [
                    "nothing was read",
                    "1 writers",
                    "00ff",
                    "try again",
                    "new session",
                ],
            ),
            (
                Refusal::NeedsCentre(Centre::CompareAndSet),
                "needs_centre",
                ["centre", "budget", "set", "one member", "quorum"],
            ),
            (
                Refusal::NeedsCentre(Centre::Sequence),
                "needs_centre",
                ["centre", "add", "unique", "tickets", "one member"],
            ),
        ];
        for (refusal, code, words) in cases {
            assert_eq!(refusal.code(), code);
            let text = refusal.to_string();
            for word in words {
                assert!(text.contains(word), "{word}: {text}");
            }
        }
    }
}
