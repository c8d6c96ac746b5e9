//! Hostile bytes: the corpus, and seeded noise made from it and from the golden vectors.

use std::path::PathBuf;
use tallymesh_core::bounds::ASKS_WAITING_MAX;
use tallymesh_core::{Encode, Message, Op, Replica, Space, VersionVector, WriterId};
use tallymesh_tests::closed::{Delivery, deliveries};
use tallymesh_tests::hostile::{
    HISTORY_SEED, answers_to, audit, delivery, frame, member, merge, message, mutate, peer,
    sessions, stored, token,
};
use tallymesh_tests::random::Random;
use tallymesh_tests::seeds;
use tallymesh_tests::vectors::{Vector, answers, frames, messages, questions, refusals, tokens};

type Entry = fn(&[u8]);

/// The files of one corpus, in the order of their names.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let files = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "the corpus {name} is empty");
    files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect()
}

/// Runs inputs as they are, and then with random changes.
fn attack(entry: Entry, inputs: &[Vec<u8>], rounds: u64) {
    for input in inputs {
        entry(input);
    }
    for seed in 0..rounds {
        let mut random = Random::new(seed);
        let mut bytes = random.pick(inputs).clone();
        for _ in 0..4 {
            mutate(&mut bytes, &mut random);
            if let Err(panic) = std::panic::catch_unwind(|| entry(&bytes)) {
                eprintln!("seed {seed}: {bytes:02x?}");
                std::panic::resume_unwind(panic);
            }
        }
    }
}

fn bytes(vectors: Vec<Vector>) -> impl Iterator<Item = Vec<u8>> {
    vectors.into_iter().map(|vector| vector.bytes)
}

/// Commands that connect a full peer, a reader, a writer and an editor.
const CONNECTS: [u8; 4] = [80, 88, 89, 90];

/// A script that connects by this command, sends a hello, and sends each of these frames, with time between
/// them.
fn script(connect: u8, said: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut script = vec![connect];
    let named = |name| frames().into_iter().filter(move |it| it.name == name);
    let greeting = named("hello").chain(named("own")).map(|it| it.bytes);
    for bytes in greeting.chain(said) {
        script.push(0);
        script.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        script.extend_from_slice(&bytes);
        script.extend_from_slice(&[112, 106]);
    }
    script
}

/// The state of a member whose vote on going on alone needs the other member.
fn voted() -> Vec<u8> {
    let mut one = Replica::new(Space::default(), WriterId::from_bytes([1; 16]));
    one.members_mut().found(&[8; 32], &[1; 16], 1).unwrap();
    one.members_mut().propose(&[[8; 32], [9; 32]]).unwrap();
    one.members_mut().propose(&[[8; 32]]).unwrap();
    let state = one.delta(&VersionVector::default());
    assert!(format!("{state:?}").contains("Vote("), "{state:?}");
    state.encode()
}

#[test]
fn messages_are_refused_or_mean_themselves() {
    let mut inputs = corpus("message");
    inputs.push(voted());
    inputs.extend(bytes(messages()));
    inputs.extend(bytes(refusals()));
    attack(message, &inputs, seeds::count(60_000));
}

#[test]
fn frames_are_refused_or_mean_themselves() {
    let mut inputs = corpus("frame");
    inputs.extend(bytes(frames()));
    inputs.extend(bytes(refusals()));
    attack(frame, &inputs, seeds::count(60_000));
}

#[test]
fn audits_are_refused_or_mean_themselves() {
    let mut inputs = corpus("audit");
    inputs.extend(bytes(questions()).chain(bytes(answers())));
    attack(audit, &inputs, seeds::count(60_000));
}

/// The records of a guest's store: the state that it received, its own changes, and their acknowledgement.
fn records() -> Vec<Vec<u8>> {
    let replica = |byte| Replica::new(Space::default(), WriterId::from_bytes([byte; 16]));
    let (mut member, mut guest) = (replica(1), replica(2));
    member.members_mut().found(&[9; 32], &[1; 16], 1).unwrap();
    let mut records = vec![guest.snapshot().encode_stored()];
    for byte in 3..5 {
        member.add("a", i64::from(byte)).unwrap();
        let state = member.delta(&guest.vector());
        guest.merge(&state).unwrap();
        guest.add("b", 7).unwrap();
        guest.apply("a", Op::Set(5)).unwrap();
        guest.apply("b", Op::Expire(1 << 40)).unwrap();
        guest.apply("c", Op::Delete).unwrap();
        let record = guest.snapshot().encode_stored();
        guest = replica(byte);
        let stored = Message::decode_stored(&record).unwrap();
        guest.restore(&stored).unwrap();
        records.push(record);
    }
    records
}

#[test]
fn records_are_refused_or_mean_themselves() {
    let mut inputs = corpus("stored");
    inputs.extend(records());
    inputs.extend(bytes(tallymesh_tests::vectors::stored()));
    inputs.extend(bytes(messages()));
    attack(stored, &inputs, seeds::count(60_000));
}

#[test]
fn a_hostile_peer_breaks_nothing() {
    let mut inputs = corpus("peer");
    for connect in CONNECTS {
        inputs.push(script(connect, bytes(frames())));
        inputs.extend(frames().into_iter().map(|vector| {
            // Answers to questions of the victim. Its first request has number 1.
            script(connect, [vector.bytes.clone(), vector.bytes].into_iter())
        }));
    }
    attack(peer, &inputs, seeds::count(40_000));
}

