//! Vectors of keyed operations: in messages of a space with members, and in stored records.

use super::{Vector, after, full, replica, vector};
use tallymesh_core::{Encode, Mark, Message, Once, Op, Owner, Replica};

const OWNERS: [Owner; 2] = [[1; 32], [2; 32]];

/// A request under this idempotency key.
pub(crate) fn once(key: &str) -> Once {
    Once::new(key.as_bytes(), b"the same")
}

/// Makes operations under a key.
pub(crate) fn make(replica: &mut Replica, key: &str, ops: &[(&str, Op)]) {
    let mut transaction = replica.begin().expect("a vector's clock is small");
    for (counter, op) in ops {
        let done = transaction.apply(counter, *op);
        done.expect("a vector's operation fits");
    }
    let done = transaction.commit_once(once(key), &mut Vec::new());
    done.expect("a vector's operations are few");
}

/// Writer 11.., the founder of a space with members.
fn founder() -> Replica {
    let mut one = replica(0x11);
    one.members_mut()
        .found(&OWNERS[0], &[7; 16], 1)
        .expect("it is open");
    one
}

/// Two members with the writers 11.. and 22.., after they have acknowledged everything.
pub(crate) fn members() -> [Replica; 2] {
    let (mut one, mut two) = (founder(), replica(0x22));
    one.members_mut().force(&OWNERS).expect("it is a member");
    tell(&one, &mut two);
    two.members_mut()
        .announce(&OWNERS[1], &[7; 16], 1)
        .expect("it is one");
    settle(&mut one, &mut two);
    [one, two]
}

/// Sends all changes of one replica to the other, which then withdraws its duplicates.
pub(super) fn tell(from: &Replica, to: &mut Replica) {
    let message = from.delta(&to.keyed().vector());
    let merged = to.merge_with(&message, Some(from.writer()), &mut |_| ());
    merged.expect("a vector's merge fits");
    let done = to.keyed_mut().withdraw(&mut |_, _| ());
    done.expect("a vector's clock is small");
}

/// Two members exchange all changes, and put in order what both have seen.
fn settle(one: &mut Replica, two: &mut Replica) {
    for _ in 0..6 {
        tell(one, two);
        tell(two, one);
        tend(one);
        tend(two);
    }
}

/// Acknowledges, retires and collects, wherever this is due.
fn tend(replica: &mut Replica) {
    replica
        .members_mut()
        .acknowledge()
        .expect("a vector's clock is small");
    replica
        .members_mut()
        .retire()
        .expect("a vector's clock is small");
    let mut mark = Mark::default();
    let _ = replica.since(&mut mark);
    replica.members_mut().collect(&mark);
}

/// Writer 11.. added 100 to `a`. Under the key `k`, it subtracted 3 from `b` and added 5 to `a`. The message
/// has what 22.. lacks of it.
fn made() -> ([Replica; 2], Message) {
    let [mut one, two] = members();
    one.add("a", 100).expect("a vector's add fits");
    let ops = [("b", Op::Add(-3)), ("a", Op::Add(5))];
    make(&mut one, "k", &ops);
    let message = one.delta(&two.vector());
    ([one, two], message)
}

/// The delta of 22.., after it received these changes through a page, and added 1 to `a` under the key `l`.
fn with_key_gaps() -> Message {
    let ([one, mut two], message) = made();
    let merged = two.merge_with(&message.without_keys(), None, &mut |_| ());
    merged.expect("a vector's merge fits");
    make(&mut two, "l", &[("a", Op::Add(1))]);
    two.delta(&one.vector())
}

/// Both members added 5 to `a` under the key `k`, and 7 to `a` under the key `l`. Before that, 22.. had added
/// 10 to `a`. Then 22.. received the changes of 11..
fn withdrawn() -> [Replica; 2] {
    let [mut one, mut two] = members();
    two.add("a", 10).expect("a vector's add fits");
    for replica in [&mut one, &mut two] {
        make(replica, "k", &[("a", Op::Add(5))]);
        make(replica, "l", &[("a", Op::Add(7))]);
    }
    tell(&one, &mut two);
    [one, two]
}

/// The full state of 11.., after it fenced 22.. and retired it. Before that, 22.. had made a keyed operation.
fn absorbed() -> Message {
    let [mut one, mut two] = members();
    make(&mut two, "k", &[("a", Op::Add(5))]);
    settle(&mut one, &mut two);
    one.members_mut()
        .force(&OWNERS[..1])
        .expect("it is a member");
    one.members_mut()
        .fence(&two.writer())
        .expect("it is no member's");
    tend(&mut one);
    tend(&mut one);
    full(&one)
}

