//! Questions and answers, frame by frame.

use super::*;
use crate::replica::Mark;
use crate::sync::{Input, Output, SyncConfig};
use crate::wire::{ANSWERS, Delta, Digests, Frame, Hello, VERSION};
use crate::writer_id::{Space, WriterId};
use crate::{Once, Op};
use alloc::string::String;
use std::vec;

const OWNERS: [Owner; 3] = [[1; 32], [2; 32], [3; 32]];

fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

fn of(entries: &[(u8, u64)]) -> VersionVector {
    VersionVector::from_sorted(entries.iter().map(|it| (id(it.0), it.1)).collect())
}

/// Three members who know each other, and nobody's start is in doubt.
fn members() -> [Replica; 3] {
    let mut all = [1, 2, 3].map(|byte| Replica::new(Space::default(), id(byte)));
    all[0].members_mut().found(&OWNERS[0], &[0; 16], 1).unwrap();
    all[0].members_mut().force(&OWNERS).unwrap();
    for at in [1, 2] {
        exchange(&mut all);
        all[at]
            .members_mut()
            .announce(&OWNERS[at], &[0; 16], 1)
            .unwrap();
    }
    for _ in 0..6 {
        exchange(&mut all);
        for replica in &mut all {
            replica.members_mut().acknowledge().unwrap();
            replica.members_mut().collect(&Mark::default());
        }
    }
    exchange(&mut all);
    assert!(
        all.iter()
            .all(|it| it.consistency().footing().unwrap().counts)
    );
    all
}

fn exchange(all: &mut [Replica; 3]) {
    for from in 0..3 {
        for to in 0..3 {
            let message = all[from].delta(&all[to].vector());
            let live = Some(all[from].writer());
            all[to].merge_with(&message, live, &mut |_| ()).unwrap();
        }
    }
}

/// A replica and its machine; its peers are played by hand.
struct End {
    replica: Replica,
    sync: SyncMachine,
    now: Millis,
}

impl End {
    fn of(replica: Replica) -> End {
        let config = SyncConfig {
            interval_ms: 1_000_000,
            owner: Some([9; 32]),
            ..SyncConfig::default()
        };
        End {
            replica,
            sync: SyncMachine::new(config, 1),
            now: 0,
        }
    }

    fn input(&mut self, input: Input<'_>) {
        self.sync.handle(self.now, &mut self.replica, input);
    }

    fn frame(&mut self, link: Link, body: Body) {
        let space = Space::default();
        let bytes = &Frame { space, body }.encode();
        self.input(Input::Frame { link, bytes });
    }

    /// A link to who writes under this id and holds the same.
    fn link(&mut self, number: u32, writer: u8, capabilities: u64) -> Link {
        let (link, broadcast) = (Link(number), false);
        self.input(Input::Connected { link, broadcast });
        let hello = Hello {
            version_min: VERSION,
            version_max: VERSION,
            capabilities,
            session: u64::from(number),
            agent: String::new(),
            nonce: [0; 16],
            proof: Vec::new(),
            digests: SyncMachine::digests(&mut self.replica),
            writer: id(writer),
            clock: 1,
        };
        self.frame(link, Body::Hello(hello));
        self.sent();
        link
    }

    fn sent(&mut self) -> Vec<(Link, Body)> {
        let outputs = core::iter::from_fn(|| self.sync.poll());
        let sent = outputs.filter_map(|output| match output {
            Output::Send { link, bytes } => Some((link, Frame::decode(&bytes).unwrap().body)),
            _ => None,
        });
        sent.collect()
    }

    fn answers(&mut self) -> Vec<(Link, Answer)> {
        let sent = self.sent().into_iter();
        let answers = sent.filter_map(|(link, body)| match body {
            Body::Answer(answer) => Some((link, answer)),
            _ => None,
        });
        answers.collect()
    }

    /// The questions that are asked after this time.
    fn asks(&mut self, after: Millis) -> Vec<(Link, Ask)> {
        self.now += after;
        self.input(Input::Tick);
        let sent = self.sent().into_iter();
        let asks = sent.filter_map(|(link, body)| match body {
            Body::Ask(ask) => Some((link, ask)),
            _ => None,
        });
        asks.collect()
    }

    fn reach(&self, question: Question) -> (usize, usize, Vec<Owner>) {
        let reach = self.sync.reach(&self.replica, question).unwrap();
        let done = reach.reached >= reach.needed;
        assert_eq!(reach.is_reached(), done);
        (reach.reached, reach.needed, reach.lacking)
    }

