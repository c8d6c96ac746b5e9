//! The configurations that are explored, as data.

use super::links::MEMBERS_MAX;

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

/// What one step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// A message that is received, or an action of one member.
    Messages,
    /// A fault, a proposal, a write, or one round, in which all linked members exchange their states once.
    Rounds,
    /// A fault, a proposal or a write. After it, linked members exchange their states until nothing is new.
    Events,
}

/// How often something may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    /// Starts in place.
    pub restarts: u8,
    /// Disks that are put back to an older copy, in place.
    pub put_back: u8,
    /// Disks that are replaced by empty ones.
    pub wiped: u8,
    /// Copies of disks that are made, to be put back later. Without them, the older copy is of the beginning.
    pub backups: u8,
    /// Proposals of a limit. Each proposes another one.
    pub proposals: u8,
    /// Proposals to remove a member.
    pub removals: u8,
    /// Writes at level quorum. One at most.
    pub writes: u8,
    /// Members that are killed, and are down until their next start.
    pub kills: u8,
    /// Changes of links.
    pub cuts: u8,
    /// Disks that are copied while their member runs. The copy runs beside it, and may be adopted once that is
    /// down. One at most.
    pub copies: u8,
}

/// As often as the depth allows.
pub(super) const ANY: u8 = u8::MAX;

impl Counts {
    fn words(&self) -> Vec<String> {
        let of = [
            (self.restarts, "restart in place", "restarts in place"),
            (self.put_back, "put back", "put back"),
            (self.wiped, "wiped", "wiped"),
            (self.backups, "backup", "backups"),
            (self.kills, "kill", "kills"),
            (self.cuts, "cut", "cuts"),
            (self.copies, "copy", "copies"),
            (self.proposals, "proposal", "proposals"),
            (self.removals, "removal", "removals"),
        ];
        let words = of.into_iter().filter(|it| it.0 > 0);
        words
            .map(|(count, one, many)| match count {
                ANY => many.to_owned(),
                1 => format!("1 {one}"),
                _ => format!("{count} {many}"),
            })
            .collect()
    }
}

/// A small space of members, and bounds on what may happen in it.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many members there are.
    pub members: usize,
    /// How the starts judge their stores.
    pub places: Places,
    /// What one step is.
    pub pace: Pace,
    /// Whether a member does its duties by themselves, and not only after it has received something.
    pub slow: bool,
    /// How often something may happen.
    pub most: Counts,
    /// Whether any disk may be put back or replaced. Otherwise only that of the member in the middle.
    pub any_disk: bool,
    /// Most members at a time that have lost their disk, and not regained their vote. A majority must be left,
    /// but for two members, of which one may lose it.
    pub lost_max: usize,
    /// The members from this one on never propose and never write. So those of them to which nothing has
    /// happened are alike, and states that differ only in them are one.
    pub alike: usize,
    /// Most steps. 0 means any number.
    pub depth_max: usize,
    /// The space is put in order from every state whose number is a multiple of this.
    pub settle_each: usize,
    /// Most states. A run that meets this bound is incomplete.
    pub states_max: usize,
}

impl Config {
    /// Its name in reports.
    pub fn name(&self) -> String {
        let members = match self.members {
            1 => "1 member".into(),
            count => format!("{count} members"),
        };
        let mut parts = vec![members];
        parts.extend(self.most.words());
        if self.most.writes > 0 {
            parts.push("a quorum write".into());
        }
        if self.slow {
            parts.push("slow duties".into());
        }
        parts.push(
            match self.places {
                Places::Unknown => "places unknown",
                Places::Known => "places known",
                Places::Deceived => "older copies not noticed",
            }
            .into(),
        );
        match self.pace {
            Pace::Messages => {}
            Pace::Rounds => parts.push("by rounds".into()),
            Pace::Events => parts.push("by events".into()),
        }
        if self.lost_max > 1 {
            parts.push(format!("{} disks lost at a time", self.lost_max));
        }
        if self.depth_max > 0 {
            parts.push(format!("{} steps", self.depth_max));
        }
        parts.join(", ")
    }
}

/// Three members, with places, where nothing happens yet.
fn base() -> Config {
    Config {
        members: 3,
        places: Places::Known,
        pace: Pace::Messages,
        slow: false,
        most: Counts {
            proposals: 1,
            ..Counts::default()
        },
        any_disk: false,
        lost_max: 1,
        alike: MEMBERS_MAX,
        depth_max: 0,
        settle_each: 1,
        states_max: 2_000_000,
    }
}

