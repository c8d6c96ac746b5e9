//! Damage: which is detected, and which looks like an interrupted commit.

use super::super::frame;
use super::super::played::Played;
use super::super::segment::{self, HEADER_BYTES, Header};
use super::super::{Kind, Log, Store, StoreError};
use super::{change, loaded, opened, record};
use std::collections::BTreeMap;

type Files = BTreeMap<String, Vec<u8>>;
type Contents = [Vec<(Kind, Vec<u8>)>; 2];

fn contents(log: &mut Log) -> Contents {
    ["one", "two"].map(|name| loaded(log, name).expect("load"))
}

/// A log of several segments, and its records with and without the last commit.
fn log() -> (Files, Contents, Contents) {
    let disk = Played::new(1);
    let mut log = opened(&disk).expect("open");
    log.identity([7; 32]).expect("identity");
    let mut commits = vec![vec![change("one", b"a"), change("two", b"b")]];
    commits.extend((0..5).map(|count| vec![change("one", &[count; 200])]));
    commits.push(vec![record("one", Kind::First, b"1")]);
    commits.push(vec![record("one", Kind::Last, b"2")]);
    commits.push(vec![change("two", &[9; 60])]);
    for commit in commits {
        log.commit(&commit).expect("commit");
    }
    let before = contents(&mut log);
    log.commit(&[change("one", b"the last"), change("two", b"of all")])
        .expect("commit");
    let all = contents(&mut log);
    assert_ne!(before, all);
    assert_eq!(log.segment_count(), 4);
    (disk.contents(), before, all)
}

fn open(files: &Files) -> Result<(Contents, bool), StoreError> {
    let mut log = opened(&Played::with(files))?;
    let torn = log.torn().is_some();
    Ok((contents(&mut log), torn))
}

fn segments(files: &Files) -> Vec<String> {
    let names = files.keys().filter(|name| name.starts_with("log-"));
    names.cloned().collect()
}

/// The places of the frames in a segment.
fn frames(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let seal = Header::decode(bytes).expect("a header").seal;
    let mut at = HEADER_BYTES;
    let mut found = Vec::new();
    while let Some(frame) = frame::decode(seal, &bytes[at..]) {
        found.push(at..at + frame.bytes());
        at += frame.bytes();
    }
    found
}

#[test]
fn no_bit_changes_unnoticed() {
    let (files, before, all) = log();
    assert_eq!(open(&files).expect("whole"), (all.clone(), false));
    let names = segments(&files);
    let last_frame = frames(&files[&names[3]]).pop().expect("a frame");
    let (mut damaged, mut torn) = (0, 0);
    for name in &names {
        let written = frames(&files[name]).pop().expect("a frame").end;
        for bit in 0..files[name].len() * 8 {
            let mut changed = files.clone();
            changed.get_mut(name).expect("a segment")[bit / 8] ^= 1 << (bit % 8);
            let context = || format!("bit {bit} of {name}");
            match open(&changed) {
                Err(error) => {
                    assert_eq!(error.code(), "store_damaged", "{}: {error}", context());
                    damaged += 1;
                }
                Ok((found, is_torn)) if found == all => {
                    assert!(bit / 8 >= written, "{} is not seen", context());
                    // Bytes behind the end of a segment that is followed by another have no
                    // meaning.
                    assert_eq!(is_torn, *name == names[3]);
                }
                Ok((found, is_torn)) => {
                    let is_last = *name == names[3] && last_frame.contains(&(bit / 8));
                    assert!(is_last, "{} loses a commit", context());
                    assert!(is_torn && found == before);
                    torn += 1;
                }
            }
        }
    }
    assert_eq!(
        torn,
        last_frame.len() * 8,
        "the last commit alone is in doubt"
    );
    assert!(damaged > 3 * 512 * 8);
}

#[test]
fn damage_names_the_place_and_changes_nothing() {
    let (mut files, ..) = log();
    let name = segments(&files)[1].clone();
    let frame = frames(&files[&name])[1].clone();
    files.get_mut(&name).expect("a segment")[frame.start + 40] ^= 1;
    let disk = Played::with(&files);
    let error = opened(&disk).err().expect("damaged").to_string();
    let place = format!("byte {} of `{name}`", frame.start);
    assert!(
        error.contains(&place) && error.contains("backup"),
        "{error}"
    );
    assert_eq!(disk.contents(), files);
}

#[test]
fn the_key_and_the_format_are_checked() {
    let (files, ..) = log();
    for bit in 0..files["identity"].len() * 8 {
        let mut changed = files.clone();
        changed.get_mut("identity").expect("there")[bit / 8] ^= 1 << (bit % 8);
        let mut log = opened(&Played::with(&changed)).expect("open");
        let error = log.identity([1; 32]).expect_err("damaged");
        assert_eq!(error.code(), "store_damaged");
    }
    for (text, code) in [
        ("", "store_damaged"),
        ("what\n", "store_damaged"),
        ("12\n", "store_format"),
    ] {
        let mut changed = files.clone();
        changed.insert("format".into(), text.into());
        let refused = opened(&Played::with(&changed)).err().expect("refused");
        assert_eq!(refused.code(), code, "{text:?}");
    }
    let mut changed = files.clone();
    changed.remove("format");
    let refused = opened(&Played::with(&changed)).err().expect("refused");
    assert_eq!(refused.code(), "store_damaged");
}

