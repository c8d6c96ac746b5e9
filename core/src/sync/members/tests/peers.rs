//! The peers that a replica asks when it has to come back.

use super::*;
use crate::message::records::Configuration;

/// The first peer is no member and never answers. The message of the second peer says that it is a member.
#[test]
fn a_member_is_asked_in_place_of_whoever_is_none() {
    let mut guest = End::guest();
    let links = [1, 2].map(|number| guest.link(number, id(number as u8)));
    let refuse = |guest: &mut End, at: usize, message: &Message| {
        let End { replica, sync, now } = guest;
        let (live, error) = (Some(id(at as u8 + 1)), AdmissionError::Outdated.into());
        let done = sync.not_merged(*now, replica, Some(links[at]), message, live, error);
        assert_eq!(done, Ok(()));
        guest.asked()
    };
    let plain = |byte| telling(Some(id(byte)));
    assert_eq!(refuse(&mut guest, 0, &plain(1)), [links[0]]);
    assert_eq!(refuse(&mut guest, 1, &plain(2)), []);
    let mut by_member = plain(2);
    let announce = Announce {
        clock: 4,
        owner: OTHER,
        nonce: [0; 16],
        generation: 9,
    };
    let members = Configuration {
        members: Vec::from([OTHER]),
        ..Configuration::default()
    };
    for statement in [
        Statement::Configuration(4, Box::new(members)),
        Statement::Announce(Box::new(announce)),
    ] {
        let record = MembershipRecord {
            writer: 0,
            statement,
        };
        by_member.records.stored().push(record);
    }
    assert_eq!(refuse(&mut guest, 1, &by_member), [links[1]]);
    assert_eq!(guest.coming_back().link, links[1]);
    // Neither it nor the other one is asked again before the usual time.
    assert_eq!(refuse(&mut guest, 1, &by_member), []);
    assert_eq!(refuse(&mut guest, 0, &plain(1)), []);
    assert_eq!(guest.coming_back().link, links[1]);
}