    fn read(&mut self, level: Level) -> Question {
        self.sync.ask_for_read(self.now, &self.replica, level)
    }

    fn write(&mut self, level: Level, upto: VersionVector) -> Question {
        self.sync
            .ask_for_write(self.now, &self.replica, level, upto)
    }
}

/// An answer by which its sender counts, in the configuration that `members` have.
fn answer(id: u32, whole: bool, vector: VersionVector) -> Answer {
    Answer {
        id,
        era: 1,
        number: 2,
        accepted: false,
        counts: true,
        whole,
        vector,
    }
}

#[test]
fn levels_need_so_many() {
    let needed = |level: Level| [1, 2, 3, 4, 5].map(|members| level.needed(members));
    assert_eq!(needed(Level::Local), [0; 5]);
    assert_eq!(needed(Level::Quorum), [1, 2, 2, 3, 3]);
    assert_eq!(needed(Level::All), [1, 2, 3, 4, 5]);
    let names = [Level::Local, Level::Quorum, Level::All].map(Level::name);
    assert_eq!(names, ["local", "quorum", "all"]);
    assert_eq!(Level::default(), Level::Local);
}

#[test]
fn who_is_asked_for_nothing_in_particular_tells_all_that_it_holds() {
    let [one, ..] = members();
    let mut end = End::of(one);
    let link = end.link(5, 2, ANSWERS);
    end.replica.add("a", 1).unwrap();
    let (id, upto) = (7, VersionVector::default());
    end.frame(link, Body::Ask(Ask { id, upto }));
    let expected = answer(7, true, end.replica.vector());
    assert_eq!(end.answers(), [(link, expected)]);
    // A replica of an open space has nothing to say.
    let mut end = End::of(Replica::new(Space::default(), super::tests::id(1)));
    let link = end.link(5, 2, ANSWERS);
    let upto = VersionVector::default();
    end.frame(link, Body::Ask(Ask { id, upto }));
    assert_eq!(end.answers(), []);
}

#[test]
fn who_is_asked_for_something_answers_once_it_is_held() {
    let [one, mut two, _] = members();
    let mut end = End::of(one);
    let links = [end.link(5, 2, ANSWERS), end.link(6, 3, ANSWERS)];
    let clock = two.clock();
    two.add("a", 1).unwrap();
    let upto = of(&[(2, clock + 1)]);
    for (id, link) in [(7, links[0]), (8, links[1]), (9, links[1])] {
        let upto = upto.clone();
        end.frame(link, Body::Ask(Ask { id, upto }));
    }
    assert_eq!(end.answers(), []);
    two.add("a", 1).unwrap();
    let message = two.delta(&end.replica.vector());
    end.replica.merge(&message).unwrap();
    end.input(Input::Tick);
    // The later question stands for the one before, and it is told how much there is.
    let held = of(&[(2, clock + 2)]);
    let expected = [(7, links[0]), (9, links[1])];
    let expected = expected.map(|(id, link)| (link, answer(id, false, held.clone())));
    assert_eq!(end.answers(), expected);
    end.input(Input::Tick);
    assert_eq!(end.answers(), [], "once is enough");
}

#[test]
fn who_may_lack_the_key_of_a_retry_answers_once_it_knows_that() {
    let [one, mut two, _] = members();
    let mut end = End::of(one);
    let link = end.link(5, 2, ANSWERS);
    let clock = two.clock();
    let mut transaction = two.begin().unwrap();
    transaction.apply("a", Op::Add(1)).unwrap();
    let once = Once::new(b"key", b"");
    transaction.commit_once(once, &mut Vec::new()).unwrap();
    // A guest brings it, who knows no keys.
    let message = two.delta(&end.replica.vector());
    end.replica.merge(&message.clone().without_keys()).unwrap();
    let upto = two.consistency().written();
    assert!(end.replica.consistency().holds(&upto));
    let (id, ask) = (7, upto.clone());
    end.frame(link, Body::Ask(Ask { id, upto: ask }));
    assert_eq!(end.answers(), []);
    let question = end.write(Level::All, upto.clone());
    assert_eq!(end.reach(question).0, 0, "it does not count itself either");
    // It may be one of several that are asked for.
    let other = end.replica.consistency().written();
    let (id, both) = (8, other.joined(&of(&[(2, clock)])));
    end.frame(
        link,
        Body::Ask(Ask {
            id,
            upto: both.clone(),
        }),
    );
    assert_eq!(end.answers(), [(link, answer(8, false, both))]);

    let message = two.delta(&end.replica.keyed().vector());
    end.replica.merge(&message).unwrap();
    end.input(Input::Tick);
    assert_eq!(end.answers(), [(link, answer(7, false, upto))]);
    assert_eq!(end.reach(question).0, 1);
}

