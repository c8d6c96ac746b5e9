//! The configurations that are explored, as data.

/// How the program of a start that finds a store judges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// It knows no places: each start is one like any other.
    Unknown,
    /// It knows a start in the place of the one before, and an older copy that was put back there.
    Known,
    /// It takes an older copy that was put back for the store that it left.
    Deceived,
}

/// A small space of members, and bounds on what may happen in it.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many members there are.
    pub members: usize,
    /// How the starts judge their stores.
    pub places: Places,
    /// Whether a member does its duties by themselves, and not only after it has received something.
    pub slow: bool,
    /// Most restarts in place.
    pub restarts: u8,
    /// Most older copies that are put back, at one of the members. Each is its state at the start.
    pub put_back: u8,
    /// Most disks that are replaced by empty ones, at the same member.
    pub wiped: u8,
    /// Most proposals. Each proposes other members.
    pub proposals: u8,
    /// Whether a write at level quorum is made.
    pub writes: bool,
    /// The space is put in order from every state whose number is a multiple of this.
    pub settle_each: usize,
    /// Most states. A run that meets this bound is incomplete.
    pub states_max: usize,
}

impl Config {
    /// Its name in reports.
    pub fn name(&self) -> String {
        let many = |count: u8, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let places = match self.places {
            Places::Unknown => "places unknown",
            Places::Known => "places known",
            Places::Deceived => "older copies not noticed",
        };
        let parts = [
            many(self.members as u8, "members"),
            many(self.restarts, "restarts in place"),
            many(self.put_back, "put back"),
            many(self.wiped, "wiped"),
            many(self.proposals, "proposals"),
            self.writes.then(|| "a quorum write".into()),
            self.slow.then(|| "slow duties".into()),
            Some(places.into()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// Three members, with places, where nothing happens yet.
fn base() -> Config {
    Config {
        members: 3,
        places: Places::Known,
        slow: false,
        restarts: 0,
        put_back: 0,
        wiped: 0,
        proposals: 1,
        writes: false,
        settle_each: 1,
        states_max: 2_000_000,
    }
}

/// The configurations of one, two and three members, and bounded ones of three and five.
pub fn full() -> Vec<Config> {
    let three = [
        (1, 0, 0, 1, false),
        (2, 0, 0, 1, false),
        (0, 1, 0, 2, false),
        (1, 1, 0, 1, false),
        (1, 0, 1, 1, false),
        (1, 0, 0, 1, true),
        (0, 1, 0, 1, true),
    ];
    let three = three.map(|(restarts, put_back, wiped, proposals, writes)| Config {
        restarts,
        put_back,
        wiped,
        proposals,
        writes,
        settle_each: 50,
        ..base()
    });
    let five = [(2, 0, 1), (0, 1, 2)].map(|(restarts, put_back, proposals)| Config {
        members: 5,
        restarts,
        put_back,
        proposals,
        settle_each: 500,
        states_max: 1_000_000,
        ..base()
    });
    let small = Config {
        members: 2,
        restarts: 2,
        writes: true,
        settle_each: 5,
        ..base()
    };
    let slow = Config {
        members: 2,
        slow: true,
        restarts: 1,
        settle_each: 5,
        ..base()
    };
    let mut configs = share();
    configs.extend([small, slow]);
    configs.extend(three);
    configs.extend(five);
    configs
}

/// The share that every test run explores. That of three members is bounded.
pub fn share() -> Vec<Config> {
    vec![
        Config {
            members: 1,
            restarts: 2,
            proposals: 2,
            writes: true,
            ..base()
        },
        Config {
            members: 2,
            restarts: 1,
            writes: true,
            settle_each: 5,
            ..base()
        },
        Config {
            restarts: 2,
            settle_each: 20,
            states_max: 20_000,
            ..base()
        },
        Config {
            restarts: 1,
            put_back: 1,
            proposals: 2,
            settle_each: 20,
            states_max: 20_000,
            ..base()
        },
    ]
}

/// Three members under the rule that knows no places: with one of them gone for good, a restarted one never
/// votes.
pub fn without_places() -> Config {
    Config {
        restarts: 1,
        places: Places::Unknown,
        states_max: 5_000,
        ..base()
    }
}

/// Three members of which one's disk is put back to an older copy. With [`Places::Deceived`] nobody notices.
pub fn put_back(places: Places) -> Config {
    Config {
        put_back: 1,
        proposals: 2,
        places,
        settle_each: 0,
        ..base()
    }
}
