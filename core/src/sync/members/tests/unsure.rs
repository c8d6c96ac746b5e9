//! What a start made whose place among the members is not certain yet.

use super::*;

/// Others may refuse what a start made whose place is not certain. Who took it in comes back without it
/// then, so that it is kept here.
#[test]
fn what_a_start_made_is_kept_until_its_place_is_certain() {
    let [_, new, known] = second();
    for (replica, unheld) in [(new, 1), (known, 0)] {
        let mut home = End::member().replica;
        home.force_members(&[OWNER, OTHER]).unwrap();
        let mut end = End::of(replica);
        // All know the other member.
        end.replica.take_settled(&home.vector(), &home.vector());
        end.tend();
        end.replica.add("key", 5).unwrap();
        let links = [1, 2].map(|number| end.link(number, id(100 * number as u8)));
        let vector = end.replica.vector();
        let End { replica, sync, now } = &mut end;
        assert!(replica.is_sure_member(&id(100)));
        sync.held_there(replica, links[0], &vector);
        assert_eq!(replica.unheld(), unheld);
        sync.come_back(*now, replica, links[1]);
        (end.coming_back().member, end.coming_back().fresh) = (true, Some(id(8)));
        let End { replica, sync, now } = &mut end;
        sync.begin_again(*now, replica, links[1], (&[], &full(&home)));
        assert_eq!(end.replica.writer(), id(8));
        let End { replica, sync, .. } = &mut end;
        replica.take_settled(&home.vector(), &home.vector());
        assert!(replica.is_sure_member(&id(100)));
        sync.held_there(replica, links[0], &vector);
        assert_eq!(replica.unheld(), unheld);
        assert_eq!(replica.lost().count(), unheld);
    }
}
