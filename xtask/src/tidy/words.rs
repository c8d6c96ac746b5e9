//! Words that docs/glossary.md retires. They may not come back into the code of core, and the sentences of
//! its docs begin with their subject. They may not come back as names of types and modules anywhere, tests
//! included. The nouns among them may not come back into the documents, and sentences there begin with their
//! subject, too. Ordinary verbs are not judged: they have too many good uses.

use std::path::{Path, PathBuf};

/// A word that is retired. One in small letters is found as a part of a name, also in capitals or as a plural:
/// `window` in `WindowKey` and `open_windows`. One with a capital or a `_` is found as a whole name: `Sync`
/// and not `SyncMachine`.
struct Word {
    was: &'static str,
    write: &'static str,
    /// The files and folders in which the word has another meaning, which is its own, or still its old one.
    but_in: &'static [&'static str],
}

const fn word(was: &'static str, write: &'static str) -> Word {
    let but_in = &[];
    Word { was, write, but_in }
}

const WORDS: &[Word] = &[
    word("Sync", "SyncMachine"),
    word("Handle", "KeyId"),
    word("window", "period"),
    Word {
        but_in: &[
            "core/src/bounds.rs",
            "core/src/error/scope.rs",
            "core/src/idempotency/shares.rs",
            "core/src/sync/shares.rs",
        ],
        ..word(
            "ticket",
            "sequence or number; a ticket is a signed token of access",
        )
    },
    word("roster", "writer table"),
    word("card", "writer state"),
    word("fact", "membership record"),
    word("says", "statement"),
    word("walk", "scan"),
    word("former", "earlier writer"),
    word("lease_ms", "guest_timeout_ms"),
    word("cut", "watermark"),
    word("bye", "leave"),
    word("farewell", "leave"),
    word("heir", "successor"),
    word("home", "sponsor"),
    word("attached", "sponsored"),
    word("born", "began"),
    word("reborn", "new lifetime"),
    word("life", "lifetime"),
    word("keyless", "without keys"),
    word("standing", "writer status"),
    word("greet", "admit, connect or hello"),
    word("greeting", "hello"),
    word("stock", "rights, or the kind of a right"),
    word("supply", "rights, or the progress of a request"),
    Word {
        // A replica also wants a pull, or an acknowledgement.
        but_in: &[
            "core/src/membership/stability.rs",
            "core/src/message/records.rs",
            "core/src/replica/members.rs",
            "core/src/sync.rs",
            "core/src/sync",
            "core/src/wire.rs",
            "core/src/wire",
        ],
        ..word("want", "rights request")
    },
];

/// Names of types and modules that do not say what the thing is. They are found in declarations alone, also
/// as the small letters of a module: `Book` in `struct Book` and `mod book`.
const NAMES: &[Word] = &[
    word("About", "node info"),
    word("Asked", "the request, query or question that it is"),
    word("Book", "PeerDirectory"),
    word("Books", "the state or the counts that it has"),
    word("Desk", "the view that it is"),
    word("Door", "a listener, or the check that it makes"),
    word("Figures", "metrics"),
    Word {
        but_in: &["core/src/state/join.rs", "xtask/src/mutants/report.rs"],
        ..word("Found", "the content or the result that it is")
    },
    word("Given", "the settings or tickets that it has"),
    word("Handles", "KeyIds"),
    word("Held", "the thing that is stored, or a guard"),
    word("Kept", "a record, or the state that it is"),
    word("Knocks", "AuthThrottle"),
    word("Only", "ConnectionPolicy"),
    word("Passes", "Credentials"),
    word("Patience", "IdleTimeoutStream"),
    word("Patient", "IdleTimeoutListener"),
    word("Standing", "the role or state that it is"),
    word("Told", "the entry, event or report that it is"),
    Word {
        // The name is the browser's.
        but_in: &["web-demo/src/main.ts"],
        ..word("Window", "a retention, period or buffer")
    },
];

/// A noun or a phrase that documents may not have.
struct Phrase {
    /// Its forms, in small letters. One with a `_` is also found in code.
    forms: &'static [&'static str],
    write: &'static str,
    /// The documents in which it has another meaning, or the spelling of a name.
    but_in: &'static [&'static str],
}

