//! Redis's patterns: `*`, `?`, `[a-z]`, `[^a-z]`, and `\` before a character that stands for itself.

use super::error::ReplyError;
use super::limits::PATTERN_BYTES_MAX;

/// Refuses a pattern, or a channel, that is too long to be compared with many keys.
pub(super) fn check<'a>(pattern: &[u8]) -> Result<(), ReplyError<'a>> {
    match pattern.len() {
        ..=PATTERN_BYTES_MAX => Ok(()),
        bytes => Err(ReplyError::PatternLength(bytes)),
    }
}

/// Whether `text` matches `pattern`. Takes at most the product of both lengths in steps, and no
/// recursion: patterns come from clients.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut here) = (0, 0);
    // Where to go on if what follows the last star does not fit: it takes one byte more then. No
    // earlier star has to be tried again, since the last one can take whatever they would.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            retry = Some((at, here));
            continue;
        }
        let Some(&byte) = text.get(here) else {
            return at == pattern.len();
        };
        if let Some(next) = one(pattern, at, byte) {
            (at, here) = (next, here + 1);
            continue;
        }
        let Some((star, from)) = retry else {
            return false;
        };
        (at, here) = (star, from + 1);
        retry = Some((star, from + 1));
    }
}

/// Where the pattern goes on if its piece at `at`, which is no star, matches `byte`.
fn one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'[' => {
            let (matched, next) = class(pattern, at + 1, byte);
            matched.then_some(next)
        }
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte).then_some(at + 2),
        literal => (literal == byte).then_some(at + 1),
    }
}

/// Whether the class whose inside begins at `at` has `byte` in it, and where the pattern goes on. A
/// class that is not closed reaches to the pattern's end.
fn class(pattern: &[u8], mut at: usize, byte: u8) -> (bool, usize) {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    while let Some(&first) = pattern.get(at) {
        match (first, pattern.get(at + 1), pattern.get(at + 2)) {
            (b']', _, _) => return (found != negated, at + 1),
            (b'\\', Some(&literal), _) => {
                found |= literal == byte;
                at += 2;
            }
            (_, Some(b'-'), Some(&last)) => {
                found |= (first.min(last)..=first.max(last)).contains(&byte);
                at += 3;
            }
            _ => {
                found |= first == byte;
                at += 1;
            }
        }
    }
    (found != negated, at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, yes, no) in [
            ("", &[""][..], &["a"][..]),
            ("*", &["", "a", "abc"], &[]),
            ("a*", &["a", "abc"], &["", "ba"]),
            ("*a", &["a", "ba", "aa"], &["", "ab"]),
            ("a*c*e", &["ace", "abcde", "acce"], &["ac", "aec", "abcd"]),
            ("**a**", &["a", "xax"], &["", "x"]),
            ("h?llo", &["hello", "hallo"], &["hllo", "heello"]),
            ("h[ae]llo", &["hello", "hallo"], &["hillo", "hllo"]),
            ("h[^e]llo", &["hallo", "hbllo"], &["hello", "hllo"]),
            ("h[a-b]llo", &["hallo", "hbllo"], &["hcllo"]),
            ("h[b-a]llo", &["hallo", "hbllo"], &["hcllo"]),
            ("h[a\\]]llo", &["hallo", "h]llo"], &["h\\llo"]),
            ("[a-", &["a", "-"], &["b"]),
            ("[abc", &["a", "c"], &["d", "ab"]),
            ("[^", &["a"], &["", "ab"]),
            ("a\\*b", &["a*b"], &["axb"]),
            ("a\\", &["a\\"], &["a"]),
            ("ü*", &["über"], &["uber"]),
        ] {
            for text in yes {
                assert!(
                    matches(pattern.as_bytes(), text.as_bytes()),
                    "{pattern} {text}"
                );
            }
            for text in no {
                assert!(
                    !matches(pattern.as_bytes(), text.as_bytes()),
                    "{pattern} {text}"
                );
            }
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = "a*".repeat(200);
        let text = "a".repeat(400) + "b";
        assert!(matches(pattern.as_bytes(), text.as_bytes()));
        assert!(!matches((pattern + "c").as_bytes(), text.as_bytes()));
    }
}