#[test]
fn no_segment_is_short_or_missing_unnoticed() {
    let (files, ..) = log();
    let names = segments(&files);
    for name in &names {
        for length in 0..files[name].len() {
            let mut changed = files.clone();
            changed.get_mut(name).expect("a segment").truncate(length);
            let error = open(&changed).expect_err("short");
            assert_eq!(error.code(), "store_damaged", "{name} with {length} bytes");
        }
    }
    for gone in 1..(1 << names.len()) {
        let mut changed = files.clone();
        changed.retain(|name, _| {
            let place = names.iter().position(|it| it == name);
            place.is_none_or(|place| gone & (1 << place) == 0)
        });
        // If the newest segments are gone, nothing shows that they existed.
        if !segments(&changed).is_empty() && names.starts_with(&segments(&changed)) {
            continue;
        }
        let error = open(&changed).expect_err("missing");
        assert_eq!(error.code(), "store_damaged", "{:?}", segments(&changed));
    }
}

#[test]
fn commits_that_are_zeros_are_missed() {
    let (files, ..) = log();
    let names = segments(&files);
    for name in &names {
        let frames = frames(&files[name]);
        for (place, frame) in frames.iter().enumerate() {
            if *name == names[3] && place + 1 == frames.len() {
                continue; // The very last commit.
            }
            let mut changed = files.clone();
            changed.get_mut(name).expect("a segment")[frame.clone()].fill(0);
            let error = open(&changed).expect_err("a commit is missing");
            assert_eq!(error.code(), "store_damaged", "commit {place} of {name}");
        }
    }
}

#[test]
fn a_commit_cut_short_anywhere_is_given_up_and_the_next_takes_its_place() {
    let (files, before, all) = log();
    let name = segments(&files)[3].clone();
    let last = frames(&files[&name]).pop().expect("a frame");
    for kept in 0..last.len() {
        let mut changed = files.clone();
        let end = last.start + kept;
        changed.get_mut(&name).expect("a segment")[end..].fill(0);
        let disk = Played::with(&changed);
        let mut log = opened(&disk).expect("open");
        let torn = log.torn().cloned();
        assert_eq!(torn.is_some(), kept > 0);
        assert!(torn.is_none_or(|torn| torn.file == name && torn.offset == last.start as u64));
        assert_eq!(contents(&mut log), before, "{kept} bytes");
        log.commit(&[change("one", b"n")]).expect("commit");
        let expected = contents(&mut log);
        drop(log);
        let mut log = opened(&disk).expect("open again");
        assert!(log.torn().is_none(), "the pieces are gone");
        assert_eq!(contents(&mut log), expected);
    }
    assert_eq!(open(&files).expect("whole").0, all);
}

#[test]
fn a_stale_frame_is_none() {
    let (files, _, all) = log();
    let names = segments(&files);
    let end = frames(&files[&names[3]]).pop().expect("a frame").end;
    for name in &names {
        for frame in frames(&files[name]) {
            let stale = files[name][frame].to_vec();
            let mut changed = files.clone();
            let segment = changed.get_mut(&names[3]).expect("a segment");
            if end + stale.len() > segment.len() {
                continue;
            }
            segment[end..end + stale.len()].copy_from_slice(&stale);
            assert_eq!(open(&changed).expect("torn"), (all.clone(), true));
        }
        // A whole segment is copied under the next number.
        let mut changed = files.clone();
        changed.insert(segment::name(5), files[name].clone());
        let error = open(&changed).expect_err("damaged");
        assert_eq!(error.code(), "store_damaged");
    }
}

#[test]
fn a_last_segment_that_was_never_used_may_have_no_header() {
    let (files, _, all) = log();
    for bytes in [vec![0; 1024], [vec![0xFF; 512], vec![0; 512]].concat()] {
        let mut changed = files.clone();
        changed.insert(segment::name(5), bytes);
        let disk = Played::with(&changed);
        let mut log = opened(&disk).expect("open");
        assert_eq!(contents(&mut log), all);
        assert!(!disk.contents().contains_key(&segment::name(5)));
    }
    let mut changed = files.clone();
    changed.insert(segment::name(5), [vec![0; 600], vec![1]].concat());
    assert!(open(&changed).is_err());
}

#[test]
fn what_is_read_later_is_checked_again() {
    let (files, ..) = log();
    let disk = Played::with(&files);
    let mut log = opened(&disk).expect("open");
    let name = segments(&files)[3].clone();
    let frame = frames(&files[&name]).pop().expect("a frame");
    let place = (frame.end - 1) as u64;
    let byte = files[&name][frame.end - 1];
    let file = super::super::files::Folder::open(&disk, &name).expect("open");
    file.write_at(place, &[!byte]).expect("write");
    let error = loaded(&mut log, "two").expect_err("changed");
    assert_eq!(error.code(), "store_damaged");
}