/// The two pages of the protocol, which still have these words.
const CONSISTENCY: &str = "docs/consistency.md";
const PROTOCOL: &str = "docs/protocol.md";

/// The documents whose sentences may still hide their subject.
const HIDDEN_IN: [&str; 2] = [CONSISTENCY, PROTOCOL];

const PHRASES: &[Phrase] = &[
    Phrase {
        forms: &["stock", "stocks"],
        write: "rights, or an amount",
        but_in: &[],
    },
    Phrase {
        forms: &["supply", "supplies"],
        write: "rights, or a rights request",
        but_in: &[],
    },
    Phrase {
        forms: &["roster", "rosters"],
        write: "writer table",
        but_in: &[],
    },
    Phrase {
        forms: &["heir", "heirs"],
        write: "successor",
        but_in: &[],
    },
    Phrase {
        forms: &["come back", "comes back", "came back", "coming back"],
        write: "rejoin, return or reconnect",
        but_in: &[CONSISTENCY, PROTOCOL],
    },
    Phrase {
        forms: &["bye", "byes", "goodbye", "farewell", "farewells"],
        write: "leave",
        but_in: &[],
    },
    Phrase {
        // A lease of rights has a field of this name.
        forms: &["lease_ms"],
        write: "guest_timeout_ms",
        but_in: &["docs/http.md"],
    },
    Phrase {
        // The glossary names it as a verb to avoid.
        forms: &["greet", "greets", "greeted", "greeting", "greetings"],
        write: "hello, connect or admit",
        but_in: &["docs/glossary.md", PROTOCOL],
    },
];

/// The keywords before the name of a type.
const DECLARES: [&str; 6] = ["struct", "enum", "trait", "type", "class", "interface"];

/// The first words that hide the subject of a sentence.
const OPENERS: [&str; 5] = ["Of", "What", "Whoever", "Who", "That"];

/// Whether a file has the code of core.
pub(super) fn covers(name: &Path) -> bool {
    name.starts_with("core/src") && !super::is_test(name)
}

/// The breaches in the files of core.
pub(super) fn broken(files: &[(PathBuf, String)]) -> Vec<String> {
    let mut broken: Vec<String> = WORDS.iter().flat_map(|word| retired(files, word)).collect();
    broken.extend(unclear(files));
    broken
}

/// Whether a file has names of types to judge: it is Rust, or a script of the package or the demo.
pub(super) fn has_names(name: &Path) -> bool {
    let ends = |end: &str| name.extension().is_some_and(|it| it == end);
    let is_script = name.starts_with("wasm/js") || name.starts_with("web-demo");
    ends("rs") || is_script && ends("ts")
}

/// The declarations in a file whose name is retired.
pub(super) fn misnamed(name: &Path, text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for names in identifiers(line).windows(2) {
            let is_it = |it: &&Word| match names[0] {
                "mod" => names[1] == it.was.to_ascii_lowercase(),
                keyword => names[1] == it.was && DECLARES.contains(&keyword),
            };
            let known = NAMES.iter().find(is_it);
            let known = known.filter(|it| it.but_in.iter().all(|but| name != Path::new(but)));
            if let Some(Word { was, write, .. }) = known {
                let name = name.display();
                broken.push(format!(
                    "{name}:{number}: `{was}` is no name for a type or a module: write {write} (docs/glossary.md)"
                ));
            }
        }
    }
    broken
}

/// Whether a file is a document to judge. Reports, kept releases and the list of changes are of their time.
/// A test copies what was found into a report.
pub(super) fn is_document(name: &Path) -> bool {
    let of_their_time = [
        "CHANGELOG.md",
        "docs/reports",
        "node/tests/suite/hostile/found.md",
        "tests/kept",
    ];
    name.extension().is_some_and(|it| it == "md")
        && !of_their_time.iter().any(|it| name.starts_with(it))
}

/// The phrases in a document that are retired, and its first sentence that hides its subject.
pub(super) fn in_document(name: &Path, text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    for Phrase {
        forms,
        write,
        but_in,
    } in PHRASES
    {
        if but_in.iter().any(|it| name == Path::new(it)) {
            continue;
        }
        for form in *forms {
            for number in places(text, form) {
                let name = name.display();
                broken.push(format!(
                    "{name}:{number}: `{form}` is retired: write {write} (docs/glossary.md)"
                ));
            }
        }
    }
    if !HIDDEN_IN.iter().any(|it| name == Path::new(it)) {
        let name = name.display();
        let places = hidden(text.lines().map(Some));
        broken.extend(places.iter().map(|(at, opener, _)| {
            let number = at + 1;
            format!(
                "{name}:{number}: a sentence with `{opener}` hides its subject, begin with a noun"
            )
        }));
    }
    broken
}