/// Messages that must decode, and encode to the same bytes.
pub(super) fn messages() -> Vec<Vector> {
    let (_, keyed) = made();
    let [one, two] = withdrawn();
    let joined = {
        let [mut one, mut two] = [one.clone(), two.clone()];
        settle(&mut one, &mut two);
        full(&one)
    };
    vec![
        vector(
            "founded",
            "Writer 11.. of owner 01.. made its space one with members, with nonce 07.. and generation 1.",
            full(&founder()).encode(),
        ),
        vector(
            "keyed",
            "Of two members 11.. added 100 to `a`; then it took 3 from `b` and added 5 to `a`, under the key `k`, asked for by the bytes `the same`. What 22.. lacks of that.",
            keyed.encode(),
        ),
        vector(
            "keyless",
            "The message keyed, as a page tells it.",
            keyed.without_keys().encode(),
        ),
        vector(
            "lacking",
            "What 22.. tells 11.. after it got the message keyless, and added 1 to `a` under the key `l`: it may lack keyed operations of 11.., and has one of its own, with a mark that says so.",
            with_key_gaps().encode(),
        ),
        vector(
            "withdrawals",
            "Two members added 5 to `a` under the key `k` and 7 under `l`, and 22.. had added 10 before. What 22.. tells 11.. once it heard of that, and withdrew both of its own.",
            two.delta(&one.vector()).encode(),
        ),
        vector(
            "withdrawals_joined",
            "The state of both, once all have seen that: of the two withdrawals there is one, and both operations are remembered under their keys.",
            joined.encode(),
        ),
        vector(
            "keyed_absorbed",
            "The state of 11.. once 22.., which added 5 to `a` under the key `k`, was taken over and is forgotten.",
            absorbed().encode(),
        ),
        vector(
            "keyed_least",
            "Nothing but one operation under a key, of clock 2 of 11.., which added 5 to `a` after clock 1: the refusals of such change a byte of it each.",
            super::refused::keyed_least(),
        ),
        vector(
            "withdrawal_least",
            "Nothing but one withdrawal, of the 5 that 11.. added to `a` at clock 2, made by it at clock 3: the refusals of such change a byte of it each.",
            super::refused::withdrawal_least(),
        ),
    ]
}

/// A replica of an open space. It added 2 to `a`, then 5 under the key `k`, and reset `a`.
pub(super) fn alone() -> Replica {
    let mut replica = after(&[("a", Op::Add(2))]);
    make(&mut replica, "k", &[("a", Op::Add(5))]);
    let done = replica.apply("a", Op::Reset);
    done.expect("a vector's operation fits");
    replica
}

/// Records of a store that must decode, and encode to the same bytes.
pub(super) fn stored() -> Vec<Vector> {
    let ([one, _], _) = made();
    let since = |replica: &mut Replica| {
        let mut mark = Mark::default();
        let _ = replica.since(&mut mark);
        make(replica, "m", &[("a", Op::Add(1)), ("c", Op::Delete)]);
        let message = replica.since(&mut mark).expect("something changed");
        message.encode_stored()
    };
    vec![
        vector(
            "open",
            "All that a store keeps of 11.., which in an open space added 2 to `a`, 5 under the key `k`, and reset it.",
            alone().snapshot().encode_stored(),
        ),
        vector(
            "member",
            "All that a store keeps of 11.. of the message keyed: with the keys, all in order, comes what it made and nobody else is known to hold.",
            one.snapshot().encode_stored(),
        ),
        vector(
            "member_record",
            "What came after that: 11.. added 1 to `a` and deleted `c`, which is not there, under the key `m`.",
            since(&mut one.clone()),
        ),
        vector(
            "withdrawals",
            "All that a store keeps of 22.. of the message withdrawals.",
            withdrawn()[1].snapshot().encode_stored(),
        ),
        vector(
            "open_record",
            "What came after open, where its writer added 3 to `b` under the key `m`.",
            {
                let mut replica = alone();
                let mut mark = Mark::default();
                let _ = replica.since(&mut mark);
                make(&mut replica, "m", &[("b", Op::Add(3))]);
                let message = replica.since(&mut mark).expect("something changed");
                message.encode_stored()
            },
        ),
    ]
}
