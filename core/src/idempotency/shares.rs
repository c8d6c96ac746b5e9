//! Shares of the room for keys, by longest queue drop (Suter, Lakshman, Stiliadis, Choudhury 1998): the group
//! that holds the most loses its oldest key.
//!
//! A key counts for the caller of its operation: the holders of one ticket at one address, or the clients of
//! one address without a ticket. Keys that other members made, and keys from a store, count for their writer.
//!
//! So a caller pushes out its own keys first, and another's only while that one holds more. A caller whose
//! oldest key is still young is refused instead, so its recent requests stay remembered.

use crate::bounds::{ADDRESS_KEYED_MAX, GUESTS_KEYED_MAX, KEYED_MAX, TICKET_KEYED_MAX};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

/// The groups beside its owner in which a peer's writers count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Party {
    /// The ticket with which it connected, as any number that stands for it.
    pub ticket: Option<u128>,
    /// The address from which it connected, as any number that stands for it.
    pub address: Option<u128>,
}

/// The caller of an operation under an idempotency key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    /// Its ticket and its address.
    pub party: Party,
    /// Whether it has fewer rights than a member. Members have a part of the room to themselves.
    pub limited: bool,
    /// The place before which operations are old enough to make room for others.
    pub settled: u64,
}

/// A group that shares room for keyed operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// The holders of one ticket at one address.
    Ticket(u128, Option<u128>),
    /// The clients of one address that have shown no ticket.
    Address(Option<u128>),
    /// A writer, by its local number when the operation arrived.
    Writer(u32),
}

/// Bounds on the number of stored keyed operations.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedBounds {
    /// The bound of all groups together.
    pub all: usize,
    /// The bound of all callers with fewer rights than a member.
    pub guests: usize,
    /// The bound of the holders of one ticket.
    pub ticket: usize,
    /// The bound of the clients of one address that have shown no ticket.
    pub address: usize,
}

impl Default for KeyedBounds {
    fn default() -> KeyedBounds {
        KeyedBounds {
            all: KEYED_MAX,
            guests: GUESTS_KEYED_MAX,
            ticket: TICKET_KEYED_MAX,
            address: ADDRESS_KEYED_MAX,
        }
    }
}

/// The keys that one group holds.
#[derive(Clone, Debug)]
pub(crate) struct GroupKeys {
    group: Group,
    limited: bool,
    /// The places of its operations, in order. Some may be gone, but never the first.
    places: VecDeque<u64>,
    /// How many of these are still there.
    live: usize,
}

/// The keys that each group holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    pub(crate) bounds: KeyedBounds,
    /// Numbers of groups. The number of an empty group is used again.
    numbers: BTreeMap<(Group, bool), u32>,
    pub(crate) free: Vec<u32>,
    pub(crate) held: Vec<Option<GroupKeys>>,
    /// The groups by size: all of them, those with fewer rights than a member, and those of each ticket.
    sizes: [BTreeSet<(usize, u32)>; 2],
    pub(crate) tickets: BTreeMap<u128, (usize, BTreeSet<(usize, u32)>)>,
    /// The number of all keys, and of those of callers with fewer rights.
    pub(crate) totals: [usize; 2],
}

/// The step that is needed before a group takes another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Nothing.
    Free,
    /// Drop the operation at this place, the oldest of the group with this number.
    Drop(u64, u32),
}

impl Group {
    pub(crate) fn of(asker: &Asker) -> Group {
        let Party { ticket, address } = asker.party;
        match ticket {
            Some(ticket) => Group::Ticket(ticket, address),
            None => Group::Address(address),
        }
    }
}