/// The lines of a document at which a phrase begins, also one that is broken by the end of a line.
fn places(text: &str, phrase: &str) -> Vec<usize> {
    let in_code = phrase.contains('_');
    let mut words = Vec::new();
    let mut is_block = false;
    for (number, line) in (1..).zip(text.lines()) {
        let is_fence = line.trim_start().starts_with("```");
        is_block ^= is_fence;
        if (is_block || is_fence) && !in_code {
            continue;
        }
        let is_prose = |at: &usize| in_code || at.is_multiple_of(2);
        let parts = line.split('`').enumerate().filter(|it| is_prose(&it.0));
        let is_apart = |it: char| !it.is_alphanumeric() && it != '_';
        let of_line = parts.flat_map(|it| it.1.split(is_apart));
        let of_line = of_line.filter(|it| !it.is_empty());
        words.extend(of_line.map(|it| (number, it.to_lowercase())));
    }
    let phrase: Vec<&str> = phrase.split(' ').collect();
    let found = words
        .windows(phrase.len())
        .filter(|it| it.iter().zip(&phrase).all(|(word, part)| word.1 == *part));
    found.map(|it| it[0].0).collect()
}

/// Each place at which a word stands.
fn retired(files: &[(PathBuf, String)], word: &Word) -> Vec<String> {
    let Word { was, write, but_in } = word;
    let mut broken = Vec::new();
    for (name, text) in files {
        if but_in.iter().any(|it| name.starts_with(it)) {
            continue;
        }
        for (number, line) in shipped(text) {
            if identifiers(line).into_iter().any(|it| has(it, was)) {
                let name = name.display();
                broken.push(format!(
                    "{name}:{number}: `{was}` is retired: write {write} (docs/glossary.md)"
                ));
            }
        }
    }
    broken
}

/// Whether a name is or has a retired word.
fn has(name: &str, was: &str) -> bool {
    if was.contains(|it: char| it.is_ascii_uppercase() || it == '_') {
        return name == was;
    }
    let is_it = |part: &String| part == was || part.strip_suffix('s') == Some(was);
    parts(name).iter().any(is_it)
}

/// The words of a name, in small letters.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_small = false;
    for it in name.chars() {
        let is_small = !it.is_ascii_uppercase();
        if it == '_' || was_small && !is_small {
            parts.push(String::new());
        }
        was_small = is_small && it != '_';
        if it != '_' {
            parts
                .last_mut()
                .expect("one at least")
                .push(it.to_ascii_lowercase());
        }
    }
    parts
}

/// The first sentence of each file that hides its subject.
fn unclear(files: &[(PathBuf, String)]) -> Vec<String> {
    let first = |(name, text): &(PathBuf, String)| {
        let sentence = unclear_sentences(text).into_iter().next()?;
        let name = name.display();
        Some(format!(
            "{name}: a sentence of the docs hides its subject, begin with a noun: {sentence}"
        ))
    };
    files.iter().filter_map(first).collect()
}

/// The lines of a file before its tests, with their numbers.
fn shipped(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate();
    let lines = lines.take_while(|(_, line)| line.trim_end() != "mod tests {");
    lines.map(|(at, line)| (at + 1, line))
}

/// A method of slices, which has nothing to do with a retired word.
const STD_WINDOWS: &str = ".windows(";

/// The identifiers of a line of code, without comments and texts.
fn identifiers(line: &str) -> Vec<&str> {
    let code = line.split("//").next().unwrap_or_default();
    let outside = code.split('"').step_by(2);
    let outside = outside.flat_map(|part| part.split(STD_WINDOWS));
    let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let words = outside.flat_map(move |part| part.split(move |it: char| !is_word(it)));
    words.filter(|word| !word.is_empty()).collect()
}

