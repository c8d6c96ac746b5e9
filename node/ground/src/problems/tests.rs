//! The table contains every possible refusal once and nothing else, and the page has the same
//! contents.

use super::{Shown, TABLE, is_between_nodes, of, page, text};
use crate::identity::OwnerKey;
use crate::model::Refusal;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tallymesh_core::{Error, ErrorKind, MemberError, WriteError};

fn source(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The codes that the `code` methods of a file return. They are the texts to the right of the
/// arrows of their match arms.
fn codes_in(path: &str) -> BTreeSet<String> {
    let text = source(path);
    let mut codes = BTreeSet::new();
    let heads = [
        " fn code(&self) -> &'static str {",
        " fn code(self) -> &'static str {",
    ];
    for head in heads {
        for body in text.split(head).skip(1) {
            let body = body.split("\n    }\n").next().expect("an end");
            let texts = body.split("=> \"").skip(1);
            codes.extend(texts.map(|text| text.split('"').next().expect("an end").to_owned()));
            // The code of an arm with a block of its own.
            let alone = body.lines().map(str::trim);
            let alone = alone.filter_map(|line| line.strip_prefix('"')?.strip_suffix('"'));
            codes.extend(alone.map(str::to_owned));
        }
    }
    assert!(codes.len() > 1, "no codes were found in {path}");
    codes
}

/// All source text of the node's own modules, in which names of the table occur.
fn named() -> String {
    fn collect(folder: &Path, text: &mut String) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path: PathBuf = entry.expect("an entry").path();
            if path.is_dir() {
                collect(&path, text);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&fs::read_to_string(&path).expect("a file"));
            }
        }
    }
    let mut text = source("../http/src/lib.rs") + &source("../engine/src/browser.rs");
    collect(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../http/src"),
        &mut text,
    );
    text
}

#[test]
fn each_code_has_exactly_one_entry_and_each_entry_is_used() {
    let mut codes = BTreeSet::new();
    let shown_tickets = codes_in("../gossip/src/join.rs");
    // These codes of tickets over HTTP also occur between nodes.
    let nodes = BTreeSet::from(["busy", "ticket_removed"]);
    for kind in TABLE {
        assert!(codes.insert(kind.code.to_owned()), "{} twice", kind.code);
        assert!(
            !kind.means.is_empty() && !kind.advice.is_empty(),
            "{}",
            kind.code
        );
        assert_eq!(of(kind.code), *kind);
        let known = kind
            .status
            .is_none_or(|status| (400..=507).contains(&status));
        assert!(
            known && (is_between_nodes(kind) == nodes.contains(kind.code)),
            "{}",
            kind.code
        );
    }
    let core = ErrorKind::ALL.iter().map(|kind| kind.code().to_owned());
    let core: BTreeSet<String> = core.collect();
    let mut node = codes_in("src/model/refusal.rs");
    node.extend(codes_in("src/model/operation_error.rs"));
    let trust = codes_in("../engine/src/access/ticket.rs");
    let mut resp = codes_in("../resp/src/protocol/error.rs");
    resp.extend(codes_in("../resp/src/protocol/error/broken.rs"));
    let own = || core.iter().chain(&node).chain(&trust);
    let elsewhere = own().chain(&resp).chain(&shown_tickets);
    let elsewhere: BTreeSet<String> = elsewhere.cloned().collect();
    for code in &elsewhere {
        assert!(codes.contains(code), "`{code}` is not in the table");
    }
    for code in own() {
        assert!(of(code).status.is_some(), "`{code}` has no HTTP status");
    }
    for code in &resp {
        assert!(
            of(code).resp.is_some(),
            "`{code}` is not told to Redis clients"
        );
    }
    let http = named();
    for kind in TABLE {
        let name = format!("problems::{}", kind.code.to_ascii_uppercase());
        let used = elsewhere.contains(kind.code) || http.contains(&name);
        assert!(
            used || kind.code == "internal",
            "nothing is refused with `{}`",
            kind.code
        );
    }
}

#[test]
fn a_code_of_the_node_or_the_replica_is_found() {
    let owner = OwnerKey([0; 32]);
    let undecided = Refusal::Undecided {
        unanswered: Vec::new(),
    };
    for (code, status, applied) in [
        (undecided.code(), 503, "unknown"),
        (Refusal::Stopped.code(), 503, "unknown"),
        (Refusal::IsMember { owner }.code(), 409, "no"),
        (
            Error::Write(WriteError::KeyLength { bytes: 0 }).code(),
            400,
            "no",
        ),
        (
            Error::Write(WriteError::Overflow { total: 0, by: 0 }).code(),
            409,
            "no",
        ),
        (Error::Write(WriteError::ClockExhausted).code(), 507, "no"),
    ] {
        let kind = of(code);
        let said = (
            kind.code,
            kind.status,
            kind.applied.map(super::Applied::word),
        );
        assert_eq!(said, (code, Some(status), Some(applied)));
    }
    assert_eq!(of("no such code").code, "internal");
    assert_eq!(of("no_auth").resp, Some(Shown::Error("NOAUTH")));
    assert_eq!(of("quotes").resp, Some(Shown::End("ERR")));
}

#[test]
fn a_count_of_members_that_can_not_be_is_told_with_its_bounds() {
    for members in [0, 256] {
        let told = text(&Error::Member(MemberError::MembersFull { members })).into_owned();
        let words = format!("a space has 1 to 255 members, and this would be {members}");
        assert_eq!(told, words);
    }
}

#[test]
fn the_page_says_what_the_table_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    if std::env::var_os("TALLYMESH_WRITE_DOCS").is_some() {
        fs::write(&file, page()).expect("write docs/errors.md");
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == page(),
        "docs/errors.md is not what the table says; run this test with TALLYMESH_WRITE_DOCS=1 \
         and look at the difference"
    );
}