#[test]
fn questions_of_one_peer_are_limited_and_end_with_its_link() {
    let [one, ..] = members();
    let mut end = End::of(one);
    let links = [end.link(5, 2, ANSWERS), end.link(6, 3, ANSWERS)];
    for number in 0..70u8 {
        // None of them asks for what another one asks for.
        let upto = of(&[(100 + number, 1)]);
        let id = u32::from(number);
        end.frame(links[0], Body::Ask(Ask { id, upto }));
    }
    let upto = of(&[(99, 1)]);
    end.frame(links[1], Body::Ask(Ask { id: 200, upto }));
    let waiting = |end: &End| {
        let ids = end.sync.levels.waiting.iter().map(|it| it.id);
        ids.collect::<Vec<u32>>()
    };
    let mut kept: Vec<u32> = (6..70).collect();
    kept.push(200);
    assert_eq!(waiting(&end), kept);
    end.input(Input::Disconnected { link: links[0] });
    assert_eq!(waiting(&end), [200]);
}

#[test]
fn members_that_can_answer_are_asked_again_until_it_ends() {
    let [one, ..] = members();
    let mut end = End::of(one);
    let links = [
        end.link(5, 2, ANSWERS),
        end.link(6, 3, 3),        // an older program
        end.link(7, 77, ANSWERS), // no member
    ];
    assert_eq!(end.asks(1), []);
    let upto = of(&[(1, 3)]);
    let writes = [Level::Quorum, Level::All].map(|level| end.write(level, upto.clone()));
    let read = end.read(Level::All);
    assert_eq!(end.sync.next_deadline(), Some(end.now), "it is due at once");
    let ask = |id, upto| (links[0], Ask { id, upto });
    // Both reads, and all writes, are asked for together.
    let expected = [ask(0, VersionVector::default()), ask(1, upto.clone())];
    assert_eq!(end.asks(0), expected);
    assert_eq!(end.sync.next_deadline(), Some(end.now + ASK_AGAIN_MS));
    assert_eq!(end.asks(ASK_AGAIN_MS - 1), []);
    let expected = [ask(2, VersionVector::default()), ask(3, upto.clone())];
    assert_eq!(end.asks(1), expected);
    end.sync.end_question(read);
    end.sync.end_question(writes[0]);
    let again = end.asks(ASK_AGAIN_MS);
    assert_eq!(again, [ask(4, upto)]);
    // Somebody new is asked at once.
    end.now += 1;
    end.link(8, 3, ANSWERS);
    assert_eq!(end.sync.next_deadline(), Some(end.now + ASK_AGAIN_MS));
    end.sync.end_question(writes[1]);
    assert_eq!(end.asks(ASK_AGAIN_MS), []);
    assert!(end.sync.reach(&end.replica, read).is_none());
}

#[test]
fn a_write_counts_where_it_is_held_and_nothing_newer_was_accepted() {
    let [one, ..] = members();
    let mut end = End::of(one);
    let (two, three) = (end.link(5, 2, ANSWERS), end.link(6, 3, ANSWERS));
    end.replica.add("a", 1).unwrap();
    let upto = end.replica.consistency().written();
    let clock = end.replica.clock();
    assert_eq!(upto, of(&[(1, clock)]));
    let quorum = end.write(Level::Quorum, upto.clone());
    let all = end.write(Level::All, upto.clone());
    end.asks(0);
    let lacking = |owners: &[usize]| owners.iter().map(|at| OWNERS[*at]).collect::<Vec<_>>();
    assert_eq!(end.reach(quorum), (1, 2, lacking(&[1, 2])));
    let good = answer(0, false, upto);
    let wrong = [
        Answer {
            vector: of(&[(1, clock - 1)]),
            ..good.clone()
        },
        Answer {
            vector: of(&[(2, clock)]),
            ..good.clone()
        },
        Answer {
            counts: false,
            ..good.clone()
        },
        Answer {
            number: 3,
            ..good.clone()
        },
        Answer {
            era: 2,
            number: 1,
            ..good.clone()
        },
        Answer {
            accepted: true,
            ..good.clone()
        },
    ];
    for wrong in wrong {
        end.frame(two, Body::Answer(wrong.clone()));
        assert_eq!(end.reach(quorum), (1, 2, lacking(&[1, 2])), "{wrong:?}");
    }
    // It may be behind, and it is told all that is held.
    let behind = Answer {
        number: 1,
        whole: true,
        vector: end.replica.vector(),
        ..good.clone()
    };
    end.frame(two, Body::Answer(behind));
    assert_eq!(end.reach(quorum), (2, 2, lacking(&[2])));
    // It is certain that it did: what it says later of another configuration takes nothing back.
    end.frame(
        two,
        Body::Answer(Answer {
            accepted: true,
            ..good.clone()
        }),
    );
    assert_eq!(end.reach(quorum), (2, 2, lacking(&[2])));
    assert_eq!(end.reach(all), (2, 3, lacking(&[2])));
    end.frame(three, Body::Answer(good));
    assert_eq!(end.reach(all), (3, 3, vec![]));
}

