//! The wall clock, by which counters expire, and those of linked nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// For tests: the path of a file with a number, the milliseconds by which the clock is ahead. A
/// test that runs a node as a separate process can step its clock, without a change to the
/// machine's clock.
pub const TEST_CLOCK: &str = "TALLYMESH_TEST_CLOCK";

/// The shortest time between two reads of that file.
const LOOKED_AT_EACH: Duration = Duration::from_millis(100);

/// A difference between clocks that is not acted on, in milliseconds. It is in the range of the error of measuring.
const NEGLIGIBLE_MS: u64 = 100;

/// How long the clock of a node counts after its link is gone, in case the two connect again. Lower lets
/// a node fall back to its own clock, or to none, for the moment between two connections. Higher delays that where
/// the other node is gone for good.
const KEPT: Duration = Duration::from_secs(5);

/// How long a node that has started waits for the clock of another member before its own clock alone counts.
/// Lower lets a node with a wrong clock end counters before its first link is up. Higher delays expiries at a member
/// that starts while it reaches no other one.
const AWAITED: Duration = Duration::from_secs(5);

/// How long after a link came up the other node's clock is awaited. Then the own clock counts
/// without it, because that node may never answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// How long after a member's link came up the clocks of all other members are awaited. The slower one of two clocks
/// counts, so a slow own one would count until a third one is known. Lower lets it. Higher refuses for longer what
/// counts from now, where a member is down.
const TOGETHER: Duration = Duration::from_secs(1);

/// How long a judgement holds by the own clock, in milliseconds, while no linked clock changes.
const JUDGED_EACH_MS: u64 = 1_000;

/// A wall clock. The real one may jump both ways, and so may a test's.
///
/// It also has the clocks of linked nodes. All clones share those.
#[derive(Clone)]
pub struct WallClock {
    now: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// The start of the monotonic time, by which the clocks of linked nodes go on.
    begun: Instant,
    linked: Arc<Mutex<LinkedClocks>>,
}

/// The clocks of linked nodes.
///
/// Each is kept against the monotonic time, so that a step of the own wall clock does not move it.
#[derive(Default)]
struct LinkedClocks {
    /// How often a clock was awaited, set or removed.
    version: u64,
    /// By the public key of the node's owner.
    clocks: BTreeMap<[u8; 32], LinkedClock>,
    /// When the next clock of a lost link ceases to count, at the earliest.
    expires: Option<Instant>,
}

struct LinkedClock {
    /// How far it is ahead of the monotonic time, in milliseconds. `None` until the node tells it.
    ahead_ms: Option<i64>,
    /// When the link came up.
    since: Instant,
    /// When the link was lost.
    lost: Option<Instant>,
}

impl LinkedClocks {
    /// A link came up. A clock that is known counts on.
    fn linked(&mut self, owner: [u8; 32], since: Instant) {
        self.version += 1;
        let known = self.clocks.get(&owner).and_then(|it| it.ahead_ms);
        let new = LinkedClock {
            ahead_ms: known,
            since,
            lost: None,
        };
        self.clocks.insert(owner, new);
    }

    fn note(&mut self, owner: [u8; 32], ahead_ms: i64) {
        self.version += 1;
        let known = self.clocks.get(&owner);
        let new = LinkedClock {
            ahead_ms: Some(ahead_ms),
            since: known.map_or_else(Instant::now, |it| it.since),
            lost: None,
        };
        self.clocks.insert(owner, new);
    }

    fn lost(&mut self, owner: &[u8; 32], now: Instant) {
        if let Some(clock) = self.clocks.get_mut(owner) {
            clock.lost = Some(now);
            self.expires.get_or_insert(now + KEPT);
        }
    }

    /// Forgets the clocks that no longer count.
    fn expire(&mut self, now: Instant) {
        if self.expires.is_none_or(|at| now < at) {
            return;
        }
        self.version += 1;
        let ends = |clock: &LinkedClock| clock.lost.map(|lost| lost + KEPT);
        self.clocks
            .retain(|_, clock| ends(clock).is_none_or(|end| now < end));
        self.expires = self.clocks.values().filter_map(ends).min();
    }

    /// The median of the clocks whose owners `counts` accepts, and of `own`, if it is given. Of two in the middle,
    /// it is the one that is behind, because then a counter lives longer. `None` without any clock.
    fn median(&self, own: Option<i64>, counts: impl Fn(&[u8; 32]) -> bool) -> Option<i64> {
        let counted = self.clocks.iter().filter(|(owner, _)| counts(owner));
        let ahead = counted.filter_map(|(_, clock)| clock.ahead_ms);
        let mut ahead: Vec<i64> = ahead.chain(own).collect();
        ahead.sort_unstable();
        let middle = ahead.len().saturating_sub(1) / 2;
        ahead.get(middle).copied()
    }