impl Shares {
    /// The number of a group.
    pub(crate) fn number(&mut self, group: Group, limited: bool) -> u32 {
        if let Some(number) = self.numbers.get(&(group, limited)) {
            return *number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.held.push(None);
            (self.held.len() - 1) as u32
        });
        self.numbers.insert((group, limited), number);
        self.held[number as usize] = Some(GroupKeys {
            group,
            limited,
            places: VecDeque::new(),
            live: 0,
        });
        number
    }

    fn of(&self, number: u32) -> Option<&GroupKeys> {
        self.held.get(number as usize)?.as_ref()
    }

    /// The key that must go before this group takes another one, if any, and the bound that would be
    /// exceeded.
    pub(crate) fn room(&self, group: Group, limited: bool) -> (Room, usize) {
        let bounds = &self.bounds;
        let number = self.numbers.get(&(group, limited)).copied();
        let largest = |sizes: &BTreeSet<(usize, u32)>, max: usize| {
            let number = sizes.last().map(|it| it.1);
            let first = number.and_then(|it| Some((*self.of(it)?.places.front()?, it)));
            (first.map_or(Room::Free, |it| Room::Drop(it.0, it.1)), max)
        };
        match group {
            Group::Ticket(ticket, _) => {
                if let Some((live, sizes)) = self.tickets.get(&ticket)
                    && *live >= bounds.ticket
                {
                    return largest(sizes, bounds.ticket);
                }
            }
            Group::Address(_) => {
                let held = number.and_then(|it| self.of(it));
                if let Some(held) = held.filter(|it| it.live >= bounds.address)
                    && let (Some(first), Some(number)) = (held.places.front(), number)
                {
                    return (Room::Drop(*first, number), bounds.address);
                }
            }
            Group::Writer(_) => {}
        }
        if limited && self.totals[1] >= bounds.guests {
            return largest(&self.sizes[1], bounds.guests);
        }
        match self.totals[0] >= bounds.all {
            true => largest(&self.sizes[0], bounds.all),
            false => (Room::Free, bounds.all),
        }
    }

    /// Whether a number is that of this group.
    pub(crate) fn is(&self, number: u32, group: Group, limited: bool) -> bool {
        self.of(number)
            .is_some_and(|it| (it.group, it.limited) == (group, limited))
    }

    /// Adds a key of a group, at a place after all others.
    pub(crate) fn add(&mut self, number: u32, place: u64) {
        if let Some(Some(held)) = self.held.get_mut(number as usize) {
            held.places.push_back(place);
            self.resize(number, true);
        }
    }

    /// Removes the key of a group at a place. `is_there` returns whether another place still has one.
    pub(crate) fn remove(&mut self, number: u32, place: u64, is_there: impl Fn(u64) -> bool) {
        let Some(Some(held)) = self.held.get_mut(number as usize) else {
            return;
        };
        if held.places.front() == Some(&place) {
            held.places.pop_front();
            while held.places.front().is_some_and(|it| !is_there(*it)) {
                held.places.pop_front();
            }
        }
        self.resize(number, false);
    }

    fn resize(&mut self, number: u32, more: bool) {
        let Some(Some(held)) = self.held.get_mut(number as usize) else {
            return;
        };
        let before = held.live;
        held.live = match more {
            true => before + 1,
            false => before - 1,
        };
        let (now, group, limited) = (held.live, held.group, held.limited);
        let step = |sizes: &mut BTreeSet<(usize, u32)>, total: &mut usize| {
            *total = *total + now - before;
            sizes.remove(&(before, number));
            if now > 0 {
                sizes.insert((now, number));
            }
        };
        let [all, guests] = &mut self.sizes;
        let [total, of_guests] = &mut self.totals;
        step(all, total);
        if limited {
            step(guests, of_guests);
        }
        if let Group::Ticket(ticket, _) = group {
            let (live, sizes) = self.tickets.entry(ticket).or_default();
            step(sizes, live);
            if *live == 0 {
                self.tickets.remove(&ticket);
            }
        }
        if now == 0 {
            self.numbers.remove(&(group, limited));
            self.held[number as usize] = None;
            self.free.push(number);
        }
    }
}