#[test]
fn a_read_waits_until_it_has_seen_what_members_hold() {
    let [one, mut two, _] = members();
    let mut end = End::of(one);
    let link = end.link(5, 2, ANSWERS);
    let before = end.read(Level::Quorum);
    let asked = end.asks(0)[0].1.id;
    two.add("a", 1).unwrap();
    let read = end.read(Level::Quorum);
    // An answer to a question from before the second one began does not count for the second one.
    end.frame(
        link,
        Body::Answer(answer(asked, true, end.replica.vector())),
    );
    assert_eq!(end.reach(before).0, 2);
    assert_eq!(end.reach(read), (1, 2, vec![OWNERS[1], OWNERS[2]]));
    let asked = end.asks(0)[0].1.id;
    // Nor does what is not all.
    end.frame(
        link,
        Body::Answer(answer(asked, false, end.replica.vector())),
    );
    assert_eq!(end.reach(read).0, 1);
    end.sent();
    end.frame(link, Body::Answer(answer(asked, true, two.vector())));
    assert_eq!(end.reach(read).0, 1, "it is not here yet");
    let pulls = |sent: &(Link, Body)| matches!(sent, (at, Body::Pull(_)) if *at == link);
    assert!(end.sent().iter().any(pulls), "it is asked for");
    let message = two.delta(&end.replica.vector());
    end.replica.merge(&message).unwrap();
    assert_eq!(end.reach(read), (2, 2, vec![OWNERS[2]]));
    // Another state takes the place of the one that had seen it.
    end.sync.levels.open[1].generation += 1;
    end.asks(0);
    assert_eq!(end.reach(read).0, 1);
}

#[test]
fn a_guest_counts_for_nothing_and_asks_all_the_same() {
    let [one, two, _] = members();
    let mut guest = Replica::new(Space::default(), id(9));
    guest.merge(&one.delta(&VersionVector::default())).unwrap();
    let mut end = End::of(guest);
    let links = [end.link(5, 1, ANSWERS), end.link(6, 2, ANSWERS)];
    let read = end.read(Level::Quorum);
    let asked = end.asks(0)[0].1.id;
    for (link, reached) in links.into_iter().zip([1, 2]) {
        let vector = two.vector();
        assert!(end.replica.consistency().sees(&vector));
        end.frame(link, Body::Answer(answer(asked, true, vector)));
        assert_eq!(end.reach(read).0, reached);
    }
}

#[test]
fn questions_are_put_together_up_to_a_limit() {
    let mut asks = Vec::new();
    for number in 0..70u8 {
        gather(&mut asks, &of(&[(number, 1)]));
    }
    gather(&mut asks, &of(&[(3, 7)]));
    let lens: Vec<usize> = asks.iter().map(VersionVector::len).collect();
    assert_eq!(lens, [ASK_WRITERS_MAX, 6]);
    assert_eq!(asks[0].get(&id(3)), 7);
}

/// All changes of some of them, for each other.
fn exchange_among(all: &mut [Replica], among: &[usize]) {
    for from in among {
        for to in among {
            let message = all[*from].delta(&all[*to].vector());
            let live = Some(all[*from].writer());
            all[*to].merge_with(&message, live, &mut |_| ()).unwrap();
        }
    }
}

