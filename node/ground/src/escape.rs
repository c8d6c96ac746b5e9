//! Text from other sources, made safe to print: keys, names, and texts of peers, nodes and files.
//!
//! A key may contain any character. A terminal obeys control characters, and bidirectional controls
//! reorder a line (Unicode TR 36). So text output shows them as `\u{1b}`. JSON keeps them exact:
//! there `\u001b` is another spelling of the same text.

use std::borrow::Cow;
use std::fmt::Write;

/// The text with every unsafe character escaped, line breaks and tabs too. It is for one value in a
/// line.
pub fn value(text: &str) -> Cow<'_, str> {
    escaped(text, is_unsafe)
}

/// The text with every unsafe character escaped, but not line breaks and tabs, which are layout. It
/// is for a whole output, after [`value`] was applied to each part from another source.
pub fn layout(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_unsafe(c) && c != '\n' && c != '\t')
}

/// JSON with every unsafe character in JSON's own escapes. Such characters occur in its strings
/// alone.
pub fn json(text: &str) -> Cow<'_, str> {
    replaced(text, is_unsafe, |out, c| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a text can't fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

/// Bytes that are mostly text. A byte that is no text stays as it is, unless it is a control
/// character.
pub fn bytes(bytes: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(bytes) {
        Ok(text) => match value(text) {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        },
        Err(_) => {
            let mut out = Vec::with_capacity(bytes.len());
            for chunk in bytes.utf8_chunks() {
                out.extend_from_slice(value(chunk.valid()).as_bytes());
                for byte in chunk.invalid() {
                    // From 0x80 to 0x9f they are the controls of terminals with 8 bits.
                    match byte {
                        0x80..=0x9f => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
                        _ => out.push(*byte),
                    }
                }
            }
            Cow::Owned(out)
        }
    }
}

/// Whether a terminal or a reader may interpret this character. These are controls (C0, DEL, C1),
/// separators of lines, marks and overrides of direction, the byte order mark, and annotations.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
        )
}

fn escaped(text: &str, wanted: impl Fn(char) -> bool) -> Cow<'_, str> {
    replaced(text, wanted, |out, c| match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c => out.extend(c.escape_unicode()),
    })
}

fn replaced(
    text: &str,
    wanted: impl Fn(char) -> bool,
    replace: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    if !text.chars().any(&wanted) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match wanted(c) {
            true => replace(&mut out, c),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped_and_all_else_stays() {
        for (text, one, all) in [
            ("likes", "likes", "likes"),
            (
                "ä/b c \\ \u{1f600}",
                "ä/b c \\ \u{1f600}",
                "ä/b c \\ \u{1f600}",
            ),
            ("\u{1b}[31mred", "\\u{1b}[31mred", "\\u{1b}[31mred"),
            ("a\nb\tc\rd", "a\\nb\\tc\\rd", "a\nb\tc\\rd"),
            (
                "\0\u{7f}\u{9b}31m",
                "\\u{0}\\u{7f}\\u{9b}31m",
                "\\u{0}\\u{7f}\\u{9b}31m",
            ),
            (
                "\u{202e}\u{2066}\u{feff}",
                "\\u{202e}\\u{2066}\\u{feff}",
                "\\u{202e}\\u{2066}\\u{feff}",
            ),
        ] {
            assert_eq!((&*value(text), &*layout(text)), (one, all));
            let said = serde_json::to_string(text).expect("JSON");
            let said = json(&said).into_owned();
            assert!(!said.chars().any(is_unsafe), "{said}");
            assert_eq!(serde_json::from_str::<String>(&said).expect("JSON"), text);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_kept_but_for_controls() {
        for (given, expected) in [
            (&b"plain"[..], &b"plain"[..]),
            (b"\x1b[31m\n", b"\\u{1b}[31m\\n"),
            (b"\xff\x1b\x9b31m", b"\xff\\u{1b}\\x9b31m"),
            (b"\xc2\x9b", b"\\u{9b}"),
        ] {
            assert_eq!(&*bytes(given), expected);
        }
    }
}
