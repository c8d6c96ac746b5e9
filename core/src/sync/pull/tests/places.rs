//! The places of peers by hand: whose pull is open, laid aside, wanted, broken, or yields.

use super::*;

/// A pull from this link, whose answer is due at `deadline` and has brought so many chunks.
fn open(link: Link, chunk: u32, deadline: Millis) -> Open {
    Open {
        link,
        session: u64::from(link.0),
        id: link.0,
        chunk,
        staged: Vec::new(),
        staged_bytes: 0,
        since: 0,
        whole: MemberPart::default(),
        resumed: false,
        deadline,
    }
}

fn links_of(pulls: &[Open]) -> Vec<Link> {
    pulls.iter().map(|it| it.link).collect()
}

const LINKS: [Link; 3] = [Link(1), Link(2), Link(3)];

#[test]
fn a_transfer_is_slow_below_its_rate_and_not_at_it() {
    let slow = |bytes: usize, now: Millis| {
        let mut open = open(Link(1), 1, 0);
        (open.staged_bytes, open.since) = (bytes, 50);
        open.is_slow(now)
    };
    let begin = 50 + TURN_MS;
    assert!(!slow(0, begin) && slow(0, begin + 1));
    assert!(slow(3 * TURN_BYTES - 1, begin + 3));
    assert!(!slow(3 * TURN_BYTES, begin + 3));
}

/// A broken transfer stays while its process waits to be asked, or waits for the end of another transfer.
#[test]
fn what_is_broken_is_dropped_when_it_is_late_and_nobody_is_about_to_ask() {
    let [one, ..] = LINKS;
    let kept = |change: &dyn Fn(&mut Pulls)| {
        let mut pulls = Pulls::default();
        pulls.breaks(open(one, 1, 0), 100);
        change(&mut pulls);
        pulls.time_out(99, 7);
        assert!(pulls.broken.is_some());
        let idle = pulls.deadline(TIMEOUT_MS) == Some(100);
        pulls.time_out(100, 7);
        assert_eq!(pulls.broken.is_none(), idle);
        pulls.broken.is_some()
    };
    assert!(!kept(&|_| ()));
    assert!(kept(&|pulls| pulls
        .waiting
        .update(|it| it.push(one))
        .unwrap_or(())));
    assert!(kept(&|pulls| {
        pulls.wanted.push(one);
        pulls.rests_until = 5;
    }));
}

#[test]
fn a_pull_that_is_late_may_go_on_for_so_long() {
    let mut pulls = Pulls {
        open: Some(open(LINKS[0], 1, 100)),
        ..Pulls::default()
    };
    pulls.time_out(100, 7);
    assert_eq!(pulls.broken.as_ref().map(|it| it.deadline), Some(107));
    assert_eq!(pulls.wanted, [LINKS[0]]);
}

#[test]
fn a_peer_that_is_put_first_loses_its_other_places_and_nobody_else_does() {
    let [one, two, three] = LINKS;
    let mut pulls = Pulls {
        open: Some(open(three, 0, 100)),
        wanted: Vec::from([two, one]),
        ..Pulls::default()
    };
    pulls.yielded.update(|it| it.extend([(one, 9), (two, 9)]));
    pulls.put_first(5, one);
    assert_eq!(pulls.wanted, [one, two, three]);
    assert_eq!(*pulls.yielded, [(two, 9)]);
    assert!(pulls.open.is_none());
}

#[test]
fn a_closed_link_takes_no_other_links_place_with_it() {
    let [one, two, _] = LINKS;
    let mut pulls = Pulls {
        wanted: Vec::from([two, one]),
        ..Pulls::default()
    };
    pulls.waiting.update(|it| it.extend([one, two]));
    pulls.yielded.update(|it| it.extend([(one, 9), (two, 9)]));
    pulls.gone(one, None);
    assert_eq!(pulls.wanted, [two]);
    assert_eq!(
        (&*pulls.waiting, &*pulls.yielded),
        (&[two].into(), &[(two, 9)].into())
    );
}

#[test]
fn an_open_pull_stays_while_nobody_waits_or_the_machine_rests() {
    let [one, two, _] = LINKS;
    let laid_aside = |waiting: bool, rests_until: Millis, now: Millis| {
        let mut pulls = Pulls {
            open: Some(open(one, 0, TIMEOUT_MS)),
            ..Pulls::default()
        };
        pulls.wanted.extend(waiting.then_some(two));
        pulls.rests_until = rests_until;
        pulls.lay_aside(now, TIMEOUT_MS);
        assert_eq!(pulls.open.is_none(), !pulls.aside.is_empty());
        links_of(&pulls.aside) == [one]
    };
    assert!(laid_aside(true, 0, PATIENCE));
    assert!(!laid_aside(true, 0, PATIENCE - 1));
    assert!(!laid_aside(false, 0, PATIENCE));
    assert!(!laid_aside(true, PATIENCE + 1, PATIENCE));
}

/// Only a transfer that has staged something keeps others from staging.
#[test]
fn a_first_chunk_is_staged_if_no_pull_aside_has_one() {
    let [one, two, _] = LINKS;
    let staged = |aside: &[Open]| {
        let mut pulls = Pulls {
            open: Some(open(one, 0, 100)),
            ..Pulls::default()
        };
        pulls.aside.update(|it| it.extend(aside.iter().cloned()));
        (pulls.may_stage(50), links_of(&pulls.aside))
    };
    assert_eq!(staged(&[open(two, 0, 100)]), (true, Vec::from([two])));
    assert_eq!(staged(&[open(two, 1, 100)]), (false, Vec::from([two])));
    let resumed = Open {
        resumed: true,
        ..open(two, 1, 100)
    };
    assert_eq!(staged(&[resumed]), (true, Vec::new()));
}

#[test]
fn a_peer_that_yielded_is_wanted_once() {
    let [one, two, three] = LINKS;
    let mut pulls = Pulls {
        open: Some(open(two, 0, 100)),
        wanted: Vec::from([one]),
        ..Pulls::default()
    };
    pulls
        .yielded
        .update(|it| it.extend([(one, 9), (two, 9), (three, 9)]));
    pulls.end_waiting(8);
    assert_eq!(pulls.wanted, [one]);
    pulls.end_waiting(9);
    assert_eq!(pulls.wanted, [one, three]);
}

/// At most one transfer has staged chunks beside the broken one, so that one goes on afterwards.
#[test]
fn a_broken_transfer_waits_for_the_end_of_another_one() {
    let mut end = End::new();
    let [one, two, three] = super::links(&mut end);
    let pulls = &mut end.sync.pulls;
    pulls.broken = Some(open(one, 1, 1_000_000));
    pulls.aside.update(|it| it.push(open(two, 1, 1_000_000)));
    pulls.wanted = Vec::from([one, three]);
    end.sync.pull_next(end.now, &end.replica);
    assert_eq!(end.sync.pulls.open.as_ref().map(|it| it.link), Some(three));
    assert_eq!(*end.sync.pulls.waiting, [one]);
    assert!(end.sync.pulls.broken.is_some());
}
