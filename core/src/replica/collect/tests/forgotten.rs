//! Writers of which nothing is left, and what they stamped.

use super::*;

#[test]
fn what_a_forgotten_writer_stamped_is_its_heirs() {
    let [mut one, two, tab] = space();
    let (gone, left) = (number(&one, &two), number(&one, &tab));
    let to = by(OWN, 50);
    let admit = |by| Admit { turn: 0, by };
    let roster = one.membership.table.stored();
    roster.vouched = vec![(two.writer(), gone), (two.writer(), left)];
    roster.cards[OWN as usize].base = Some([(gone, 3)].into());
    roster.cards[gone as usize].announce = None;
    let card = &mut roster.cards[left as usize];
    card.base = Some([(OWN, 2), (gone, 3)].into());
    (card.intro, card.home) = (Some(admit(by(gone, 4))), Some(admit(by(OWN, 6))));
    card.fence = Some(Fence {
        turn: 0,
        by: by(gone, 7),
        heir: OWN,
    });
    card.ack = Some(Box::new(Ack {
        clock: 1,
        want: 0,
        seen: vec![(OWN, 1), (gone, 5)],
    }));
    roster.configuration.as_mut().unwrap().0 = by(gone, 8);
    roster.gone = vec![([7; 32], 1, by(gone, 9)), ([8; 32], 1, by(left, 9))];
    roster.attached = [(gone, vec![]), (left, vec![(OWN, 2), (gone, 1)])]
        .map(|(writer, seen)| crate::membership::table::Attached { writer, seen })
        .into();
    roster.pending = Some((9, vec![5; 3]));
    roster.settled = vec![5; 3];
    roster.floor = vec![5; 3];
    let handle = one.handle("k").unwrap();
    let mut cutted = plain(left, 3, 1);
    cut(&mut cutted, 3, 1, by(gone, 6));
    lift(&mut cutted, 3, by(gone, 6));
    let mut other = plain(OWN, 3, 1);
    cut(&mut other, 2, 1, by(left, 6));
    one.state.put_slots(handle, vec![other.clone(), cutted]);
    one.forget_writer(gone, to, 4);
    let slots = one.state.slots(handle);
    assert_eq!(slots[0], other);
    assert_eq!(slots[1].side.cut.unwrap().by, to);
    assert_eq!(slots[1].side.lift.as_ref().unwrap().by, to);
    let roster = &one.membership.table;
    assert_eq!(roster.vouched, [(two.writer(), left)]);
    let own = roster.cards[OWN as usize].base.as_deref();
    assert_eq!(own, Some(&[(OWN, 1)][..]));
    let card = &roster.cards[left as usize];
    assert_eq!(card.base.as_deref(), Some(&[(OWN, 2)][..]));
    let admits = (card.intro.unwrap().by, card.home.unwrap().by);
    assert_eq!(admits, (to, by(OWN, 6)));
    assert_eq!(card.fence.unwrap().by, to);
    assert_eq!(card.ack.as_ref().unwrap().seen, [(OWN, 1)]);
    assert_eq!(roster.configuration.as_ref().unwrap().0, to);
    assert_eq!(roster.gone, [([7; 32], 1, to), ([8; 32], 1, by(left, 9))]);
    assert_eq!(
        (roster.attached.len(), roster.attached[0].writer),
        (1, left)
    );
    assert_eq!(roster.attached[0].seen, [(OWN, 2)]);
    let cleared = |clocks: &[u64]| clocks[gone as usize] == 0 && clocks[left as usize] == 5;
    assert!(cleared(&roster.settled) && cleared(&roster.floor));
    assert!(cleared(&roster.pending.as_ref().unwrap().1));
    assert_eq!(roster.floor[OWN as usize], 50);
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
        one.membership.table.stored().cards[at].retired = Some(Retired { to, upto });
        one.membership.table.stored().attached.clear();
        one
    };
    let forgets = |one: &mut Replica, kept: &dyn Fn(&mut Vec<u64>)| {
        let (quorum, mut all) = all_settled(one);
        kept(&mut all);
        one.membership.table.stored().waiting = false;
        let done = one.forget(&quorum, &all);
        assert_eq!(one.membership.table.waiting, !done);
        assert_eq!(one.state.number_of(&tab.writer()).is_none(), done);
        done
    };
    // Its slot is a child that is not folded yet.
    let mut with_slot = absorbed();
    let handle = with_slot.handle("k").unwrap();
    let moved = child(plain(gone, 3, 1), by(OWN, 5), 1);
    let slots = vec![plain(OWN, 5, 1), moved];
    with_slot.state.put_slots(handle, slots);
    assert!(!forgets(&mut with_slot, &|_| ()));
    let odd = slot(
        OWN,
        5,
        Extra {
            born: 2,
            added: 4,
            ..Extra::default()
        },
    );
    with_slot.state.put_slots(handle, vec![odd]);
    assert!(forgets(&mut with_slot, &|_| ()));
    let without = || {
        let mut one = absorbed();
        one.state.put_slots(handle, vec![plain(OWN, 5, 1)]);
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
        one.membership.table.stored().cards[of as usize].base = Some(base.into());
        one.forget_writer(gone, by(OWN, 50), 4);
        one.membership.table.cards[of as usize]
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
