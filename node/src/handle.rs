//! The client of the driver: cheap to clone, safe to use from any task.

mod levels;
mod members;

pub use levels::{Centre, Demand, Unreached};
pub(crate) use members::Admission;

use crate::driver::{
    AuditPage, BudgetPage, BudgetRow, ChangedPart, Command, Counter, Done, LimitList, LinkRow,
    News, Operation, OperationError, Order, OwnerKey, Page, PeriodRow, Position, Query, Rosters,
    Secured, SequencePage, SequenceRow, SpaceStatus, Turn, Wanted, WriterRow,
};
use crate::gossip::RESERVED;
use crate::problems;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tallymesh_core::{Link, Op, Shard, Space};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

/// One space that this node has open, by its place in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub(crate) usize);

/// What several lines add to one counter. A request has at most one for each key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The counter.
    pub key: String,
    /// The sum of the lines.
    pub by: i64,
    /// The last line that named the counter, from 1.
    pub line: u64,
}

/// What is at the other end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PeerKind {
    /// Another node.
    Libp2p,
    /// A client that syncs over WebSocket, such as a browser tab.
    WebSocket,
    /// A client that syncs over single requests.
    Post,
}

/// What the peer of a link is held to in a space, where it may do less than a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The key that it has proved to be its own.
    pub owner: OwnerKey,
    /// What it may do.
    pub role: tallymesh_core::Role,
}

/// A space that a link carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The space.
    pub space: SpaceId,
    /// What its peer is held to there; `None` for one that may do all.
    pub limits: Option<Limits>,
}

impl From<SpaceId> for Carried {
    fn from(space: SpaceId) -> Carried {
        Carried {
            space,
            limits: None,
        }
    }
}

/// What is known of the sender at the other end of a new link, beside its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    /// The key that it has proved to be its owner's.
    pub owner: Option<OwnerKey>,
    /// Its address, as it was seen here.
    pub address: Option<String>,
    /// The id of the ticket that it showed.
    pub ticket: Option<String>,
}

/// A new connection, as the driver hears of it.
pub struct NewLink {
    /// Its number, from [`Handle::next_link`].
    pub link: Link,
    /// The spaces that it carries, ascending, or all that are open.
    pub spaces: Option<Vec<Carried>>,
    /// What is at the other end.
    pub kind: PeerKind,
    /// The name of the other end.
    pub peer: String,
    /// Whether pushes reach it through the broadcast channel.
    pub broadcast: bool,
    /// Where its outgoing frames go. Frames that find it full are dropped: sync repairs that.
    pub outbox: mpsc::Sender<Order>,
    /// What else is known of the other end, to be named if it brings what is forged.
    pub from: Sender,
}

/// Why a request to the node was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The replica refused; nothing was changed.
    Core(tallymesh_core::Error),
    /// One line of a bulk request was refused; nothing was changed.
    Line {
        /// The line, from 1.
        line: u64,
        /// Its counter.
        key: String,
        /// Why.
        error: tallymesh_core::Error,
    },
    /// One operation of a transaction was refused; nothing was changed.
    Op {
        /// Its place in the transaction, from 0.
        index: usize,
        /// What it is on: a `counter` or a `budget`.
        on: &'static str,
        /// Its counter or budget.
        key: String,
        /// Why.
        error: OperationError,
    },
    /// The space is not open at this node.
    SpaceNotOpen {
        /// Its name.
        space: String,
    },
    /// The space has no members, so that there is nothing to change.
    NoMembers {
        /// Its name.
        space: String,
    },
    /// The node keeps its state in memory only, so that it can be no member.
    MemoryOnly,
    /// A member can't be declared dead.
    IsMember {
        /// Its key.
        owner: OwnerKey,
    },
    /// No writer of this owner is known.
    UnknownOwner {
        /// Its key.
        owner: OwnerKey,
    },
    /// A change of the members was proposed and is not decided yet. It may still take effect.
    Undecided {
        /// The members who have not answered, as far as is known.
        unanswered: Vec<OwnerKey>,
    },
    /// A level was not reached in time.
    LevelNotReached(Unreached),
    /// What a session depends on was not seen here in time; nothing was read.
    TokenNotReached {
        /// The writers of whom something is missing.
        lacking: Vec<String>,
    },
    /// Only one place for all could give this; nothing was changed.
    NeedsCentre(Centre),
    /// Something else was made under the same idempotency key.
    KeyReused,
    /// What is to be added under an idempotency key, with the keys of the counters, takes more than can
    /// be remembered of it; nothing was changed.
    KeyedTooLarge {
        /// How many bytes it takes.
        bytes: usize,
        /// How many it may take.
        max: usize,
    },
    /// The node stopped before it could confirm. Whether a write counts is not known.
    Stopped,
    /// A fault of the program ended the work on it.
    Internal,
}

