//! The kinds of requests: which of them lead to a commit, and which are left out.

use super::*;
use crate::driver::command::Queued;
use tallymesh_node_ground::model::{MemberChange, Query, Retiree};

impl Alone {
    fn commits(&self) -> usize {
        self.gate.turns().entered.len()
    }

    /// Makes a request. Returns whether the driver then needs a commit that it did not need before.
    fn needs_commit<T>(&self, request: impl Future<Output = T>) -> bool {
        let since = Instant::now();
        while self.handle.gate(CommitGate::is_done) != Some(true) {
            assert!(since.elapsed() < PATIENCE, "no commit");
            thread::yield_now();
        }
        let before = self.handle.gate(CommitGate::commit_of_state);
        within_patience(&self.runtime, request);
        self.handle.gate(CommitGate::commit_of_state) > before
    }
}

fn every_key() -> Query {
    Query {
        prefix: String::new(),
        after: None,
        limit: 10,
    }
}

#[test]
fn only_a_write_leads_to_a_commit() {
    let alone = Alone::new(Durability::Interval(Duration::ZERO));
    let it = &alone.handle;
    let (key, owner) = (
        || "a".to_owned(),
        tallymesh_node_ground::identity::OwnerKey([7; 32]),
    );
    let add = || vec![(key(), Op::Add(1))];
    assert!(alone.needs_commit(it.add(SPACE, key(), 1)));
    drop(alone.gate.wait(|turns| turns.entered.len() == 1));
    let position = within_patience(&alone.runtime, it.position(SPACE)).expect("well");
    let wanted = Wanted::default;
    let demand = || Demand::default();
    let reads = [
        alone.needs_commit(it.read(SPACE, key())),
        alone.needs_commit(it.read_many(SPACE, vec![key()])),
        alone.needs_commit(it.shards(SPACE, key())),
        alone.needs_commit(it.list(SPACE, every_key())),
        alone.needs_commit(it.audit(SPACE, every_key())),
        alone.needs_commit(it.budget(SPACE, key())),
        alone.needs_commit(it.budgets(SPACE, every_key())),
        alone.needs_commit(it.sequence(SPACE, key())),
        alone.needs_commit(it.sequences(SPACE, every_key())),
        alone.needs_commit(it.limits(SPACE)),
        alone.needs_commit(it.period(SPACE, key())),
        alone.needs_commit(it.watch(SPACE, None)),
        alone.needs_commit(it.position(SPACE)),
        alone.needs_commit(it.changed_since(SPACE, position, 0, wanted())),
        alone.needs_commit(it.writers(SPACE)),
        alone.needs_commit(it.members(SPACE)),
        alone.needs_commit(it.trusts(SPACE, owner)),
        alone.needs_commit(it.status()),
        alone.needs_commit(it.links()),
        alone.needs_commit(it.check(SPACE, demand())),
        alone.needs_commit(it.reach(SPACE, demand())),
        alone.needs_commit(it.read_back(SPACE, vec![key()], demand())),
        alone.needs_commit(it.completeness(SPACE)),
    ];
    assert!(!reads.contains(&true), "{reads:?}");
    assert_eq!(alone.commits(), 1);
    let change = MemberChange::Add(owner);
    let writes = [
        alone.needs_commit(it.add(SPACE, key(), 1)),
        alone.needs_commit(it.add_many(SPACE, Vec::new())),
        alone.needs_commit(it.apply(SPACE, key(), Op::Add(1))),
        alone.needs_commit(it.transact(SPACE, add())),
        alone.needs_commit(it.write(
            SPACE,
            add().into_iter().map(Into::into).collect(),
            None,
            demand(),
        )),
        alone.needs_commit(it.change_members(SPACE, &change, Duration::ZERO)),
        alone.needs_commit(it.force_members(SPACE, vec![owner])),
        alone.needs_commit(it.retire(SPACE, Retiree::Owner(owner), Duration::ZERO)),
        alone.needs_commit(it.found(SPACE)),
    ];
    assert!(!writes.contains(&false), "{writes:?}");
}

#[test]
fn a_refused_write_that_changed_nothing_costs_the_store_nothing() {
    let alone = Alone::new(Durability::Interval(Duration::ZERO));
    let it = &alone.handle;
    within_patience(&alone.runtime, it.add(SPACE, "a".to_owned(), 1)).expect("well");
    drop(alone.gate.wait(|turns| turns.entered.len() == 1));
    let refused = it.add(SPACE, String::new(), 1);
    assert!(within_patience(&alone.runtime, refused).is_err());
    let op = it.write(SPACE, Vec::new(), None, Demand::default());
    let _ = within_patience(&alone.runtime, op);
    within_patience(&alone.runtime, it.add(SPACE, "b".to_owned(), 1)).expect("well");
    let turns = alone.gate.wait(|turns| turns.entered.len() > 1);
    let mut replay = Replay::new(Space::default(), WriterId::from_bytes([1; 16]));
    for record in turns.entered[..2].iter().flatten() {
        let taken = replay.take(record.kind, &record.bytes);
        taken.expect("a record that can be used");
    }
    // So there was no commit between the two.
    assert_eq!(replay.end().value("b"), Some(1));
}

/// A client, and the queue that nobody takes its requests from.
fn unserved() -> (Handle, mpsc::Receiver<Queued>) {
    let poll = Poll::new().expect("a poll");
    let bell = Bell::new(Waker::new(poll.registry(), BELL).expect("a waker"));
    let (sender, queue) = mpsc::channel(16);
    let member_lists = watch::channel([None].into_iter().collect()).1;
    let writers = [WriterId::from_bytes([1; 16])].into_iter().collect();
    let news = (member_lists, watch::channel(writers).1);
    let spaces = Arc::from([Space::default()]);
    (
        Handle::new(sender, bell, spaces, None, Arc::default(), news),
        queue,
    )
}

#[test]
fn a_read_is_abandoned_once_its_client_is_gone_and_a_write_never_is() {
    let (handle, mut queue) = unserved();
    let mut list = Box::pin(handle.list(SPACE, every_key()));
    let mut read = Box::pin(handle.read(SPACE, "a".to_owned()));
    let mut add = Box::pin(handle.add(SPACE, "a".to_owned(), 1));
    assert!(list.as_mut().now_or_never().is_none());
    assert!(read.as_mut().now_or_never().is_none());
    assert!(add.as_mut().now_or_never().is_none());
    let mut take = || queue.try_recv().expect("it is queued").command;
    let [listed, looked, added] = [take(), take(), take()];
    let commands = [&listed, &looked, &added];
    assert_eq!(commands.map(|it| it.is_long()), [true, false, false]);
    assert_eq!(commands.map(|it| it.is_abandoned()), [false; 3]);
    drop((list, read, add));
    assert_eq!(commands.map(|it| it.is_abandoned()), [true, true, false]);
}
