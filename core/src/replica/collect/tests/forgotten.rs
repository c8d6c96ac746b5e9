//! Writers of which nothing is left, and what they stamped.

use super::*;
use crate::membership::stability::Prospect;

#[test]
fn what_a_forgotten_writer_stamped_is_its_successors() {
    let [mut one, two, tab] = space();
    let (gone, left) = (number(&one, &two), number(&one, &tab));
    let to = by(OWN, 50);
    let admit = |by| Admit { turn: 0, by };
    let table = one.membership.table_mut().stored();
    table.vouched = vec![(two.writer(), gone), (two.writer(), left)];
    table.writer_states[OWN as usize].base = Some([(gone, 3)].into());
    table.writer_states[gone as usize].announce = None;
    let writer_state = &mut table.writer_states[left as usize];
    writer_state.base = Some([(OWN, 2), (gone, 3)].into());
    (writer_state.intro, writer_state.sponsor) =
        (Some(admit(by(gone, 4))), Some(admit(by(OWN, 6))));
    writer_state.fence = Some(Fence {
        turn: 0,
        by: by(gone, 7),
        successor: OWN,
    });
    writer_state.ack = Some(Box::new(Ack {
        clock: 1,
        want: 0,
        seen: vec![(OWN, 1), (gone, 5)],
    }));
    table.configuration.as_mut().unwrap().0 = by(gone, 8);
    table.gone = vec![([7; 32], 1, by(gone, 9)), ([8; 32], 1, by(left, 9))];
    table.sponsored = [(gone, vec![]), (left, vec![(OWN, 2), (gone, 1)])]
        .map(|(writer, seen)| crate::membership::table::Sponsored { writer, seen })
        .into();
    table.pending = Some((9, vec![5; 3]));
    table.stable = vec![5; 3];
    table.collected = vec![5; 3];
    table.prospect = Some(Prospect {
        members: vec![],
        least: vec![5; 3],
        held: None,
        fences: vec![gone, left],
    });
    let since = one.state.begin_epoch();
    let key_id = one.key_id("k").unwrap();
    let mut cancelled = plain(left, 3, 1);
    watermark(&mut cancelled, 3, 1, by(gone, 6));
    lift(&mut cancelled, 3, by(gone, 6));
    let mut other = plain(OWN, 3, 1);
    watermark(&mut other, 2, 1, by(left, 6));
    one.state.put_slots(key_id, vec![other.clone(), cancelled]);
    one.forget_writer(gone, to, 4);
    let slots = one.state.slots(key_id);
    assert_eq!(slots[0], other);
    assert_eq!(slots[1].side.watermark.unwrap().by, to);
    assert_eq!(slots[1].side.lift.as_ref().unwrap().by, to);
    let table = &one.membership.table();
    // A store and the next push get the records that changed.
    assert_eq!(table.changed_since(since), [gone.min(left), gone.max(left)]);
    assert_eq!(table.prospect.as_ref().unwrap().fences, [left]);
    assert_eq!(table.vouched, [(two.writer(), left)]);
    let own = table.writer_states[OWN as usize].base.as_deref();
    assert_eq!(own, Some(&[(OWN, 1)][..]));
    let writer_state = &table.writer_states[left as usize];
    assert_eq!(writer_state.base.as_deref(), Some(&[(OWN, 2)][..]));
    let admits = (
        writer_state.intro.unwrap().by,
        writer_state.sponsor.unwrap().by,
    );
    assert_eq!(admits, (to, by(OWN, 6)));
    assert_eq!(writer_state.fence.unwrap().by, to);
    assert_eq!(writer_state.ack.as_ref().unwrap().seen, [(OWN, 1)]);
    assert_eq!(table.configuration.as_ref().unwrap().0, to);
    assert_eq!(table.gone, [([7; 32], 1, to), ([8; 32], 1, by(left, 9))]);
    assert_eq!(
        (table.sponsored.len(), table.sponsored[0].writer),
        (1, left)
    );
    assert_eq!(table.sponsored[0].seen, [(OWN, 2)]);
    let cleared = |clocks: &[u64]| clocks[gone as usize] == 0 && clocks[left as usize] == 5;
    assert!(cleared(&table.stable) && cleared(&table.collected));
    assert!(cleared(&table.pending.as_ref().unwrap().1));
    assert_eq!(table.collected[OWN as usize], 50);
    assert_eq!(one.state.free_numbers(), [gone]);
    assert_eq!(one.state.number_of(&two.writer()), None);
    assert_eq!(
        (
            one.state.clock_at(gone),
            one.members().retired_clock(&two.writer())
        ),
        (0, Some(4))
    );
}

