//! Tokens, and texts that are not tokens.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// The text of a token with a name, and a description of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenText {
    /// The name in documents.
    pub name: &'static str,
    /// A description of the content.
    pub says: &'static str,
    /// The bytes of the token.
    pub bytes: Vec<u8>,
    /// The text.
    pub text: String,
    /// Whether it must be rejected.
    pub refused: bool,
}

/// The bytes of a token of this version.
fn bytes(version: u8, entries: &[(u8, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![version, entries.len() as u8];
    for (writer, clock) in entries {
        bytes.extend_from_slice(&[*writer; 16]);
        bytes.extend_from_slice(clock);
    }
    bytes
}

/// The longest clock, 2^64 - 1.
const LAST: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];

/// Texts that must be tokens, each the only text of its bytes, and texts that must be rejected.
pub fn tokens() -> Vec<TokenText> {
    let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let token = |name, says, bytes: Vec<u8>| TokenText {
        name,
        says,
        text: text(&bytes),
        bytes,
        refused: false,
    };
    let refused = |name, says, bytes: Vec<u8>| TokenText {
        refused: true,
        ..token(name, says, bytes)
    };
    let written = |name, says, bytes: &[u8], text: String| TokenText {
        text,
        ..refused(name, says, bytes.to_vec())
    };
    let two = bytes(1, &[(0x11, &[3]), (0x22, &[1])]);
    // The digit of all ones differs between the two alphabets.
    let other = bytes(1, &[(0xff, &[3])]);
    let many: Vec<(u8, &[u8])> = (0..65).map(|writer| (writer, LAST)).collect();
    vec![
        token(
            "nothing",
            "A session that depends on nothing.",
            bytes(1, &[]),
        ),
        token(
            "one",
            "It depends on what 11.. made up to clock 300.",
            bytes(1, &[(0x11, &[0xac, 2])]),
        ),
        token(
            "two",
            "It depends on what two_writers has: 11.. up to clock 3 and 22.. up to clock 1.",
            two.clone(),
        ),
        token(
            "digits",
            "A writer of ones only: the digits 62 and 63 of the alphabet.",
            other.clone(),
        ),
        token(
            "longest",
            "64 writers, each up to clock 2^64 - 1.",
            bytes(1, &many[..64]),
        ),
        refused("empty", "No text.", Vec::new()),
        refused("version", "Version 2.", bytes(2, &[])),
        refused(
            "short",
            "Two writers are announced, and one follows.",
            two[..19].to_vec(),
        ),
        refused("trailing", "Nothing, and one more byte.", vec![1, 0, 0]),
        refused(
            "order",
            "22.. before 11..",
            bytes(1, &[(0x22, &[1]), (0x11, &[3])]),
        ),
        refused(
            "twice",
            "11.. twice.",
            bytes(1, &[(0x11, &[1]), (0x11, &[3])]),
        ),
        refused("no_clock", "11.. up to clock 0.", bytes(1, &[(0x11, &[0])])),
        refused(
            "long_number",
            "11.. up to clock 1, written in two bytes.",
            bytes(1, &[(0x11, &[0x81, 0])]),
        ),
        refused("too_many", "65 writers.", bytes(1, &many)),
        written("padding", "nothing, with padding.", &[1, 0], "AQA=".into()),
        written(
            "alphabet",
            "digits, in the alphabet with + and /.",
            &other,
            STANDARD_NO_PAD.encode(&other),
        ),
        written(
            "left_over",
            "nothing, with a bit set that no byte takes.",
            &[1, 0],
            "AQB".into(),
        ),
        written(
            "digit",
            "One digit more than nothing has.",
            &[1, 0],
            "AQAA1".into(),
        ),
        written("blank", "nothing, after a blank.", &[1, 0], " AQA".into()),
        written(
            "no_ascii",
            "A letter that is no digit.",
            &[],
            "\u{c4}QA".into(),
        ),
    ]
}
