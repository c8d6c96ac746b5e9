//! The client of the driver: cheap to clone, safe to use from any task.

mod levels;
mod members;

pub use members::Admission;
use tallymesh_node_ground::model::{
    AuditPage, BudgetPage, BudgetRow, Carried, ChangedPart, Counter, Done, LimitList, LinkRow,
    MemberLists, Operation, OperationError, OwnWriters, Page, PeerKind, PeriodRow, Position, Query,
    Refusal, Sender, SequencePage, SequenceRow, SpaceId, SpaceStatus, Sum, Wanted, WriterRow,
};

#[cfg(test)]
use crate::driver::CommitGate;
use crate::driver::command::{Command, Queued, WriteContext, release};
use crate::driver::space::{OpenSpace, VolatileState};
use crate::driver::{Order, Permit, Release, Secured, Turn, Watch};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tallymesh_core::{Link, Op, Shard, Space, WriterId};
use tokio::sync::{mpsc, oneshot, watch};

/// A new connection, for the driver.
pub struct NewLink {
    /// Its number, from [`Handle::next_link`].
    pub link: Link,
    /// The spaces that it carries, ascending, or `None` for all open spaces.
    pub spaces: Option<Vec<Carried>>,
    /// The kind of peer at the other end.
    pub kind: PeerKind,
    /// The name of the other end.
    pub peer: String,
    /// Whether pushes reach the peer through the broadcast channel.
    pub broadcast: bool,
    /// The queue of its outgoing frames. A frame that finds the queue full is dropped, and sync
    /// repairs that.
    pub outbox: mpsc::Sender<Order>,
    /// Further facts about the peer, for a report if it sends forged shards.
    pub from: Sender,
}

/// Wakes the driver, which sleeps until a socket, a deadline or this bell has work.
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

    /// Wakes the driver. The caller first puts the work where the driver looks for it.
    pub(crate) fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            // It fails only if the driver is gone, which needs no waking.
            let _ = self.waker.wake();
        }
    }

    /// Resets the bell. The driver calls it before it looks for work.
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
    /// The ticket under which all requests are made; `None` for the node itself.
    permit: Option<Arc<Permit>>,
}

struct Shared {
    // Dropped in this order: the bell rings when the queue is closed.
    queue: mpsc::Sender<Queued>,
    bell: LastRing,
    spaces: Arc<[Space]>,
    /// The indexes of the spaces, by name.
    places: HashMap<Box<str>, SpaceId>,
    links: AtomicU32,
    /// Whether the node runs on a copy of a data folder, and stands aside.
    copied: Arc<AtomicBool>,
    member_lists: watch::Receiver<MemberLists>,
    writers: watch::Receiver<OwnWriters>,
    /// For clients that may run the driver's work themselves.
    turn: Option<Turn>,
}

impl Handle {
    pub(super) fn new(
        queue: mpsc::Sender<Queued>,
        bell: Bell,
        spaces: Arc<[Space]>,
        turn: Option<Turn>,
        copied: Arc<AtomicBool>,
        (member_lists, writers): (watch::Receiver<MemberLists>, watch::Receiver<OwnWriters>),
    ) -> Handle {
        let places = spaces.iter().enumerate();
        let places = places.map(|(place, name)| (name.as_str().into(), SpaceId(place)));
        let shared = Shared {
            queue,
            places: places.collect(),
            bell: LastRing(bell),
            spaces,
            links: AtomicU32::new(0),
            copied,
            member_lists,
            writers,
            turn,
        };
        Handle {
            shared: Arc::new(shared),
            permit: None,
        }
    }

    /// A client that makes all requests under a ticket, if one is given. Once the ticket is no
    /// longer valid, all its requests are refused with [`Refusal::Ticket`], and its frames are
    /// dropped.
    pub fn by(&self, permit: Option<Arc<Permit>>) -> Handle {
        Handle {
            shared: self.shared.clone(),
            permit,
        }
    }

    /// The spaces that are open, in the order of the configuration.
    pub fn spaces(&self) -> &[Space] {
        &self.shared.spaces
    }

