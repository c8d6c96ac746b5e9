//! Operations of the core, so many times each, whose instructions `cargo xtask bench -- core` counts.
//!
//! `core_counts ROW N` makes two replicas of 2,000 counters, and then does the row's operation N times. The
//! difference between N times and no time is what the operations take. This program names the core alone, so
//! that it can be built with the core of another revision.

use std::hint::black_box;
use std::process::ExitCode;
use tallymesh_core::{Encode, Error, Message, Op, Replica, Space, VersionVector, WriterId};

const COUNTERS: usize = 2_000;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let row = args.next().unwrap_or_default();
    let times = args.next().and_then(|times| times.parse().ok());
    match times.map(|times| play(&row, times)) {
        Some(Ok(true)) => ExitCode::SUCCESS,
        Some(Err(error)) => fail(&error.to_string()),
        Some(Ok(false)) | None => fail("usage: core_counts ROW N"),
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::FAILURE
}

fn replica(number: u8) -> Replica {
    Replica::new(Space::default(), WriterId::from_bytes([number; 16]))
}

/// Plays a row. Returns whether there is one of this name.
fn play(row: &str, times: usize) -> Result<bool, Error> {
    let keys: Vec<String> = (0..COUNTERS).map(|i| format!("counter-{i:05}")).collect();
    let key = |i: usize| keys[i % COUNTERS].as_str();
    let (mut ours, mut theirs) = (replica(1), replica(2));
    for key in &keys {
        ours.add(key, 1)?;
        theirs.add(key, 2)?;
    }
    let whole = |of: &Replica| of.delta(&VersionVector::default());
    match row {
        "add" => {
            for i in 0..times {
                ours.add(key(i), 1)?;
            }
        }
        "add_at" => {
            let id = ours.add(key(7), 1)?;
            for _ in 0..times {
                ours.add_at(id, 1)?;
            }
        }
        "merge" => {
            let message = whole(&theirs);
            for _ in 0..times {
                ours.merge(&message)?;
            }
        }
        "merge_new" => {
            let message = whole(&theirs);
            for _ in 0..times {
                replica(3).merge(&message)?;
            }
        }
        "delta" => {
            for _ in 0..times {
                black_box(whole(&theirs).encode());
            }
        }
        "decode" => {
            let bytes = whole(&theirs).encode();
            for _ in 0..times {
                black_box(Message::decode(&bytes)?);
            }
        }
        "since" => {
            let mut mark = ours.mark();
            for i in 0..times {
                ours.add(key(i), 1)?;
                black_box(ours.since(&mut mark));
            }
        }
        "transact" => {
            for i in 0..times {
                ours.transact(&[(key(i), Op::Add(1)), (key(i + 9), Op::Add(-1))])?;
            }
        }
        "reset" => {
            for i in 0..times {
                ours.apply(key(i), Op::Reset)?;
                ours.add(key(i), 1)?;
            }
        }
        "value" => {
            for i in 0..times {
                black_box(ours.value(key(i)));
            }
        }
        "members" => {
            let mut member = replica(1);
            member.members_mut().found(&[1; 32], &[1; 16], 5)?;
            for i in 0..times {
                member.add(key(i), 1)?;
                black_box(member.members_mut().acknowledge()?);
            }
            let mark = member.mark();
            member.members_mut().collect(&mark);
        }
        _ => return Ok(false),
    }
    Ok(true)
}