/// These messages as pushes of a member that has sent its hello, and of a page.
fn pushes(said: &[Vec<u8>]) -> Vec<Vec<u8>> {
    const PUSH: u8 = 32 + 6;
    let session = &sessions()[0];
    // The connection, and the frame that follows it: the hello.
    let size = usize::from(u16::from_le_bytes([session[2], session[3]]));
    let greeting = &session[..4 + size];
    let push = |said: &Vec<u8>| {
        let size = u16::try_from(said.len()).unwrap().to_le_bytes();
        [greeting, &[PUSH], &size, said, &[104, 114, 104]].concat()
    };
    said.iter().map(push).collect()
}

#[test]
fn a_hostile_peer_breaks_no_member() {
    let mut inputs = corpus("member");
    inputs.extend(sessions());
    let said: Vec<Vec<u8>> = bytes(messages()).chain(bytes(refusals())).collect();
    inputs.extend(pushes(&said));
    // Mostly whole sessions, because they have the most parts to change.
    inputs.extend((0..inputs.len()).map(|at| sessions()[at % 2].clone()));
    attack(member, &inputs, seeds::count(20_000));
}

#[test]
fn who_asks_too_much_gets_as_many_answers_as_may_wait() {
    assert_eq!(answers_to(10), 10);
    assert_eq!(answers_to(200), ASKS_WAITING_MAX);
}

#[test]
fn tokens_are_refused_or_mean_themselves() {
    let mut inputs = corpus("token");
    inputs.extend(tokens().into_iter().map(|it| it.text.into_bytes()));
    attack(token, &inputs, seeds::count(60_000));
}

/// The deliveries of some histories of spaces with members.
fn histories() -> Vec<Delivery> {
    let histories = (0..HISTORIES).map(|seed| deliveries(seed).unwrap());
    histories.flatten().collect()
}

const HISTORIES: u64 = 12;

/// The possible parts of a message in a space with members, as its debug text shows them.
const PARTS: [&str; 20] = [
    "Horizon(",
    "Announce(",
    "Admit(",
    "Ack(",
    "Leave(",
    "Fence(",
    "Retired(",
    "Configuration(",
    "Gone(",
    "Base",
    "extra: Some",
    "watermark: Some",
    "lift: Some",
    "moved: Some",
    "fold: Some",
    "without_keys: true",
    "key_gaps: [0",
    "KeyedOp {",
    "KeyedAdd {",
    "Withdrawal {",
];

fn parts(bytes: &[u8]) -> Vec<&'static str> {
    let Ok(message) = Message::decode(bytes) else {
        return Vec::new();
    };
    let text = format!("{message:?}");
    PARTS
        .into_iter()
        .filter(|part| text.contains(part))
        .collect()
}

/// The corpus has messages with each kind of membership record and side, and keyed operations.
/// `TALLYMESH_BLESS=1` rewrites it from the history of the deliveries, with healthy sessions and tokens. It
/// takes the messages in order of length, and includes each one with a kind that the earlier ones lack.
#[test]
fn the_corpus_knows_spaces_with_members() {
    if std::env::var_os("TALLYMESH_BLESS").is_some() {
        let history = deliveries(HISTORY_SEED).unwrap();
        let mut known: Vec<&str> = Vec::new();
        let mut order: Vec<usize> = (0..history.len()).collect();
        order.sort_by_key(|at| history[*at].bytes.len());
        for at in order {
            let bytes = &history[at].bytes;
            let fresh = parts(bytes)
                .into_iter()
                .filter(|part| !known.contains(part));
            let fresh: Vec<&str> = fresh.collect();
            if fresh.is_empty() {
                continue;
            }
            known.extend(fresh);
            let number = u16::try_from(at).unwrap();
            let script = [&number.to_le_bytes()[..], bytes].concat();
            let name = format!("members_{number}");
            write("merge", &name, &script);
            write("message", &name, bytes);
        }
        for (name, script) in ["direct", "by_page"].iter().zip(sessions()) {
            write("member", name, &script);
        }
        for it in tokens() {
            write("token", it.name, it.text.as_bytes());
        }
    }
    let messages = corpus("message").into_iter();
    let scripts = corpus("merge")
        .into_iter()
        .map(|script| script[2..].to_vec());
    for all in [messages.collect::<Vec<_>>(), scripts.collect()] {
        let known: Vec<&str> = all.iter().flat_map(|bytes| parts(bytes)).collect();
        let missing = PARTS.iter().filter(|part| !known.contains(part));
        assert_eq!(missing.collect::<Vec<_>>(), [] as [&&str; 0]);
    }
    corpus("merge").iter().for_each(|script| delivery(script));
}

fn write(name: &str, file: &str, bytes: &[u8]) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(file), bytes).unwrap();
}

/// Messages with all kinds of membership records and sides, unchanged, changed, and sent to other replicas.
#[test]
fn hostile_messages_break_no_space_with_members() {
    let deliveries = histories();
    for delivery in &deliveries {
        merge(delivery, &delivery.bytes);
    }
    let rounds = seeds::count(60_000);
    seeds::each(rounds, |seed| {
        let mut random = Random::new(seed);
        let delivery = random.pick(&deliveries);
        let mut bytes = match random.chance(800) {
            true => delivery.bytes.clone(),
            false => random.pick(&deliveries).bytes.clone(),
        };
        for _ in 0..3 {
            mutate(&mut bytes, &mut random);
            let broken = std::panic::catch_unwind(|| merge(delivery, &bytes));
            broken.map_err(|_| format!("TALLYMESH_SEED={seed}: {bytes:02x?}"))?;
        }
        Ok(())
    });
}