#[test]
fn a_read_under_members_that_were_replaced_counts_nobody_who_agreed_to_that() {
    let owners: [Owner; 5] = [1, 2, 3, 4, 5].map(|byte| [byte; 32]);
    let mut all: Vec<Replica> = members().into();
    all.extend([4, 5].map(|byte| Replica::new(Space::default(), id(byte))));
    // The second and the third agree to take out the first, who hears nothing of it, and take in two.
    // The second, which proposes it, does not hear either that it is decided.
    all[1].members_mut().propose(&owners[1..]).unwrap();
    for at in [2, 1] {
        exchange_among(&mut all, &[1, 2]);
        all[at].members_mut().vote().unwrap();
    }
    let news = all[1].delta(&all[2].vector());
    all[2].merge(&news).unwrap();
    all[2].members_mut().vote().unwrap();
    assert_eq!(
        all[2].members().configuration().unwrap().members,
        owners[1..]
    );
    assert!(all[1].consistency().footing().unwrap().accepted);
    for at in [3, 4] {
        exchange_among(&mut all, &[2, at]);
        all[at]
            .members_mut()
            .announce(&owners[at], &[0; 16], 1)
            .unwrap();
    }
    all[2].add("w", 1).unwrap();
    for _ in 0..4 {
        exchange_among(&mut all, &[2, 3, 4]);
        for at in [2, 3, 4] {
            all[at].members_mut().acknowledge().unwrap();
        }
    }
    exchange_among(&mut all, &[2, 3, 4]);
    let mut ends: Vec<End> = all.into_iter().map(End::of).collect();
    let upto = ends[2].replica.consistency().written();
    let write = ends[2].write(Level::Quorum, upto);
    for at in [3, 4] {
        question(&mut ends, 2, at);
    }
    let lacks = vec![OWNERS[1]];
    assert_eq!(ends[2].reach(write), (3, 3, lacks));

    let read = ends[0].read(Level::Quorum);
    let answer = question(&mut ends, 0, 1);
    assert!(answer.accepted && answer.counts);
    let held = ends[1].replica.delta(&ends[0].replica.vector());
    ends[0].replica.merge(&held).unwrap();
    assert!(ends[0].replica.consistency().sees(&answer.vector));
    assert_eq!(ends[0].replica.value("w"), None);
    assert_eq!(ends[0].reach(read).0, 1, "only itself, who is no majority");
}

/// One asks another, and hears what that answers.
fn question(ends: &mut [End], from: usize, to: usize) -> Answer {
    let [asks, answers] = [(from, to), (to, from)].map(|(at, peer)| {
        let writer = peer as u8 + 1;
        ends[at].link(u32::from(writer), writer, ANSWERS)
    });
    for (_, ask) in ends[from].asks(ASK_AGAIN_MS) {
        ends[to].frame(answers, Body::Ask(ask));
    }
    let mut told = ends[to].answers();
    let (_, answer) = told.pop().expect("it answers");
    ends[from].frame(asks, Body::Answer(answer.clone()));
    answer
}

/// A read waits for what a member has, so that is pulled although nothing else would be yet.
#[test]
fn who_waits_for_a_read_pulls_also_soon_after_a_long_transfer() {
    let [one, mut two, _] = members();
    let mut end = End::of(one);
    let link = end.link(5, 2, ANSWERS);
    let pull = |end: &mut End| {
        let sent = end.sent().into_iter();
        let mut pulls = sent.filter_map(|(_, body)| match body {
            Body::Pull(pull) => Some(pull.id),
            _ => None,
        });
        pulls.next()
    };
    let differs = |end: &mut End| {
        let (vector, contents) = ([1; 16], 0);
        end.frame(link, Body::Digest(Digests { vector, contents }));
    };
    differs(&mut end);
    let id = pull(&mut end).expect("it has something else");
    for at in 0..5_000 {
        two.add(&std::format!("counter:{at}"), 1).unwrap();
    }
    let message = two.delta(&end.replica.vector());
    let (chunk, last) = (0, true);
    let delta = Delta {
        id,
        chunk,
        last,
        message,
    };
    end.frame(link, Body::Delta(delta));
    assert_eq!(end.replica.value("counter:7"), Some(1));
    differs(&mut end);
    assert_eq!(pull(&mut end), None, "first there is time for writes");
    two.add("a", 1).unwrap();
    end.read(Level::Quorum);
    let [(_, ask)] = &end.asks(0)[..] else {
        panic!("it is asked what it holds");
    };
    let it = answer(ask.id, true, two.vector());
    end.frame(link, Body::Answer(it));
    assert!(pull(&mut end).is_some());
}