    /// Whether clocks are awaited of those `others` whose owners `counts` accepts.
    fn is_awaited(&self, now: Instant, others: usize, counts: impl Fn(&[u8; 32]) -> bool) -> bool {
        let all = || self.clocks.iter().filter(|(owner, _)| counts(owner));
        let most = match all().filter(|(_, it)| it.ahead_ms.is_some()).count() {
            0 => ANSWERS_WITHIN,
            known if known < others => TOGETHER,
            _ => return false,
        };
        all().any(|(_, clock)| {
            let is_new = now.duration_since(clock.since) < most;
            is_new && clock.lost.is_none() && (clock.ahead_ms.is_none() || most == TOGETHER)
        })
    }
}

/// The weight of the own clock in a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnClock {
    /// Nothing, because this node is no member.
    Guest,
    /// It counts, because this node is the only member.
    Only,
    /// It counts beside those of so many other members. No clock counts while those of others are awaited: right
    /// after the start, and after a link came up.
    OneOfSeveral(usize),
}

impl OwnClock {
    /// That of a node in a space with so many members.
    pub fn of(is_member: bool, members: usize) -> OwnClock {
        match (is_member, members) {
            (false, _) => OwnClock::Guest,
            (true, 1) => OwnClock::Only,
            (true, _) => OwnClock::OneOfSeveral(members.saturating_sub(1)),
        }
    }
}

/// The time by which a space judges expiries, against the own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpaceClock {
    ahead_ms: i64,
    /// The version of the linked clocks and the own clock when this was judged, and what that counted for.
    judged: Option<(u64, u64, OwnClock)>,
    /// Whether any clock counted.
    is_known: bool,
}

impl SpaceClock {
    /// Milliseconds since 1970 in the space, when the own clock shows `wall`.
    pub fn time(&self, wall: u64) -> u64 {
        wall.saturating_add_signed(self.ahead_ms)
    }

    /// Whether this is the time by a clock that counts. Otherwise it is only what the own clock shows, and that
    /// does not count.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// What the own clock shows at this time of the space.
    pub fn wall(&self, time: u64) -> u64 {
        time.saturating_add_signed(self.ahead_ms.saturating_neg())
    }

    /// Judges again, unless the last judgement still holds. The parameters are those of
    /// [`WallClock::median_ahead`], and `wall`, which the own clock shows.
    pub fn judge(
        &mut self,
        wall: u64,
        clock: &WallClock,
        own: OwnClock,
        counts: impl Fn(&[u8; 32]) -> bool,
    ) {
        let version = clock.version();
        if self.judged.is_some_and(|(of, at, as_own)| {
            (of, as_own) == (version, own) && at.abs_diff(wall) < JUDGED_EACH_MS
        }) {
            return;
        }
        self.judged = Some((version, wall, own));
        let median = clock.median_ahead(own, counts);
        self.is_known = median.is_some();
        self.set(median.unwrap_or(0));
    }

    /// Takes over a difference. Small ones would only let the time go back now and then.
    fn set(&mut self, ahead_ms: i64) {
        if ahead_ms == 0 || ahead_ms.abs_diff(self.ahead_ms) > NEGLIGIBLE_MS {
            self.ahead_ms = ahead_ms;
        }
    }
}

impl WallClock {
    /// A clock that asks `now` for the milliseconds since 1970.
    pub fn new(now: impl Fn() -> u64 + Send + Sync + 'static) -> WallClock {
        WallClock {
            now: Arc::new(now),
            begun: Instant::now(),
            linked: Arc::default(),
        }
    }

    /// Milliseconds since 1970.
    pub fn now(&self) -> u64 {
        (self.now)()
    }

