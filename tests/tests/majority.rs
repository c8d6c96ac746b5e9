//! The share of the exploration of majorities that every run repeats. The program `majority` runs the whole of
//! it.

use tallymesh_tests::explore::Report;
use tallymesh_tests::majority::{
    Places, Step, explore, play, put_back, share, two_lost, without_places,
};
use tallymesh_tests::seeds;

#[test]
fn a_majority_that_is_up_decides_once() {
    println!("{}", Report::HEAD);
    let configs = share();
    seeds::each(configs.len() as u64, |at| {
        let config = &configs[at as usize];
        let explored = explore(config);
        let (report, _) = explored.map_err(|failure| failure.to_string())?;
        println!("{report}");
        match report.complete || config.members > 2 && config.depth_max == 0 {
            true => Ok(()),
            false => Err(report.to_string()),
        }
    });
}

/// Without places, a start waits for all other members. So the exploration finds a majority that stands still.
#[test]
fn without_places_a_restarted_member_waits_for_a_dead_one() {
    let (report, stuck) = explore(&without_places()).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{report}\n{stuck} never decide");
    assert!(stuck > 0 && stuck < report.settled, "{stuck}");
}

/// Member 1 votes with member 2. Then its disk is put back to before that, and only member 0 is there, which
/// knows nothing of it.
const VOTES_TWICE: [Step; 11] = [
    Step::Propose(0),
    Step::Propose(1),
    Step::Receive(2, 0),
    Step::Receive(0, 2),
    Step::Receive(2, 1),
    Step::Receive(1, 2),
    Step::Receive(2, 1),
    Step::PutBack(1),
    Step::Announce(1),
    Step::Receive(0, 1),
    Step::Receive(1, 0),
];

#[test]
fn an_older_copy_that_is_noticed_does_not_vote_with_the_one_that_knows_nothing() {
    play(&put_back(Places::Known), &VOTES_TWICE).unwrap();
    play(&put_back(Places::Unknown), &VOTES_TWICE).unwrap();
}

/// The same copy, taken for the store that the member left, votes a second time. No rule of the core can tell it
/// from that store. So the program has to notice.
#[test]
fn an_older_copy_that_nobody_notices_decides_twice() {
    let wrong = play(&put_back(Places::Deceived), &VOTES_TWICE).expect_err("two decisions");
    assert!(wrong.starts_with("Decided"), "{wrong}");
}

/// Members 0, 2 and 3 hold a write, or decide. Then the disks of 2 and 3 are put back, and 0 is cut off. Members 1
/// and 4 know nothing of it.
const BOTH_PUT_BACK: [Step; 5] = [
    Step::Kill(2),
    Step::Kill(3),
    Step::Part(&[0]),
    Step::PutBack(2),
    Step::PutBack(3),
];

/// Two members that have lost what they knew say nothing for each other's start. So neither votes without the
/// members that know.
#[test]
fn two_disks_that_are_put_back_at_a_time_lose_nothing() {
    let after = |steps: &[Step]| [steps, &BOTH_PUT_BACK].concat();
    let decides = [Step::Part(&[1, 4]), Step::Propose(0)];
    let decides_again = [after(&decides), vec![Step::Propose(1)]].concat();
    play(&two_lost(), &decides_again).unwrap();
    play(&two_lost(), &after(&[Step::Part(&[1, 4]), Step::Write(0)])).unwrap();
}