/// All kinds of events, as often as the depth allows.
const ALL: Counts = Counts {
    restarts: ANY,
    put_back: ANY,
    wiped: ANY,
    backups: 0,
    proposals: ANY,
    removals: 0,
    writes: 1,
    kills: ANY,
    cuts: ANY,
    copies: 0,
};

/// Every order of kills, restarts, older copies, empty disks, cuts, proposals and a write, in this many steps.
fn events(members: usize, pace: Pace, depth_max: usize) -> Config {
    Config {
        members,
        pace,
        most: match members {
            // One member has no witness, so an older copy of its disk is not noticed.
            1 => Counts {
                put_back: 0,
                wiped: 0,
                cuts: 0,
                ..ALL
            },
            _ => ALL,
        },
        any_disk: true,
        alike: if members > 3 { 2 } else { MEMBERS_MAX },
        depth_max,
        states_max: 5_000_000,
        ..base()
    }
}

/// The same, where members are also removed.
fn removals(members: usize, pace: Pace, depth_max: usize) -> Config {
    let config = events(members, pace, depth_max);
    Config {
        most: Counts {
            removals: ANY,
            ..config.most
        },
        ..config
    }
}

/// Copies that run beside their originals, and older copies of any time.
fn copies(members: usize, pace: Pace, depth_max: usize) -> Config {
    let config = events(members, pace, depth_max);
    Config {
        most: Counts {
            wiped: 0,
            backups: 1,
            copies: 1,
            ..config.most
        },
        ..config
    }
}

/// These events in every order, and as many rounds between them as there is something new.
fn orders(members: usize, pace: Pace, most: Counts) -> Config {
    Config {
        most,
        settle_each: 500,
        ..events(members, pace, 0)
    }
}

/// Few events with which a member that counts without its disk loses a write, and with which a minority that
/// decides on a removal decides twice.
fn shortest() -> [Config; 2] {
    let disk = Counts {
        kills: 1,
        cuts: 2,
        put_back: 1,
        writes: 1,
        ..Counts::default()
    };
    let removal = Counts {
        proposals: 1,
        removals: 1,
        cuts: 1,
        ..Counts::default()
    };
    [
        orders(3, Pace::Events, disk),
        orders(3, Pace::Rounds, removal),
    ]
}

/// Ballots that compete: those of three members, and those of five where one restarts in its place.
fn ballots() -> [Config; 2] {
    let three = Counts {
        proposals: 3,
        cuts: 2,
        ..Counts::default()
    };
    let five = Counts {
        proposals: 2,
        cuts: 2,
        restarts: 1,
        ..Counts::default()
    };
    let five = Config {
        states_max: 1_000_000,
        ..orders(5, Pace::Rounds, five)
    };
    [orders(3, Pace::Rounds, three), five]
}

/// Five members of which two disks are put back at the same time, while others are cut off.
pub fn two_lost() -> Config {
    Config {
        lost_max: 2,
        ..events(5, Pace::Events, 0)
    }
}

/// The orders of few events in which two of five disks are lost at the same time.
fn two_disks(wiped: u8, depth_max: usize) -> Config {
    let most = Counts {
        put_back: 2 - wiped,
        wiped,
        cuts: 2,
        proposals: 2,
        writes: 1,
        ..Counts::default()
    };
    Config {
        most,
        depth_max,
        settle_each: 200,
        ..two_lost()
    }
}

/// Members that are all up and linked, where nobody notices that older copies of disks were put back. The other
/// members notice, and so nothing is decided twice.
fn deceived(members: usize, depth_max: usize) -> Config {
    let config = events(members, Pace::Events, depth_max);
    Config {
        places: Places::Deceived,
        most: Counts {
            cuts: 0,
            kills: 0,
            wiped: 0,
            backups: 1,
            ..config.most
        },
        ..config
    }
}