    /// How far this clock is ahead of the monotonic time, in milliseconds.
    fn ahead_of_monotonic(&self) -> i64 {
        let now = i64::try_from(self.now()).unwrap_or(i64::MAX);
        let monotonic = i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX);
        now - monotonic // Neither is below 0.
    }

    /// Records that a link to a node came up, which is about to tell its clock.
    pub fn note_link(&self, owner: [u8; 32]) {
        self.linked().linked(owner, Instant::now());
    }

    /// Records how many milliseconds the clock of a linked node is ahead of this one.
    pub fn note_linked(&self, owner: [u8; 32], ahead_ms: i64) {
        let ahead_ms = self.ahead_of_monotonic().saturating_add(ahead_ms);
        self.linked().note(owner, ahead_ms);
    }

    /// Records that a node is no longer linked. Its clock still counts for some seconds.
    pub fn note_lost(&self, owner: &[u8; 32]) {
        self.linked().lost(owner, Instant::now());
    }

    /// How often the clocks of linked nodes changed.
    fn version(&self) -> u64 {
        let mut linked = self.linked();
        linked.expire(Instant::now());
        linked.version
    }

    /// How many milliseconds the median of some clocks is ahead of this one: of those whose owners `counts` accepts,
    /// and of this clock, as far as it counts. Of two clocks in the middle, it is the one that is
    /// behind, because then a counter lives longer. `None` if no clock counts.
    pub fn median_ahead(&self, own: OwnClock, counts: impl Fn(&[u8; 32]) -> bool) -> Option<i64> {
        let own_ahead = self.ahead_of_monotonic();
        let linked = self.linked();
        if let OwnClock::OneOfSeveral(others) = own {
            let is_young = self.begun.elapsed() < AWAITED && linked.median(None, &counts).is_none();
            if is_young || linked.is_awaited(Instant::now(), others, &counts) {
                return None;
            }
        }
        let counted = (own != OwnClock::Guest).then_some(own_ahead);
        Some(linked.median(counted, &counts)?.saturating_sub(own_ahead))
    }

    fn linked(&self) -> MutexGuard<'_, LinkedClocks> {
        self.linked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This clock, shifted by the number of milliseconds in a file, which may change at any time.
    /// Without a number in the file the clock is not shifted.
    fn off_by(self, file: PathBuf) -> WallClock {
        let looked: Mutex<Option<(Instant, i64)>> = Mutex::default();
        WallClock::new(move || {
            let mut looked = looked.lock().unwrap_or_else(PoisonError::into_inner);
            let known = looked.filter(|(at, _)| at.elapsed() < LOOKED_AT_EACH);
            let offset = known.map_or_else(
                || {
                    let text = fs::read_to_string(&file).unwrap_or_default();
                    text.trim().parse().unwrap_or(0)
                },
                |(_, offset)| offset,
            );
            if known.is_none() {
                *looked = Some((Instant::now(), offset));
            }
            self.now().saturating_add_signed(offset)
        })
    }
}

impl Default for WallClock {
    /// The system's clock; a test may step it, see [`TEST_CLOCK`]. Before 1970 it gives 0.
    fn default() -> WallClock {
        let clock = WallClock::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.map_or(0, |since| {
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            })
        });
        match std::env::var_os(TEST_CLOCK) {
            Some(file) => clock.off_by(file.into()),
            None => clock,
        }
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WallClock")
            .field("now", &self.now())
            .finish()
    }
}