impl Refusal {
    /// Says for how much other members are asked, if it was for want of rights.
    pub(crate) fn asked(self, asked: u64) -> Refusal {
        match self {
            Refusal::Op {
                index,
                on,
                key,
                error: OperationError::Core(error),
            } if asked > 0 => Refusal::Op {
                index,
                on,
                key,
                error: OperationError::Asked { error, asked },
            },
            other => other,
        }
    }

    /// A stable name of the kind of refusal.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::Core(error) | Refusal::Line { error, .. } => error.code(),
            Refusal::Op { error, .. } => error.code(),
            Refusal::SpaceNotOpen { .. } => "space_not_open",
            Refusal::NoMembers { .. } => "no_members",
            Refusal::MemoryOnly => "memory_only",
            Refusal::IsMember { .. } => "is_member",
            Refusal::UnknownOwner { .. } => "unknown_owner",
            Refusal::Undecided { .. } => "undecided",
            Refusal::LevelNotReached(_) => "level_not_reached",
            Refusal::TokenNotReached { .. } => "token_not_reached",
            Refusal::NeedsCentre(_) => "needs_centre",
            Refusal::KeyReused => "key_reused",
            Refusal::KeyedTooLarge { .. } => "keyed_too_large",
            Refusal::Stopped => "stopped",
            Refusal::Internal => "internal",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Core(error) => f.write_str(&problems::text(error)),
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
            Refusal::NoMembers { space } => write!(
                f,
                "space `{space}` has no members yet; make this node the first one with \
                 `tallymesh members init`"
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
                let names: Vec<String> = unanswered.iter().map(ToString::to_string).collect();
                let who = match names.is_empty() {
                    true => "the others' answers are on their way".to_owned(),
                    false => format!("no answer yet from {}", names.join(", ")),
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
            Refusal::KeyedTooLarge { bytes, max } => write!(
                f,
                "what is added under this idempotency key takes {bytes} bytes with the keys of the \
                 counters, over the limit of {max}; send it in several parts, each under a key of its own"
            ),
            Refusal::Internal => f.write_str(crate::contain::INTERNAL),
            Refusal::Stopped => f.write_str(
                "the node stopped before it could confirm; whether a write counts is not known, \
                 so read the counter when the node is back",
            ),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<tallymesh_core::Error> for Refusal {
    fn from(error: tallymesh_core::Error) -> Refusal {
        Refusal::Core(error)
    }
}

/// Wakes the driver, which sleeps until a socket, a deadline or this tells of work.
#[derive(Clone)]
pub(crate) struct Bell {
    waker: Arc<mio::Waker>,
    rung: Arc<AtomicBool>,
}

impl Bell {
    pub(crate) fn new(waker: mio::Waker) -> Bell {
        Bell {
            waker: Arc::new(waker),
            rung: Arc::default(),
        }
    }

    /// To be called after the work is where the driver looks for it.
    pub(crate) fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            // It fails only if the driver is gone, which needs no waking.
            let _ = self.waker.wake();
        }
    }

    /// To be called by the driver before it looks for work.
    pub(crate) fn answer(&self) {
        self.rung.store(false, Ordering::SeqCst);
    }
}

/// Rings when the last client is gone, so that the driver ends.
struct LastRing(Bell);

impl Drop for LastRing {
    fn drop(&mut self) {
        self.0.ring();
    }
}

/// A client of one node's driver.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

struct Shared {
    // Dropped in this order: the bell rings when the queue is closed.
    queue: mpsc::Sender<Command>,
    bell: LastRing,
    spaces: Arc<[Space]>,
    /// Their places, by their names.
    places: HashMap<Box<str>, SpaceId>,
    links: AtomicU32,
    rosters: watch::Receiver<Rosters>,
    /// For clients that may work themselves.
    turn: Option<Turn>,
}

impl Handle {
    pub(crate) fn new(
        queue: mpsc::Sender<Command>,
        bell: Bell,
        spaces: Arc<[Space]>,
        turn: Option<Turn>,
        rosters: watch::Receiver<Rosters>,
    ) -> Handle {
        let places = spaces.iter().enumerate();
        let places = places.map(|(place, name)| (name.as_str().into(), SpaceId(place)));
        let shared = Shared {
            queue,
            places: places.collect(),
            bell: LastRing(bell),
            spaces,
            links: AtomicU32::new(0),
            rosters,
            turn,
        };
        Handle {
            shared: Arc::new(shared),
        }
    }

    /// The spaces that are open, in the order of the configuration.
    pub fn spaces(&self) -> &[Space] {
        &self.shared.spaces
    }

    /// Finds an open space by its name.
    ///
    /// # Errors
    /// When the name breaks the rules for names, or no such space is open.
    pub fn space(&self, name: &str) -> Result<SpaceId, Refusal> {
        Space::new(name)?;
        let space = self.shared.places.get(name).copied();
        space.ok_or_else(|| Refusal::SpaceNotOpen {
            space: name.to_owned(),
        })
    }