    /// Finds an open space by its name.
    ///
    /// # Errors
    /// Fails when the name breaks the rules for names, or when no such space is open.
    pub fn space(&self, name: &str) -> Result<SpaceId, Refusal> {
        Space::new(name)?;
        let space = self.shared.places.get(name).copied();
        space.ok_or_else(|| Refusal::SpaceNotOpen {
            space: name.to_owned(),
        })
    }

    /// Adds `by` to a counter and returns the counter. When this returns, the add is as durable as
    /// the node's [`Durability`](tallymesh_node_store::Durability) says. The same applies to all operations
    /// below.
    ///
    /// # Errors
    /// Fails when the replica refuses the add, or the node stops first.
    pub async fn add(&self, space: SpaceId, key: String, by: i64) -> Result<Counter, Refusal> {
        let work = move |space: &mut OpenSpace, context: &WriteContext<'_>| {
            let added = space.add(key, by);
            context.metrics.added(added.is_ok().into());
            added
        };
        self.write_in(space, work).await?
    }

    /// Adds to many counters, all or none, and with one commit. When this returns, all adds are
    /// durable.
    ///
    /// # Errors
    /// Fails when the replica refuses one of them, or the node stops first.
    pub async fn add_many(&self, space: SpaceId, sums: Vec<Sum>) -> Result<(), Refusal> {
        let work = move |space: &mut OpenSpace, context: &WriteContext<'_>| {
            let added = space.add_many(&sums);
            let count = if added.is_ok() { sums.len() } else { 0 };
            context.metrics.added(count);
            added
        };
        self.write_in(space, work).await?
    }

    /// Makes one operation on a counter, as a transaction of its own. When this returns, it is
    /// durable.
    ///
    /// # Errors
    /// Fails when the replica refuses it, or the node stops first.
    pub async fn apply(&self, space: SpaceId, key: String, op: Op) -> Result<Done, Refusal> {
        let only = |refusal| match refusal {
            Refusal::Op {
                error: OperationError::Core(error),
                ..
            } => Refusal::Core(error),
            other => other,
        };
        let done = self.transact(space, vec![(key, op)]).await.map_err(only)?;
        // There is an answer for each operation. Without one the result is unknown.
        done.into_iter().next().ok_or(Refusal::Stopped)
    }

    /// Makes several operations, all or none: no replica ever sees a part of them. When this
    /// returns, they are durable.
    ///
    /// # Errors
    /// Fails when the replica refuses one of them, or the node stops first.
    pub async fn transact(
        &self,
        space: SpaceId,
        ops: Vec<(String, Op)>,
    ) -> Result<Vec<Done>, Refusal> {
        let ops: Vec<_> = ops.into_iter().map(Operation::from).collect();
        let work = move |space: &mut OpenSpace, context: &WriteContext<'_>| {
            let made = space.transact(&ops, None)?;
            context.metrics.operations(&ops);
            Ok::<_, Refusal>(made.done)
        };
        self.write_in(space, work).await?
    }

    /// Reads a counter. Returns `None` when it is absent.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn read(&self, space: SpaceId, key: String) -> Result<Option<Counter>, Refusal> {
        self.read_in(space, |space, _| space.read(key)).await
    }

    /// Reads many counters from one view, in the order of the keys. Returns `None` for each counter
    /// that is absent.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn read_many(
        &self,
        space: SpaceId,
        keys: Vec<String>,
    ) -> Result<Vec<Option<Counter>>, Refusal> {
        let read = |space: &OpenSpace, _| keys.into_iter().map(|key| space.read(key)).collect();
        self.read_in(space, read).await
    }

    /// Reads the shards of a counter, by writer. Returns `None` when the counter is absent.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn shards(&self, space: SpaceId, key: String) -> Result<Option<Vec<Shard>>, Refusal> {
        self.read_in(space, move |space, _| space.shards(&key))
            .await
    }

    /// Lists counters by key.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn list(&self, space: SpaceId, query: Query) -> Result<Page, Refusal> {
        self.read_all(space, move |space| space.list(&query)).await
    }

    /// Reads a budget, with the rights of each member. Returns `None` if there is none of this
    /// name.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn budget(&self, space: SpaceId, key: String) -> Result<Option<BudgetRow>, Refusal> {
        self.read_in(space, move |space, _| space.budget(&key))
            .await
    }

    /// Reads a sequence of numbers. Returns `None` if there is none of this name.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn sequence(
        &self,
        space: SpaceId,
        key: String,
    ) -> Result<Option<SequenceRow>, Refusal> {
        self.read_in(space, move |space, _| space.sequence(&key))
            .await
    }

    /// Lists the limits of a space.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn limits(&self, space: SpaceId) -> Result<LimitList, Refusal> {
        self.read_in(space, |space, _| space.limits()).await
    }

    /// Reads the present period of a key that a limit covers.
    ///
    /// # Errors
    /// Fails when no limit covers the key, when this node is no member, or when it stops first.
    pub async fn period(&self, space: SpaceId, key: String) -> Result<PeriodRow, Refusal> {
        self.read_in(space, move |space, _| space.period(&key))
            .await?
    }

    /// Lists sequences of numbers by name.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn sequences(&self, space: SpaceId, query: Query) -> Result<SequencePage, Refusal> {
        self.read_all(space, move |space| space.sequences(&query))
            .await
    }

    /// Lists budgets by name, with the rights of each member.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn budgets(&self, space: SpaceId, query: Query) -> Result<BudgetPage, Refusal> {
        self.read_all(space, move |space| space.budgets(&query))
            .await
    }

    /// Reads the shards of counters, by writer, all at one moment.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn audit(&self, space: SpaceId, query: Query) -> Result<AuditPage, Refusal> {
        self.read_all(space, move |space| space.audit(&query)).await
    }

    /// Subscribes to the counters of a space that change from now on.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn watch(&self, space: SpaceId, wanted: Option<Wanted>) -> Result<Watch, Refusal> {
        self.read_in(space, move |space, _| space.watchers.watch(wanted.as_ref()))
            .await
    }

    /// Returns the position of a reader that has received every event up to now.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn position(&self, space: SpaceId) -> Result<Position, Refusal> {
        self.wait_in(space, |space, _, reply| {
            Some(release(reply, space.position()))
        })
        .await
    }

    /// Returns a part of the counters that changed since a position. The part begins at the place
    /// `from`, which is 0 for the first part. Subscribe first, to miss nothing.
    ///
    /// Returns `None` if the changes since that position are no longer stored.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn changed_since(
        &self,
        space: SpaceId,
        since: Position,
        from: u32,
        wanted: Wanted,
    ) -> Result<Option<ChangedPart>, Refusal> {
        let read = move |space: &OpenSpace, _| space.changed_since(since, from, &wanted);
        self.read_in(space, read).await
    }

    /// Reads the version vector of a space: the clock of each writer at this node.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn writers(&self, space: SpaceId) -> Result<Vec<WriterRow>, Refusal> {
        self.read_all(space, |space| space.writers()).await
    }

    /// Reads the state of each open space.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn status(&self) -> Result<Vec<SpaceStatus>, Refusal> {
        self.ask(|reply| Command::Status { reply }).await
    }

    /// Lists the links, with one row for each link and space.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn links(&self) -> Result<Vec<LinkRow>, Refusal> {
        self.ask(|reply| Command::Links { reply }).await
    }

    /// Whether this node runs on a copy of a data folder, and stands aside.
    pub fn is_copied(&self) -> bool {
        self.shared.copied.load(Ordering::Relaxed)
    }

    /// Lets this node take the place of the one from which its data folder was copied, by the word of an
    /// operator that this one is gone for good. Returns whether the folder was a copy.
    ///
    /// # Errors
    /// Fails when the data folder can't be written, or the node stops first.
    pub async fn adopt(&self) -> Result<bool, Refusal> {
        self.ask(|reply| Command::Adopt { reply }).await?
    }

    /// The members of all open spaces, with their later changes.
    pub fn member_lists(&self) -> watch::Receiver<MemberLists> {
        self.shared.member_lists.clone()
    }

    /// The writer under which this node writes in a space.
    pub fn own_writer(&self, space: SpaceId) -> WriterId {
        self.shared.writers.borrow()[space.0]
    }

    /// Returns a number for a new connection, which this node never uses again.
    pub fn next_link(&self) -> Link {
        Link(self.shared.links.fetch_add(1, Ordering::Relaxed))
    }

    /// Reports a new connection to the driver.
    pub async fn connect(&self, link: NewLink) {
        self.tell(Command::Connect(link).into()).await;
    }

    /// Reports the end of a connection to the driver.
    pub async fn disconnect(&self, link: Link) {
        self.tell(Command::Disconnect { link }.into()).await;
    }

    /// Reports that frames of a connection that goes on may have been lost, so that both ends compare
    /// what they hold.
    pub async fn compare(&self, link: Link) {
        self.tell(Command::Compare { link }.into()).await;
    }

    /// Passes a frame that arrived on a link to the driver.
    pub async fn frame(&self, link: Link, bytes: Vec<u8>) {
        self.tell(self.permitted(Command::Frame { link, bytes }))
            .await;
    }

    /// Passes a frame that arrived by broadcast to the driver; `from` is the link that delivered
    /// it.
    pub async fn broadcast(&self, from: Option<Link>, bytes: Vec<u8>) {
        self.tell(Command::Broadcast { from, bytes }.into()).await;
    }

    /// Passes a Redis client whose TLS handshake is done to the driver.
    pub async fn secured(&self, client: Secured) {
        self.tell(Command::Secured(Box::new(client)).into()).await;
    }

    /// Requests that the driver finish the queued work and stop.
    pub async fn stop(&self) {
        self.tell(Command::Stop.into()).await;
    }

    /// Reads a space, which takes little time. The work also gets the present time, in milliseconds
    /// since the start.
    async fn read_in<T: Send + 'static>(
        &self,
        space: SpaceId,
        work: impl FnOnce(&OpenSpace, u64) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let ask = |reply| Command::read(space, false, reply, work);
        self.ask(ask).await
    }

    /// Reads each counter or writer of a space. If there are many, that takes a tenth of a second.
    /// So the driver does it after all shorter work.
    async fn read_all<T: Send + 'static>(
        &self,
        space: SpaceId,
        work: impl FnOnce(&OpenSpace) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let ask = |reply| Command::read(space, true, reply, move |space, _| work(space));
        self.ask(ask).await
    }

    /// Registers a wait in a space, or a position. The work gets the present time, in milliseconds
    /// since the start, and the channel of its answer. It returns the answer if there is nothing to
    /// wait for.
    async fn wait_in<T: Send + 'static>(
        &self,
        space: SpaceId,
        work: impl FnOnce(VolatileState<'_>, u64, oneshot::Sender<T>) -> Option<Release>
        + Send
        + 'static,
    ) -> Result<T, Refusal> {
        let ask = |reply| Command::Wait {
            space,
            work: Box::new(move |space, now| work(space, now, reply)),
        };
        self.ask(ask).await
    }

    /// Changes a space.
    async fn write_in<T: Send + 'static>(
        &self,
        space: SpaceId,
        work: impl FnOnce(&mut OpenSpace, &WriteContext<'_>) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let ask = |reply| Command::write(space, reply, work);
        self.ask(ask).await
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        let command = self.permitted(command(reply));
        let left = match &self.shared.turn {
            Some(turn) => turn.take(command),
            None => Some(command),
        };
        if let Some(command) = left {
            self.tell(command).await;
        }
        answer.await.map_err(|_| self.unanswered())
    }

    /// Looks at the commit gate, for a client that may take turns.
    #[cfg(test)]
    pub(super) fn gate<T>(&self, look: impl FnOnce(&CommitGate) -> T) -> Option<T> {
        self.shared.turn.as_ref()?.gate(look)
    }

    /// A command with the ticket under which it is requested.
    fn permitted(&self, command: Command) -> Queued {
        let permit = self.permit.clone();
        Queued { command, permit }
    }

    /// The reason for which there is no answer.
    fn unanswered(&self) -> Refusal {
        let turned = self.permit.as_ref().and_then(|it| it.refusal());
        turned.unwrap_or(match self.shared.queue.is_closed() {
            true => Refusal::Stopped,
            false => Refusal::Internal,
        })
    }

    /// If the driver is gone, it needs no commands, so a failed send is no error. A caller that
    /// waits for an answer sees that the reply channel is closed.
    async fn tell(&self, command: Queued) {
        if self.shared.queue.send(command).await.is_ok() {
            self.shared.bell.0.ring();
        }
    }
}