/// The configurations of one, two and three members, and bounded ones of three and five.
pub fn full() -> Vec<Config> {
    let three = [
        (1, 0, 0, 1, 0),
        (2, 0, 0, 1, 0),
        (0, 1, 0, 2, 0),
        (1, 1, 0, 1, 0),
        (1, 0, 1, 1, 0),
        (1, 0, 0, 1, 1),
        (0, 1, 0, 1, 1),
    ];
    let three = three.map(|(restarts, put_back, wiped, proposals, writes)| Config {
        most: Counts {
            restarts,
            put_back,
            wiped,
            proposals,
            writes,
            ..Counts::default()
        },
        settle_each: 50,
        ..base()
    });
    let five = [(2, 0, 1), (0, 1, 2)].map(|(restarts, put_back, proposals)| Config {
        members: 5,
        most: Counts {
            restarts,
            put_back,
            proposals,
            ..Counts::default()
        },
        settle_each: 500,
        states_max: 1_000_000,
        ..base()
    });
    let small = Config {
        members: 2,
        most: Counts {
            restarts: 2,
            proposals: 1,
            writes: 1,
            ..Counts::default()
        },
        settle_each: 5,
        ..base()
    };
    let slow = Config {
        members: 2,
        slow: true,
        most: Counts {
            restarts: 1,
            proposals: 1,
            ..Counts::default()
        },
        settle_each: 5,
        ..base()
    };
    let mut configs = share();
    configs.extend([small, slow]);
    configs.extend(three);
    configs.extend(five);
    configs.extend(by_events());
    configs
}

/// Those whose steps are events or rounds, in full.
fn by_events() -> Vec<Config> {
    let each = |settle_each, config| Config {
        settle_each,
        ..config
    };
    let mut configs = vec![
        events(1, Pace::Events, 8),
        each(20, events(2, Pace::Events, 5)),
        each(20, events(2, Pace::Rounds, 7)),
        each(20, removals(2, Pace::Events, 5)),
        each(20, copies(2, Pace::Events, 5)),
        each(200, events(3, Pace::Events, 4)),
        each(200, events(3, Pace::Rounds, 5)),
        each(200, removals(3, Pace::Events, 4)),
        each(200, copies(3, Pace::Events, 4)),
        each(50, deceived(3, 4)),
        each(200, events(5, Pace::Events, 3)),
        each(200, events(5, Pace::Rounds, 4)),
        each(200, removals(5, Pace::Events, 3)),
        two_disks(0, 5),
        two_disks(1, 5),
    ];
    configs.extend(ballots());
    configs
}

/// The same in few steps.
fn share_by_events() -> Vec<Config> {
    let each = |settle_each, config| Config {
        settle_each,
        ..config
    };
    let mut configs = vec![
        events(1, Pace::Events, 6),
        each(5, events(2, Pace::Events, 3)),
        each(20, events(2, Pace::Rounds, 4)),
        each(5, removals(2, Pace::Events, 3)),
        each(20, copies(2, Pace::Events, 3)),
        each(20, events(3, Pace::Events, 2)),
        each(20, removals(3, Pace::Rounds, 3)),
        each(20, copies(3, Pace::Events, 2)),
        each(50, events(5, Pace::Events, 2)),
        two_disks(0, 3),
    ];
    configs.extend(shortest());
    configs
}

/// The share that every test run explores. That of three members is bounded.
pub fn share() -> Vec<Config> {
    let mut configs = vec![
        Config {
            members: 1,
            most: Counts {
                restarts: 2,
                proposals: 2,
                writes: 1,
                ..Counts::default()
            },
            ..base()
        },
        Config {
            members: 2,
            most: Counts {
                restarts: 1,
                proposals: 1,
                writes: 1,
                ..Counts::default()
            },
            settle_each: 5,
            ..base()
        },
        Config {
            most: Counts {
                restarts: 2,
                proposals: 1,
                ..Counts::default()
            },
            settle_each: 20,
            states_max: 20_000,
            ..base()
        },
        Config {
            most: Counts {
                restarts: 1,
                put_back: 1,
                proposals: 2,
                ..Counts::default()
            },
            settle_each: 20,
            states_max: 20_000,
            ..base()
        },
    ];
    configs.extend(share_by_events());
    configs
}

/// Three members under the rule that knows no places: with one of them gone for good, a restarted one never
/// votes.
pub fn without_places() -> Config {
    Config {
        most: Counts {
            restarts: 1,
            proposals: 1,
            ..Counts::default()
        },
        places: Places::Unknown,
        states_max: 5_000,
        ..base()
    }
}

/// Three members of which one's disk is put back to an older copy. With [`Places::Deceived`] nobody notices.
pub fn put_back(places: Places) -> Config {
    Config {
        most: Counts {
            put_back: 1,
            proposals: 2,
            ..Counts::default()
        },
        places,
        settle_each: 0,
        ..base()
    }
}