    /// Adds `by` to a counter and returns it. When this returns, the add is as durable as the node's
    /// [`Durability`](crate::store::Durability) says, as with all that follows.
    ///
    /// # Errors
    /// When the replica refuses, or the node stops first.
    pub async fn add(&self, space: SpaceId, key: String, by: i64) -> Result<Counter, Refusal> {
        let ask = |reply| Command::Add {
            space,
            key,
            by,
            reply,
        };
        self.ask(ask).await?
    }

    /// Adds to many counters, all or none, and with one commit. When this returns, all are
    /// durable.
    ///
    /// # Errors
    /// When the replica refuses one of them, or the node stops first.
    pub async fn add_many(&self, space: SpaceId, sums: Vec<Sum>) -> Result<(), Refusal> {
        let ask = |reply| Command::AddMany { space, sums, reply };
        self.ask(ask).await?
    }

    /// Makes one operation on a counter, as a transaction of its own. When this returns, it is
    /// durable.
    ///
    /// # Errors
    /// When the replica refuses, or the node stops first.
    pub async fn apply(&self, space: SpaceId, key: String, op: Op) -> Result<Done, Refusal> {
        let only = |refusal| match refusal {
            Refusal::Op {
                error: OperationError::Core(error),
                ..
            } => Refusal::Core(error),
            other => other,
        };
        let done = self.transact(space, vec![(key, op)]).await.map_err(only)?;
        // There is an answer for each operation; without one nothing is known.
        done.into_iter().next().ok_or(Refusal::Stopped)
    }

    /// Makes several operations, all or none: no replica ever sees a part of them. When this
    /// returns, they are durable.
    ///
    /// # Errors
    /// When the replica refuses one of them, or the node stops first.
    pub async fn transact(
        &self,
        space: SpaceId,
        ops: Vec<(String, Op)>,
    ) -> Result<Vec<Done>, Refusal> {
        let ops = ops.into_iter().map(Operation::from).collect();
        let ask = |reply| Command::Transact {
            space,
            ops,
            once: None,
            reply,
        };
        Ok(self.ask(ask).await??.done)
    }

    /// Reads a counter: `None` when it is absent.
    ///
    /// # Errors
    /// When the node stops first.
    pub async fn read(&self, space: SpaceId, key: String) -> Result<Option<Counter>, Refusal> {
        self.ask(|reply| Command::Read { space, key, reply }).await
    }

    /// Reads many counters from one view, in their order: `None` for each that is absent.
    ///
    /// # Errors
    /// When the node stops first.
    pub async fn read_many(
        &self,
        space: SpaceId,
        keys: Vec<String>,
    ) -> Result<Vec<Option<Counter>>, Refusal> {
        self.ask(|reply| Command::ReadMany { space, keys, reply })
            .await
    }

    /// Reads what each writer says of a counter, by writer: `None` when it is absent.
    ///
    /// # Errors
    /// When the node stops first.
    pub async fn shards(&self, space: SpaceId, key: String) -> Result<Option<Vec<Shard>>, Refusal> {
        self.ask(|reply| Command::Shards { space, key, reply })
            .await
    }

    /// Lists counters by key.
    ///
    /// # Errors
    /// When the node stops first.
    pub async fn list(&self, space: SpaceId, query: Query) -> Result<Page, Refusal> {
        self.ask(|reply| Command::List {
            space,
            query,
            reply,
        })
        .await
    }

    /// Reads a budget, with who holds what of it: `None` if there is none of this name.
    ///
    /// # Errors
    /// When the node stops first.
    pub async fn budget(&self, space: SpaceId, key: String) -> Result<Option<BudgetRow>, Refusal> {
        self.ask(|reply| Command::budget(space, key, reply)).await
    }

    /// What is known of a sequence of numbers: `None` if there is none of this name.
    ///
    /// # Errors
    /// When the node stops first.
    pub async fn sequence(
        &self,
        space: SpaceId,
        key: String,
    ) -> Result<Option<SequenceRow>, Refusal> {
        self.ask(|reply| Command::sequence(space, key, reply)).await
    }

    /// The limits of a space.
    ///
    /// # Errors
    /// When the node stops first.
    pub async fn limits(&self, space: SpaceId) -> Result<LimitList, Refusal> {
        self.ask(|reply| Command::limits(space, reply)).await
    }

    /// The present period of a key that a limit covers.
    ///
    /// # Errors
    /// When no limit covers it, this node is no member, or stops first.
    pub async fn period(&self, space: SpaceId, key: String) -> Result<PeriodRow, Refusal> {
        self.ask(|reply| Command::period(space, key, reply)).await?
    }