/// The sentences of the docs of a file that begin with one of the [`OPENERS`].
fn unclear_sentences(text: &str) -> Vec<String> {
    let docs = shipped(text).map(|(_, line)| {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or(line.strip_prefix("//!"));
        doc.filter(|doc| !is_one_line_of_code(doc))
    });
    let places = hidden(docs);
    places.into_iter().map(|it| it.2.to_owned()).collect()
}

/// Whether a line of docs begins with code, as a row of a list of names does.
fn is_one_line_of_code(doc: &str) -> bool {
    let doc = doc.trim();
    doc.starts_with('`') && !doc.starts_with(FENCE)
}

/// The begin and the end of a block of code.
const FENCE: &str = "```";

/// The places of sentences that begin with one of the [`OPENERS`]: how many lines stand before, the opener, and
/// the line. `None` is a line that is no text.
fn hidden<'a>(lines: impl Iterator<Item = Option<&'a str>>) -> Vec<(usize, &'static str, &'a str)> {
    let mut found = Vec::new();
    let (mut begins, mut is_code) = (true, false);
    for (at, line) in lines.enumerate() {
        let Some(doc) = line else {
            begins = true;
            continue;
        };
        let doc = doc.trim();
        let is_fence = doc.starts_with(FENCE);
        is_code ^= is_fence;
        if is_code || is_fence || doc.is_empty() || doc.starts_with(['#', '|']) {
            begins = true;
            continue;
        }
        let item = doc.trim_start_matches(|it: char| it.is_ascii_digit());
        let item = ["- ", "* ", ". ", "> "]
            .iter()
            .find_map(|it| item.strip_prefix(it));
        begins |= item.is_some();
        for word in item.unwrap_or(doc).split_whitespace() {
            let plain = word.trim_start_matches(['*', '(', '"']);
            let plain = plain.trim_end_matches([',', '*']);
            let opener = OPENERS.into_iter().find(|it| begins && *it == plain);
            found.extend(opener.map(|it| (at, it, doc)));
            begins = word
                .trim_end_matches(['*', ')', '"'])
                .ends_with(['.', '?', '!']);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Vec<(PathBuf, String)> {
        vec![(PathBuf::from("core/src/one.rs"), text.to_owned())]
    }

    #[test]
    fn each_retired_word_is_found_in_code_alone() {
        for word in WORDS {
            let was = word.was;
            let text = format!("fn one(it: &{was}) {{}}\n");
            assert_eq!(retired(&file(&text), word).len(), 1, "{was}");
            let text = format!("// {was}\nlet it = \"{was}\";\nmod tests {{\n{was}();\n");
            assert_eq!(retired(&file(&text), word).len(), 0, "{was}");
            for place in word.but_in {
                let there = [(PathBuf::from(place), format!("{was}();\n"))];
                assert_eq!(retired(&there, word).len(), 0, "{was}");
            }
        }
    }

    #[test]
    fn a_word_is_found_as_a_part_of_a_name() {
        for name in [
            "window",
            "Window",
            "WindowKey",
            "WINDOW_MAX",
            "of_window",
            "OfWindow",
        ] {
            assert!(has(name, "window"), "{name}");
        }
        for name in ["windows", "SyncWindows", "open_windows"] {
            assert!(has(name, "window"), "{name}");
        }
        assert!(has("start_cards", "card") && has("mod_fact", "fact") && has("take_facts", "fact"));
        assert_eq!(identifiers("rows.windows(2)"), ["rows", "2"]);
        for name in ["windowed", "cardinal", "factor"] {
            let found = ["window", "card", "fact"].iter().any(|was| has(name, was));
            assert!(!found, "{name}");
        }
        assert!(has("lease_ms", "lease_ms") && !has("LEASE_MS_MAX", "lease_ms"));
        assert!(has("Sync", "Sync") && !has("SyncMachine", "Sync") && !has("sync", "Sync"));
    }

    #[test]
    fn each_retired_name_is_found_in_declarations_alone() {
        let node = Path::new("node/store/src/one.rs");
        for Word { was, but_in, .. } in NAMES {
            for declared in DECLARES {
                let text = format!("pub(super) {declared} {was}<T> {{\n");
                assert_eq!(misnamed(node, &text).len(), 1, "{text}");
                for place in *but_in {
                    assert_eq!(misnamed(Path::new(place), &text).len(), 0, "{text}");
                }
            }
            let module = format!("mod {};\n", was.to_ascii_lowercase());
            assert_eq!(misnamed(node, &module).len(), 1, "{module}");
            let low = was.to_ascii_lowercase();
            let other = format!("Phase::{was} => {was}(1), // type {was}\nclass == {low}\n");
            assert_eq!(misnamed(node, &other).len(), 0, "{other}");
        }
    }

    #[test]
    fn names_are_judged_in_rust_and_in_the_scripts_of_the_package_and_the_demo() {
        for name in [
            "core/src/one.rs",
            "node/store/src/one/tests.rs",
            "node/tests/suite/one.rs",
            "tests/src/one.rs",
            "bench/src/one.rs",
            "xtask/src/one.rs",
            "web-demo/members/src/one.rs",
            "wasm/js/replica/one.ts",
            "web-demo/src/one.ts",
        ] {
            assert!(has_names(Path::new(name)), "{name}");
        }
        for name in ["web-demo/build.mjs", "tests/runtimes/one.ts", "docs/one.md"] {
            assert!(!has_names(Path::new(name)), "{name}");
        }
        let tests = "mod tests {\n    struct Told;\n}\n";
        assert_eq!(misnamed(Path::new("tests/src/one.rs"), tests).len(), 1);
    }

    #[test]
    fn each_retired_phrase_is_found_in_documents() {
        let page = Path::new("docs/one.md");
        for Phrase { forms, but_in, .. } in PHRASES {
            for form in *forms {
                let text = format!("| It | ({form}). |\n");
                assert_eq!(in_document(page, &text).len(), 1, "{form}");
                let code = format!("`{form}`\n```\n{form}\n```\n{form}s_of {form}able\n");
                let count = if form.contains('_') { 2 } else { 0 };
                assert_eq!(in_document(page, &code).len(), count, "{form}");
                for place in *but_in {
                    let found = in_document(Path::new(place), &text);
                    assert_eq!(found, Vec::<String>::new(), "{form}");
                }
            }
        }
        let hidden = "| Of |\n\n- Rows. **Who**\n  reads? Nobody.\n\n> That is a row.\n\n```\n# Of\n```\nA row\nOf it.\n";
        assert_eq!(in_document(page, hidden).len(), 2);
        let protocol = Path::new(PROTOCOL);
        assert_eq!(in_document(protocol, hidden), Vec::<String>::new());
        let broken = "One line\nthat Comes\nback.\n";
        assert_eq!(places(broken, "comes back"), [2]);
    }

    #[test]
    fn documents_are_judged_but_for_those_of_their_time() {
        for name in ["README.md", "docs/one.md", "wasm/README.md"] {
            assert!(is_document(Path::new(name)), "{name}");
        }
        for name in [
            "CHANGELOG.md",
            "docs/reports/one.md",
            "tests/kept/one/README.md",
            "docs/one.rs",
        ] {
            assert!(!is_document(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn each_word_has_one_entry() {
        for table in [WORDS, NAMES] {
            let mut words: Vec<&str> = table.iter().map(|it| it.was).collect();
            words.sort_unstable();
            assert!(words.windows(2).all(|it| it[0] != it[1]));
        }
    }

    #[test]
    fn a_sentence_that_hides_its_subject_is_found() {
        let hidden = [
            "/// Of two rows the newer stays.\n",
            "//! The row stays. What is older\n//! goes.\n",
            "/// The row stays.\n    /// Whoever reads it is told.\n",
            "/// - **Who** asks is told.\n",
            "/// 1. That is all.\n",
            "/// Rows\n///\n/// What is newer stays.\n",
        ];
        for text in hidden {
            assert_eq!(unclear_sentences(text).len(), 1, "{text}");
            assert_eq!(unclear(&file(text)).len(), 1);
        }
        let clear = [
            "/// The newer of two rows stays, and\n/// What it says with it.\n",
            "// Of two rows\n",
            "/// # What may be collected?\n",
            "/// ```\n/// // Of two\n/// Of::two();\n/// ```\n",
            "/// Offers and Whatever: Thatch.\n",
        ];
        for text in clear {
            assert_eq!(unclear_sentences(text), Vec::<String>::new());
        }
    }
}