#[test]
fn a_writer_is_forgotten_when_nothing_of_it_is_left() {
    let [one, _, tab] = space();
    let gone = number(&one, &tab);
    let at = gone as usize;
    let absorbed = || {
        let mut one = one.clone();
        let (to, upto) = (by(OWN, 5), 3);
        one.membership.table_mut().stored().writer_states[at].retired = Some(Retired { to, upto });
        one.membership.table_mut().stored().sponsored.clear();
        one
    };
    let forgets = |one: &mut Replica, kept: &dyn Fn(&mut Vec<u64>)| {
        let (quorum, mut all) = all_stable(one);
        kept(&mut all);
        one.membership.table_mut().stored().waiting = false;
        let done = one.forget(&quorum, &all);
        assert_eq!(one.membership.table().waiting, !done);
        assert_eq!(one.state.number_of(&tab.writer()).is_none(), done);
        done
    };
    // Its slot is a child that is not folded yet.
    let mut with_slot = absorbed();
    let key_id = with_slot.key_id("k").unwrap();
    let moved = child(plain(gone, 3, 1), by(OWN, 5), 1);
    let slots = vec![plain(OWN, 5, 1), moved];
    with_slot.state.put_slots(key_id, slots);
    assert!(!forgets(&mut with_slot, &|_| ()));
    let odd = slot(
        OWN,
        5,
        Extra {
            began: 2,
            added: 4,
            ..Extra::default()
        },
    );
    with_slot.state.put_slots(key_id, vec![odd]);
    assert!(forgets(&mut with_slot, &|_| ()));
    let without = || {
        let mut one = absorbed();
        one.state.put_slots(key_id, vec![plain(OWN, 5, 1)]);
        one
    };
    assert!(forgets(&mut without(), &|_| ()));
    // Its absorption, or its last transaction, is not written down.
    assert!(!forgets(&mut without(), &|kept| kept[OWN as usize] = 4));
    assert!(forgets(&mut without(), &|kept| kept[OWN as usize] = 5));
    assert!(!forgets(&mut without(), &|kept| kept[at] = 2));
    assert!(forgets(&mut without(), &|kept| kept[at] = 3));
}

#[test]
fn a_base_that_names_forgotten_writers_alone_is_not_that_of_one_who_saw_nothing() {
    let [one, two, tab] = space();
    let (gone, left) = (number(&one, &two), number(&one, &tab));
    let base_of = |of: u32, base: &[(u32, u64)]| {
        let mut one = one.clone();
        one.membership.table_mut().stored().writer_states[of as usize].base = Some(base.into());
        one.forget_writer(gone, by(OWN, 50), 4);
        one.membership.table().writer_states[of as usize]
            .base
            .as_deref()
            .unwrap()
            .to_vec()
    };
    assert_eq!(base_of(OWN, &[(gone, 3)]), [(OWN, 1)]);
    let mut both = vec![(gone, 3), (left, 2)];
    both.sort_unstable();
    assert_eq!(base_of(OWN, &both), [(left, 2)]);
    // For other writers, only incarnations of members are kept, which ask no member to admit them.
    assert!(base_of(left, &[(gone, 3)]).is_empty());
    assert_eq!(base_of(left, &both), [(left, 2)]);
}