    /// Lists sequences of numbers by name.
    ///
    /// # Errors
    /// When the node stops first.
    pub async fn sequences(&self, space: SpaceId, query: Query) -> Result<SequencePage, Refusal> {
        self.ask(|reply| Command::sequences(space, query, reply))
            .await
    }

    /// Lists budgets by name, with who holds what of them.
    ///
    /// # Errors
    /// When the node stops first.
    pub async fn budgets(&self, space: SpaceId, query: Query) -> Result<BudgetPage, Refusal> {
        self.ask(|reply| Command::budgets(space, query, reply))
            .await
    }

    /// Tells what every writer says of counters, all of one moment.
    ///
    /// # Errors
    /// When the node stops first.
    pub async fn audit(&self, space: SpaceId, query: Query) -> Result<AuditPage, Refusal> {
        self.ask(|reply| Command::Audit {
            space,
            query,
            reply,
        })
        .await
    }

    /// Subscribes to the counters of a space that change from now on.
    ///
    /// # Errors
    /// When the node stops first.
    pub async fn watch(&self, space: SpaceId) -> Result<broadcast::Receiver<News>, Refusal> {
        self.ask(|reply| Command::Watch { space, reply }).await
    }

    /// Where a reader of events is that has heard of everything up to now.
    ///
    /// # Errors
    /// When the node stops first.
    pub async fn position(&self, space: SpaceId) -> Result<Position, Refusal> {
        self.ask(|reply| Command::Position { space, reply }).await
    }

    /// A part of the counters that changed since a position, from the place `from` on, which is 0 at
    /// first; `None` if they can't be told any more. Subscribe first, to miss nothing.
    ///
    /// # Errors
    /// When the node stops first.
    pub async fn changed_since(
        &self,
        space: SpaceId,
        since: Position,
        from: u32,
        wanted: Wanted,
    ) -> Result<Option<ChangedPart>, Refusal> {
        let ask = |reply| Command::Changed {
            space,
            since,
            from,
            wanted,
            reply,
        };
        self.ask(ask).await
    }

    /// The version vector of a space: what is held here of each writer.
    ///
    /// # Errors
    /// When the node stops first.
    pub async fn writers(&self, space: SpaceId) -> Result<Vec<WriterRow>, Refusal> {
        self.ask(|reply| Command::Writers { space, reply }).await
    }

    /// The state of each open space.
    ///
    /// # Errors
    /// When the node stops first.
    pub async fn status(&self) -> Result<Vec<SpaceStatus>, Refusal> {
        self.ask(|reply| Command::Status { reply }).await
    }

    /// One row for each link and space.
    ///
    /// # Errors
    /// When the node stops first.
    pub async fn links(&self) -> Result<Vec<LinkRow>, Refusal> {
        self.ask(|reply| Command::Links { reply }).await
    }

    /// The members of all open spaces, now and whenever they change.
    pub(crate) fn rosters(&self) -> watch::Receiver<Rosters> {
        self.shared.rosters.clone()
    }

    /// A number for a new connection, never given twice by this node.
    pub fn next_link(&self) -> Link {
        Link(self.shared.links.fetch_add(1, Ordering::Relaxed))
    }

    /// Tells of a new connection.
    pub async fn connect(&self, link: NewLink) {
        self.tell(Command::Connect(link)).await;
    }

    /// Tells that a connection is gone.
    pub async fn disconnect(&self, link: Link) {
        self.tell(Command::Disconnect { link }).await;
    }

    /// Hands over one frame that came on a link.
    pub async fn frame(&self, link: Link, bytes: Vec<u8>) {
        self.tell(Command::Frame { link, bytes }).await;
    }

    /// Hands over one frame that came by broadcast; `from` is the link that brought it.
    pub async fn broadcast(&self, from: Option<Link>, bytes: Vec<u8>) {
        self.tell(Command::Broadcast { from, bytes }).await;
    }

    /// Hands over a Redis client with which keys are agreed on.
    pub(crate) async fn secured(&self, client: Secured) {
        self.tell(Command::Secured(Box::new(client))).await;
    }

    /// Asks the driver to finish what is queued and to stop.
    pub(crate) async fn stop(&self) {
        self.tell(Command::Stop).await;
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        let command = command(reply);
        let left = match &self.shared.turn {
            Some(turn) => turn.take(command).err(),
            None => Some(command),
        };
        if let Some(command) = left {
            self.tell(command).await;
        }
        answer
            .await
            .map_err(|_| match self.shared.queue.is_closed() {
                true => Refusal::Stopped,
                false => Refusal::Internal,
            })
    }

    /// A driver that is gone needs no news, so a failed send is no error: whoever waits for an answer
    /// sees that nobody is left to give one.
    async fn tell(&self, command: Command) {
        if self.shared.queue.send(command).await.is_ok() {
            self.shared.bell.0.ring();
        }
    }
}
