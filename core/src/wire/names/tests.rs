//! Names that are one writer's, several writers' and another one's.

use super::{Names, least, most, name};
use crate::message::Message;
use crate::state::delta::Entry;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

fn id(first: u8, last: u8) -> WriterId {
    let mut bytes = [first; 16];
    bytes[15] = last;
    WriterId::from_bytes(bytes)
}

fn find(ids: &[WriterId]) -> impl Fn(&WriterId, &WriterId) -> Option<WriterId> {
    move |first, last| {
        let mut those = ids.iter().filter(|it| (first..=last).contains(it));
        those.next().filter(|_| those.next().is_none()).copied()
    }
}

fn message(ids: &[WriterId]) -> Message {
    let mut message = Message::default();
    let entries = ids.iter().map(|writer| Entry {
        writer: *writer,
        lo: 1,
        hi: 2,
    });
    message.delta.writers = entries.collect();
    message
}

/// A message as it is read, with names in the place of ids.
fn read(names: &Names, message: &Message) -> Message {
    let mut read = message.clone();
    for (place, entry) in (0..).zip(&mut read.delta.writers) {
        if !names.whole.contains(&place) {
            entry.writer = least(name(&entry.writer, names.bits), names.bits);
        }
    }
    read
}

fn ids(message: &Message) -> Vec<WriterId> {
    message.delta.writers.iter().map(|it| it.writer).collect()
}

#[test]
fn a_name_is_the_first_bits_of_an_id() {
    let writer = id(0xab, 0xcd);
    assert_eq!(name(&writer, 8), 0xab);
    assert_eq!(name(&writer, 12), 0xaba);
    for bits in [8, 23, 62] {
        let (least, most) = (
            least(name(&writer, bits), bits),
            most(name(&writer, bits), bits),
        );
        assert!(least <= writer && writer <= most);
        assert_eq!(
            (name(&least, bits), name(&most, bits)),
            (name(&writer, bits), name(&writer, bits))
        );
        assert_eq!(most.as_bytes()[8..], [0xff; 8]);
    }
}

#[test]
fn writers_that_are_known_have_short_names_and_are_found_by_them() {
    let all = [id(1, 0), id(2, 0), id(3, 0), id(3, 1), id(4, 0)];
    let message = message(&all);
    let names = Names::of(&message, all.len(), find(&all), |it| *it != id(2, 0));
    // One is not known, and two are alike in their first bits.
    assert_eq!((names.bits, &names.whole[..]), (8, &[1, 2, 3][..]));
    let mut here = read(&names, &message);
    assert_ne!(here, message);
    assert!(names.resolve(&mut here, find(&all)));
    assert_eq!(here, message);
}

#[test]
fn a_name_that_is_nobodys_or_several_writers_is_not_taken() {
    let all = [id(1, 0), id(2, 0)];
    let message = message(&all);
    let names = Names::of(&message, all.len(), find(&all), |_| true);
    assert_eq!(names.whole, []);
    for here in [&[id(1, 0)][..], &[id(1, 0), id(2, 0), id(2, 1)], &[]] {
        assert!(!names.resolve(&mut read(&names, &message), find(here)));
    }
}

/// A replica may have forgotten a writer, and know another one of the same name.
#[test]
fn another_writer_of_the_same_name_is_not_taken_for_it() {
    let all = [id(1, 0), id(2, 0)];
    let message = message(&all);
    let names = Names::of(&message, all.len(), find(&all), |_| true);
    let here = [id(1, 0), id(2, 1)];
    let mut read = read(&names, &message);
    assert!(!names.resolve(&mut read, find(&here)));
    assert_ne!(ids(&read), all);
}

#[test]
fn names_are_short_only_where_that_takes_less() {
    let ids: Vec<WriterId> = (1..=40).map(|at| id(at, 0)).collect();
    for (known, bits) in [(0, 0), (3, 0), (4, 14), (40, 14)] {
        let is_known = |it: &WriterId| *it <= id(known, 0);
        let names = Names::of(&message(&ids), ids.len(), find(&ids), is_known);
        assert_eq!(names.bits, bits, "{known}");
    }
}