/// A guest leaves, and names a member that is forgotten by now. Each replica gives the guest to the writer that took
/// over from that member, or to nobody.
#[test]
fn a_forgotten_successor_is_replaced_by_its_own_or_by_none() {
    let [one, mut two, mut tab] = space();
    pass(&one, &mut two);
    pass(&two, &mut tab);
    tab.members_mut().leave().unwrap();
    let leave = tab.delta(&two.vector());
    let [first, left] = [&one, &tab].map(|it| number(&two, it));
    // Another start of the first member's owner took over from the first one.
    let to = by(two.state.number(WriterId::from_bytes([5; 16])), 7);
    two.membership.fit(two.state.ids().len());
    two.forget_writer(first, to, one.clock());
    for admitted_twice in [false, true] {
        let mut two = two.clone();
        let writer_state = &mut two.membership.table_mut().stored().writer_states[left as usize];
        assert_eq!(writer_state.sponsor.map(|it| it.by), Some(to));
        if admitted_twice {
            writer_state.intro = Some(Admit {
                turn: 0,
                by: by(OWN, 1),
            });
        }
        two.merge_with(&leave, Some(tab.writer()), &mut |_| ())
            .unwrap();
        let successor = two.membership.writer(left).successor();
        assert_eq!(successor, (!admitted_twice).then_some(to.writer));
    }
}

/// The rows of a writer in what a replica sends to a native node, or to another replica, with this vector.
#[cfg(not(target_family = "wasm"))]
fn sent(from: &Replica, since: &VersionVector, keyed: bool, of: WriterId) -> usize {
    let scan = crate::replica::Scan::new(from, since, keyed);
    let (message, next) = scan.step(from, since, usize::MAX);
    assert!(next.is_none());
    let writers = &message.delta.writers;
    let Ok(at) = writers.binary_search_by_key(&of, |entry| entry.writer) else {
        return 0;
    };
    let columns = message.delta.pages.iter().flatten();
    columns.filter(|it| it.writer == at as u32).count()
}

/// A member has taken over from a guest, and another one has forgotten the guest already.
#[cfg(not(target_family = "wasm"))]
#[test]
fn a_node_receives_nothing_of_a_writer_that_it_has_forgotten() {
    let [mut one, mut two, mut tab] = space();
    pass(&one, &mut two);
    pass(&one, &mut tab);
    tab.members_mut().leave().unwrap();
    for member in [&mut one, &mut two] {
        let leave = tab.delta(&member.vector());
        member
            .merge_with(&leave, Some(tab.writer()), &mut |_| ())
            .unwrap();
    }
    let of = tab.writer();
    let before = two.vector();
    assert_eq!(one.members_mut().retire().unwrap(), 1);
    pass(&one, &mut two);
    assert_eq!(sent(&one, &two.vector(), true, of), 0);
    let Retired { to, .. } = two.membership.writer(number(&two, &tab)).retired.unwrap();
    for _ in 0..4 {
        said(&mut two);
        pass(&two, &mut one);
        said(&mut one);
        pass(&one, &mut two);
    }
    let mut stored = Mark::default();
    two.since(&mut stored);
    while two.members_mut().collect(&stored) {
        two.since(&mut stored);
    }
    assert_eq!(two.vector().get(&of), 0);
    assert_eq!(sent(&one, &two.vector(), true, of), 0);
    assert_eq!(sent(&one, &two.vector(), false, of), 1);
    // It receives the rest, and accepts it.
    one.add("other", 7).unwrap();
    let scan = crate::replica::Scan::new(&one, &two.vector(), true);
    let (message, _) = scan.step(&one, &two.vector(), usize::MAX);
    two.merge_with(&message, Some(one.writer()), &mut |_| ())
        .unwrap();
    assert_eq!(two.value("other"), Some(7));
    assert_eq!(two.value("k"), Some(1));
    // A replica without the retirement, or that asks for the writer anew, receives all.
    assert_eq!(sent(&one, &before.without(&[of]), true, of), 1);
    let anew = one.vector().without(&[of]);
    assert_eq!(sent(&one, &anew, true, of), 0);
    let anew = one.membership.without_retirements(&one.state, anew);
    assert_eq!(sent(&one, &anew, true, of), 1);
    assert_eq!(anew.get(&one.writer()), to.clock - 1);
}
