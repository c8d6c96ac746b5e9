//! Expiry by a wall clock that jumps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tallymesh_core::Op;
use tallymesh_node::clock::WallClock;
use tallymesh_node::config::{Config, UpArgs};
use tallymesh_node::driver::Handle;
use tallymesh_node::model::{News, SpaceId, Wanted};
use tallymesh_node::node::Node;
use tallymesh_node::store::Memory;
use tokio::time::{sleep, timeout};

/// A node in this process whose clock the test sets.
struct Clocked {
    node: Node,
    handle: Handle,
    space: SpaceId,
    time: Arc<AtomicU64>,
    /// How often the clock was asked.
    asked: Arc<AtomicU64>,
    store: Memory,
}

impl Clocked {
    async fn start(store: Memory, now: u64) -> Clocked {
        let time = Arc::new(AtomicU64::new(now));
        let asked = Arc::new(AtomicU64::new(0));
        let (clock, count) = (time.clone(), asked.clone());
        let args = UpArgs {
            data: Some("unused".into()),
            http: Some("127.0.0.1:0".into()),
            ..UpArgs::default()
        };
        let mut config = Config {
            clock: WallClock::new(move || {
                count.fetch_add(1, Ordering::SeqCst);
                clock.load(Ordering::SeqCst)
            }),
            ..args.config().expect("a valid configuration")
        };
        // It looks at the clock all the time.
        config.gossip.book = false;
        let node = Node::start_on(Box::new(store.clone()), config).await;
        let node = node.expect("start");
        let handle = node.handle().clone();
        let space = handle.space("default").expect("open");
        Clocked {
            node,
            handle,
            space,
            time,
            asked,
            store,
        }
    }

    fn set_time(&self, now: u64) {
        self.time.store(now, Ordering::SeqCst);
    }

    async fn make(&self, key: &str, op: Op) {
        let done = self.handle.apply(self.space, key.into(), op).await;
        done.expect("done");
    }

    async fn value(&self, key: &str) -> Option<i128> {
        let read = self.handle.read(self.space, key.into()).await;
        read.expect("it runs").map(|counter| counter.now.value)
    }

    /// Waits until the driver has nothing left to do and sleeps.
    async fn quiet(&self) {
        let mut before = u64::MAX;
        loop {
            let asked = self.asked.load(Ordering::SeqCst);
            if asked == before {
                return;
            }
            before = asked;
            // The network looks each 100 ms, a driver at work each few.
            sleep(Duration::from_millis(30)).await;
        }
    }

    async fn expiring(&self) -> usize {
        self.handle.status().await.expect("it runs")[0].expiring
    }

    async fn clock(&self) -> u64 {
        self.handle.status().await.expect("it runs")[0].clock
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jump_ahead_is_noticed_without_being_asked() {
    let node = Clocked::start(Memory::default(), 1_000_000).await;
    node.make("likes", Op::Add(5)).await;
    node.make("likes", Op::Expire(90_000_000)).await;
    let all = Some(Wanted::default());
    let news = node.handle.watch(node.space, all).await;
    let mut news = news.expect("it runs");
    node.quiet().await;
    // A day in no time: the driver sleeps by another clock.
    node.set_time(90_000_000);
    let told = timeout(Duration::from_secs(10), news.recv()).await;
    let Ok(Ok(News::Changed(changes, _))) = told else {
        panic!("{told:?}");
    };
    assert_eq!(
        (changes.counters[0].key.as_str(), changes.counters[0].now),
        ("likes", None)
    );
    assert_eq!(node.expiring().await, 0);
    // It is deleted, so it stays away when the clock goes back, and a new life counts from zero.
    node.set_time(1_000_000);
    assert_eq!(node.value("likes").await, None);
    node.make("likes", Op::Add(2)).await;
    node.set_time(u64::MAX / 2);
    assert_eq!(node.value("likes").await, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jump_back_loses_no_expiry() {
    let node = Clocked::start(Memory::default(), 1_000_000).await;
    for key in ["a", "b"] {
        node.make(key, Op::Add(5)).await;
    }
    node.make("a", Op::Expire(2_000_000)).await;
    node.make("b", Op::Expire(3_000_000)).await;
    node.set_time(10);
    assert_eq!(node.value("a").await, Some(5));
    assert_eq!(node.expiring().await, 2);
    node.set_time(2_000_000);
    assert_eq!(
        (node.value("a").await, node.value("b").await),
        (None, Some(5))
    );
    node.set_time(0);
    assert_eq!(
        (node.value("a").await, node.value("b").await),
        (None, Some(5))
    );
    node.set_time(3_000_000);
    assert_eq!(node.value("b").await, None);
    assert_eq!(node.expiring().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_stands_still_does_not_make_the_driver_spin() {
    let node = Clocked::start(Memory::default(), 1_000_000).await;
    node.make("likes", Op::Add(5)).await;
    node.make("likes", Op::Expire(2_000_000)).await;
    let (commits, asked) = (node.store.commits(), node.asked.load(Ordering::SeqCst));
    for now in [0, 1_500_000, 5, 1_990_000] {
        node.set_time(now);
        sleep(Duration::from_millis(50)).await;
        assert_eq!(node.value("likes").await, Some(5));
    }
    let asked = node.asked.load(Ordering::SeqCst) - asked;
    assert!(asked < 50, "the clock was asked {asked} times in 0.2 s");
    assert_eq!(node.store.commits(), commits, "nothing was written");
    node.set_time(2_000_000);
    assert_eq!(node.value("likes").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_finds_the_expiries_that_are_stored() {
    let store = Memory::default();
    let node = Clocked::start(store.clone(), 1_000_000).await;
    let ops = (0..5_000).flat_map(|number| {
        let key = format!("k{number}");
        [(key.clone(), Op::Add(1)), (key, Op::Expire(2_000_000))]
    });
    let done = node.handle.transact(node.space, ops.collect()).await;
    assert_eq!(done.expect("done").len(), 10_000);
    assert_eq!((node.expiring().await, node.clock().await), (5_000, 1));
    node.node.run(async {}).await.expect("stop");

    // More are due at once than the driver deletes in one batch.
    let node = Clocked::start(store, 1_500_000).await;
    assert_eq!((node.expiring().await, node.clock().await), (5_000, 0));
    assert_eq!(node.value("k100").await, Some(1));
    node.set_time(2_500_000);
    assert_eq!(node.value("k100").await, None);
    let all_deleted = async {
        while node.expiring().await > 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let in_time = timeout(Duration::from_secs(10), all_deleted).await;
    in_time.expect("in time");
    assert_eq!(node.clock().await, 5_000, "one delete each");
}