/// Reads a duration, such as `90s` or `1day 12h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|problem| format!("{problem}; write a duration such as 90s, 15m, 24h or 7d"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_test_steps_the_clock_both_ways_by_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("offset");
        let clock = || WallClock::new(|| 1_000).off_by(file.clone());
        assert_eq!(clock().now(), 1_000, "no file");
        for (text, now) in [
            ("250\n", 1_250),
            ("-400", 600),
            ("-5000", 0),
            ("soon", 1_000),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(clock().now(), now, "{text:?}");
        }
    }

    #[test]
    fn the_median_is_that_of_the_linked_clocks_that_count() {
        let mut linked = LinkedClocks::default();
        let all = |_: &[u8; 32]| true;
        assert_eq!(
            (linked.median(Some(5), all), linked.median(None, all)),
            (Some(5), None)
        );
        linked.note([1; 32], 7_000);
        // In the middle of two, the one that is behind counts.
        assert_eq!(
            (linked.median(Some(5), all), linked.median(None, all)),
            (Some(5), Some(7_000))
        );
        linked.note([2; 32], 9_000);
        assert_eq!(linked.median(Some(5), all), Some(7_000));
        assert_eq!(linked.median(None, all), Some(7_000));
        assert_eq!(linked.median(None, |owner| owner[0] == 2), Some(9_000));
        linked.note([1; 32], -3_000);
        linked.note([2; 32], -5_000);
        assert_eq!(linked.median(Some(5), all), Some(-3_000));
        // The clock of a lost link counts on for a while, and a new link keeps it.
        let now = Instant::now();
        let soon = now + KEPT - Duration::from_millis(1);
        linked.lost(&[1; 32], now);
        linked.lost(&[2; 32], now);
        let version = linked.version;
        linked.expire(soon);
        assert_eq!(linked.version, version);
        assert_eq!(linked.median(None, all), Some(-5_000));
        linked.note([2; 32], -6_000);
        linked.expire(now + KEPT);
        assert_eq!(linked.version, version + 2);
        assert_eq!(linked.median(Some(5), all), Some(-6_000));
        assert_eq!(linked.median(None, |owner| owner[0] == 1), None);
    }

    /// A node whose clock is set wrong goes on by the others, at once.
    #[test]
    fn a_step_of_the_own_clock_does_not_move_linked_clocks() {
        const HOUR_MS: u64 = 3_600_000;
        let time = Arc::new(AtomicU64::new(10 * HOUR_MS));
        let shown = time.clone();
        let clock = WallClock::new(move || shown.load(Ordering::SeqCst));
        clock.note_linked([1; 32], 0);
        clock.note_linked([2; 32], 0);
        let mut space = SpaceClock::default();
        let mut off_by = |wall: u64, own| {
            time.store(wall, Ordering::SeqCst);
            let standing = if own { OwnClock::Only } else { OwnClock::Guest };
            space.judge(wall, &clock, standing, |_| true);
            let linked = clock.linked().clocks.len();
            assert_eq!(space.is_known(), own || linked > 0);
            assert_eq!(space.wall(space.time(wall)), wall);
            // The monotonic time goes on, although this clock stands still.
            space.time(wall).abs_diff(10 * HOUR_MS)
        };
        assert!(off_by(10 * HOUR_MS, true) < HOUR_MS / 60);
        assert!(off_by(12 * HOUR_MS, true) < HOUR_MS / 60);
        assert!(off_by(8 * HOUR_MS, true) < HOUR_MS / 60);
        let lose = |owner: u8| clock.linked().lost(&[owner; 32], Instant::now() - KEPT);
        lose(1);
        // It is behind the other one, and so counts, if it is a member's.
        assert_eq!(off_by(8 * HOUR_MS, true), 2 * HOUR_MS);
        clock.note_linked([1; 32], 2 * HOUR_MS as i64);
        assert!(off_by(8 * HOUR_MS, false) < HOUR_MS / 60);
        lose(1);
        lose(2);
        // Alone it goes by itself, without waiting.
        assert_eq!(off_by(8 * HOUR_MS, false), 2 * HOUR_MS);
        assert_eq!(off_by(9 * HOUR_MS, true), HOUR_MS);
    }

    /// A node whose clock is wrong must not go by it for the moment before it hears the clocks of others.
    #[test]
    fn one_of_several_waits_for_the_clocks_of_others() {
        let mut clock = WallClock::new(|| 36_000_000);
        let own = OwnClock::OneOfSeveral(2);
        let ahead = |clock: &WallClock| clock.median_ahead(own, |it| it[0] < 9);
        let ago = |time| Instant::now() - time;
        assert_eq!(ahead(&clock), None, "right after the start");
        assert_eq!(clock.median_ahead(OwnClock::Only, |_| true), Some(0));
        clock.begun -= AWAITED;
        assert_eq!(ahead(&clock), Some(0), "it reaches nobody");
        clock.note_link([9; 32]);
        assert_eq!(ahead(&clock), Some(0), "a guest's clock is not awaited");
        clock.note_link([1; 32]);
        assert_eq!(ahead(&clock), None, "a link came up");
        clock.note_linked([1; 32], 7_200_000);
        assert_eq!(
            ahead(&clock),
            None,
            "the other one is awaited, as this clock is behind"
        );
        clock.linked().linked([1; 32], ago(TOGETHER));
        assert_eq!(ahead(&clock), Some(0), "it may be down");
        clock.note_link([2; 32]);
        assert_eq!(ahead(&clock), None, "it is up");
        clock.note_linked([2; 32], 7_300_000);
        assert_eq!(ahead(&clock), Some(7_200_000));
        clock.note_lost(&[1; 32]);
        clock.note_link([1; 32]);
        clock.linked().expire(Instant::now() + KEPT);
        assert_eq!(ahead(&clock), Some(7_200_000), "the link is back");
        for owner in [1, 2] {
            clock.linked().lost(&[owner; 32], ago(KEPT));
        }
        clock.linked().expire(Instant::now());
        assert_eq!(ahead(&clock), Some(0), "it is alone");
        clock.note_link([2; 32]);
        assert_eq!(ahead(&clock), None);
        clock.linked().linked([2; 32], ago(ANSWERS_WITHIN));
        assert_eq!(ahead(&clock), Some(0), "it tells nothing");
    }

    #[test]
    fn small_differences_do_not_move_the_time_of_a_space() {
        let mut space = SpaceClock::default();
        for (ahead_ms, time) in [
            (100, 0),
            (-100, 0),
            (101, 101),
            (20, 101),
            (201, 101),
            (202, 202),
            (0, 0),
        ] {
            space.set(ahead_ms);
            assert_eq!(space.time(0), time, "{ahead_ms}");
        }
    }

    #[test]
    fn a_running_clock_sees_that_the_file_changed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("offset");
        let clock = WallClock::new(|| 1_000).off_by(file.clone());
        assert_eq!(clock.now(), 1_000);
        fs::write(&file, "7").unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while clock.now() != 1_007 {
            assert!(Instant::now() < deadline, "it never looked again");
            std::thread::yield_now();
        }
    }
}
