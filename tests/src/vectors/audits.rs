//! Questions and answers of audits.

use super::{Vector, refused, vector};
use tallymesh_core::wire::{AuditAnswer, AuditQuestion, AuditedPage};
use tallymesh_core::{Shard, Space, WriterId};

fn question(prefix: &str, after: &str) -> Vec<u8> {
    let question = AuditQuestion {
        space: Space::default(),
        prefix: prefix.into(),
        after: after.into(),
    };
    question.encode()
}

fn page(more: bool, counters: &[(&str, &[(u8, i128)])]) -> Vec<u8> {
    let shard = |(writer, total): &(u8, i128)| Shard {
        writer: WriterId::from_bytes([*writer; 16]),
        clock: 300,
        total: *total,
    };
    let counters = counters.iter().map(|(key, shards)| {
        let shards = shards.iter().map(shard).collect();
        ((*key).to_owned(), shards)
    });
    let page = AuditedPage {
        digest: [0xdd; 16],
        counters: counters.collect(),
        more,
    };
    AuditAnswer::Page(page).encode()
}

fn answer(kind: u8, rest: &[&[u8]]) -> Vec<u8> {
    let head = [&[kind][..], &[0xdd; 16]].concat();
    [&head[..], &rest.concat()].concat()
}

/// Questions that must decode and encode to the same bytes, and questions that must be rejected.
pub fn questions() -> Vec<Vector> {
    let longest = "k".repeat(512);
    let space = |name: &[u8], rest: &[u8]| [&[name.len() as u8][..], name, rest].concat();
    vec![
        vector(
            "question_all",
            "What do all counters of `default` show?",
            question("", ""),
        ),
        vector(
            "question_next",
            "Those with keys that begin with `a`, after `ab`.",
            question("a", "ab"),
        ),
        vector(
            "question_longest",
            "A prefix and a key of 512 bytes each.",
            question(&longest, &longest),
        ),
        refused("question_empty", "Nothing at all.", "truncated", Vec::new()),
        refused(
            "question_space",
            "A space with a `/` in its name.",
            "space_name",
            space(b"a/b", &[0, 0]),
        ),
        refused(
            "question_prefix_long",
            "A prefix of 513 bytes.",
            "key_length",
            [space(b"a", &[0x81, 4]), vec![b'k'; 513], vec![0]].concat(),
        ),
        refused(
            "question_after_text",
            "A key that is not UTF-8.",
            "malformed",
            space(b"a", &[0, 1, 0xff]),
        ),
        refused(
            "question_trailing",
            "A byte after the end.",
            "trailing_bytes",
            space(b"a", &[0, 0, 0]),
        ),
    ]
}

/// Answers, likewise.
pub fn answers() -> Vec<Vector> {
    let refusal = AuditAnswer::Refused("space_not_open".into()).encode();
    let shard = |writer: u8| [&[writer; 16][..], &[1], &[0; 16]].concat();
    let one = shard(0x11);
    let other = shard(0x22);
    let none: &[&[u8]] = &[&[0]];
    vec![
        vector("answer_none", "There is no such counter.", page(false, &[])),
        vector(
            "answer_page",
            "Of `a` writers 11.. and 22.. have 5 and -3, of `b` nobody has anything; each at clock 300.",
            page(false, &[("a", &[(0x11, 5), (0x22, -3)]), ("b", &[])]),
        ),
        vector(
            "answer_more",
            "There may be more counters after `a`, of which writer 11.. has the least 128-bit integer.",
            page(true, &[("a", &[(0x11, i128::MIN)])]),
        ),
        vector("answer_refused", "The space is not open.", refusal),
        refused("answer_empty", "Nothing at all.", "truncated", Vec::new()),
        refused(
            "answer_kind",
            "A kind of answer that there is not.",
            "malformed",
            answer(3, none),
        ),
        refused(
            "answer_more_of_none",
            "No counter, and more after it.",
            "malformed",
            answer(1, none),
        ),
        refused(
            "answer_keys_order",
            "`b` before `a`.",
            "malformed",
            answer(0, &[&[2], b"\x01b", &[0], b"\x01a", &[0]]),
        ),
        refused(
            "answer_key_empty",
            "A counter without a key.",
            "key_length",
            answer(0, &[&[1], &[0, 0, 0]]),
        ),
        refused(
            "answer_writers_order",
            "Writer 22.. before 11...",
            "malformed",
            answer(0, &[&[1], b"\x01a", &[2], &other, &one]),
        ),
        refused(
            "answer_writer_twice",
            "Writer 11.. twice.",
            "malformed",
            answer(0, &[&[1], b"\x01a", &[2], &one, &one]),
        ),
        refused(
            "answer_shards_huge",
            "More shards than there are bytes.",
            "truncated",
            answer(0, &[&[1], b"\x01a", &[0xff, 0xff, 0x7f], &one]),
        ),
        refused(
            "answer_counters_many",
            "501 counters.",
            "too_large",
            answer(0, &[&[0xf5, 3], &[0; 501 * 3]]),
        ),
        refused(
            "answer_code_text",
            "A refusal whose code has a capital letter.",
            "malformed",
            b"\x02\x01A".to_vec(),
        ),
        refused(
            "answer_code_empty",
            "A refusal without a code.",
            "malformed",
            vec![2, 0],
        ),
        refused(
            "answer_code_long",
            "A refusal whose code has 65 bytes.",
            "too_large",
            [&[2, 65][..], &[b'a'; 65]].concat(),
        ),
        refused(
            "answer_trailing",
            "A byte after the end.",
            "trailing_bytes",
            answer(0, &[&[0, 0]]),
        ),
    ]
}
