//! A browser profile that is open in three tabs with one store. A tab may be killed at any moment of a write.
//! Each tab writes under an id of its own, so everything that was stored counts once, and everything else is
//! lost.

use tallymesh_core::{Encode, Mark, Message, Op, Replica, Space, WriterId};
use tallymesh_tests::random::Random;
use tallymesh_tests::seeds;

const SEEDS: u64 = 2_000;
const TABS: usize = 3;

/// A tab: its replica, the change mark up to which the store has it, and how much of the store it has read.
struct Tab {
    replica: Replica,
    mark: Mark,
    read: usize,
}

/// The profile: the records of its tabs, and the sum of these.
struct Profile {
    random: Random,
    store: Vec<Vec<u8>>,
    stored: i128,
    ids: Vec<WriterId>,
}

impl Profile {
    fn open(&mut self) -> Result<Tab, String> {
        let writer = WriterId::mint(&Space::default(), &[5; 32], &self.random.bytes());
        if self.ids.contains(&writer) {
            return Err("an id came twice".into());
        }
        self.ids.push(writer);
        let mut tab = Tab {
            replica: Replica::new(Space::default(), writer),
            mark: Mark::default(),
            read: 0,
        };
        self.read(&mut tab)?;
        tab.replica.since(&mut tab.mark);
        Ok(tab)
    }

    /// Merges the records that the other tabs have stored since.
    fn read(&self, tab: &mut Tab) -> Result<(), String> {
        for record in &self.store[tab.read..] {
            let message = Message::decode_stored(record).map_err(|e| e.to_string())?;
            tab.replica.merge(&message).map_err(|e| e.to_string())?;
        }
        tab.read = self.store.len();
        Ok(())
    }

    fn append(&mut self, tab: &mut Tab) {
        if let Some(message) = tab.replica.since(&mut tab.mark) {
            self.store.push(message.encode());
        }
    }
}

/// Adds to both counters at once. Returns false if the tab was killed meanwhile.
fn write(profile: &mut Profile, tab: &mut Tab) -> Result<bool, String> {
    let by = (profile.random.next_u64() >> 24) as i64;
    let ops = [("a", Op::Add(by)), ("b", Op::Add(-by))];
    tab.replica.transact(&ops).map_err(|e| e.to_string())?;
    if profile.random.chance(150) {
        return Ok(false); // before it was stored
    }
    profile.append(tab);
    profile.stored += i128::from(by);
    Ok(!profile.random.chance(150)) // or after
}

fn run(seed: u64) -> Result<(), String> {
    let mut profile = Profile {
        random: Random::new(seed),
        store: Vec::new(),
        stored: 0,
        ids: Vec::new(),
    };
    let mut tabs: Vec<Tab> = Vec::new();
    for _ in 0..profile.random.range(5, 60) {
        if tabs.len() < TABS {
            tabs.push(profile.open()?);
        }
        let at = profile.random.index(tabs.len());
        if profile.random.chance(500) {
            profile.read(&mut tabs[at])?;
        } else if !write(&mut profile, &mut tabs[at])? {
            tabs.remove(at);
        }
    }
    let mut last = profile.open()?;
    for tab in tabs.iter_mut().chain([&mut last]) {
        profile.read(tab)?;
        let values = ["a", "b"].map(|key| tab.replica.value(key).unwrap_or(0));
        if values != [profile.stored, -profile.stored] {
            return Err(format!(
                "seed {seed}: {values:?}, stored {}",
                profile.stored
            ));
        }
        if tab.replica.canonical_bytes() != last_bytes(&profile)?
            || tab.replica.forks().fault_count() > 0
        {
            return Err(format!("seed {seed}: tabs differ"));
        }
    }
    Ok(())
}

/// The bytes of a replica restored from the store alone.
fn last_bytes(profile: &Profile) -> Result<Vec<u8>, String> {
    let mut tab = Tab {
        replica: Replica::new(Space::default(), WriterId::from_bytes([9; 16])),
        mark: Mark::default(),
        read: 0,
    };
    profile.read(&mut tab)?;
    Ok(tab.replica.canonical_bytes())
}

#[test]
fn tabs_that_are_killed_in_the_middle_of_a_write_count_once_or_not_at_all() {
    seeds::each(seeds::count(SEEDS), run);
}
