//! Redis's patterns: `*`, `?`, `[a-z]`, `[^a-z]`, and `\` before a literal character.
//!
//! A pattern is compiled once, each class to a set of 256 bits. So a step of a comparison is the
//! same few instructions for every pattern. A comparison searches greedily for each part between
//! two stars, as in the wildcard matchers of Krauss (2008). A part that was found is never searched
//! again.

use super::error::ReplyError;
use super::limits::PATTERN_BYTES_MAX;

/// Refuses a pattern, or a channel, that is too long to be compared with many keys.
pub(super) fn check<'a>(pattern: &[u8]) -> Result<(), ReplyError<'a>> {
    match pattern.len() {
        ..=PATTERN_BYTES_MAX => Ok(()),
        bytes => Err(ReplyError::PatternLength(bytes)),
    }
}

/// A set of bytes.
type Class = [u64; 4];

/// A part of a pattern that matches one byte, or the star.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Star,
    Any,
    Byte(u8),
    /// The class with this number.
    Class(u16),
}

/// A pattern that can be compared with many texts.
#[derive(Clone, Debug)]
pub(super) struct Glob {
    pieces: Box<[Piece]>,
    classes: Box<[Class]>,
    /// The numbers of pieces before the first star, and after the last one. Without a star all are
    /// before it.
    head: usize,
    tail: usize,
    /// The shortest text that can match.
    least: usize,
}

impl Glob {
    /// Compiles a pattern that was [checked](check).
    pub(super) fn new(pattern: &[u8]) -> Glob {
        let (mut pieces, mut classes) = (Vec::new(), Vec::<Class>::new());
        let mut at = 0;
        while let Some(&byte) = pattern.get(at) {
            at += 1;
            let piece = match byte {
                b'*' if pieces.last() == Some(&Piece::Star) => continue,
                b'*' => Piece::Star,
                b'?' => Piece::Any,
                b'[' => {
                    let (class, next) = class(pattern, at);
                    at = next;
                    // Repeated classes are mostly neighbours.
                    if classes.last() != Some(&class) {
                        classes.push(class);
                    }
                    // A pattern has fewer bytes than that.
                    Piece::Class((classes.len() - 1) as u16)
                }
                b'\\' if at < pattern.len() => {
                    at += 1;
                    Piece::Byte(pattern[at - 1])
                }
                literal => Piece::Byte(literal),
            };
            pieces.push(piece);
        }
        let is_star = |piece: &Piece| *piece == Piece::Star;
        let head = pieces.iter().position(is_star).unwrap_or(pieces.len());
        let tail = pieces.iter().rev().position(is_star).unwrap_or(0);
        Glob {
            head,
            tail,
            least: pieces.iter().filter(|piece| !is_star(piece)).count(),
            pieces: pieces.into(),
            classes: classes.into(),
        }
    }

    /// The memory that it uses beside itself, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.pieces) + size_of_val(&*self.classes)
    }

    /// Whether `text` matches. Adds the number of compared bytes to `steps`. The number is at most
    /// the product of two lengths: the pattern between its stars, and the text. Mostly it is no
    /// more than the text.
    pub(super) fn matches(&self, text: &[u8], steps: &mut usize) -> bool {
        *steps += 1;
        let has_star = self.head < self.pieces.len();
        if text.len() < self.least || !has_star && text.len() > self.least {
            return false;
        }
        let (head, rest) = self.pieces.split_at(self.head);
        let (middle, tail) = rest.split_at(rest.len() - self.tail);
        let end = text.len() - tail.len();
        if !self.fits(head, text, steps) || !self.fits(tail, &text[end..], steps) {
            return false;
        }
        // Each part is searched after the one before it. The first match leaves most to the others.
        let mut from = head.len();
        for part in middle.split(|piece| *piece == Piece::Star) {
            let Some(last) = (end - from).checked_sub(part.len()) else {
                return false;
            };
            let found = (from..=from + last).find(|at| self.fits(part, &text[*at..], steps));
            let Some(found) = found else {
                return false;
            };
            from = found + part.len();
        }
        true
    }

    /// Whether the text begins with a match of these pieces, which contain no star.
    fn fits(&self, pieces: &[Piece], text: &[u8], steps: &mut usize) -> bool {
        let differs = pieces
            .iter()
            .zip(text)
            .position(|(piece, byte)| !match *piece {
                Piece::Any => true,
                Piece::Byte(literal) => literal == *byte,
                Piece::Class(at) => has(&self.classes[usize::from(at)], *byte),
                Piece::Star => false,
            });
        *steps += differs.map_or(pieces.len(), |at| at + 1);
        differs.is_none()
    }
}

fn has(class: &Class, byte: u8) -> bool {
    class[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
}

/// The class whose inside begins at `at`, and where the pattern continues. A class without an end
/// extends to the pattern's end.
fn class(pattern: &[u8], mut at: usize) -> (Class, usize) {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut set: Class = [0; 4];
    let mut put = |byte: u8| set[usize::from(byte >> 6)] |= 1 << (byte & 63);
    while let Some(&first) = pattern.get(at) {
        match (first, pattern.get(at + 1), pattern.get(at + 2)) {
            (b']', _, _) => {
                at += 1;
                break;
            }
            (b'\\', Some(&literal), _) => {
                put(literal);
                at += 2;
            }
            (_, Some(b'-'), Some(&last)) => {
                (first.min(last)..=first.max(last)).for_each(&mut put);
                at += 3;
            }
            _ => {
                put(first);
                at += 1;
            }
        }
    }
    match negated {
        true => (set.map(|bits| !bits), at),
        false => (set, at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &[u8], text: &[u8]) -> bool {
        Glob::new(pattern).matches(text, &mut 0)
    }

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

    #[test]
    fn a_long_class_takes_one_step_for_each_byte() {
        let pattern = format!("*[{}]0007", "z".repeat(1060));
        let glob = Glob::new(pattern.as_bytes());
        let mut steps = 0;
        assert!(!glob.matches(&[b'a'; 500], &mut steps));
        assert!(glob.matches(b"zz0007", &mut steps));
        assert!((5..1_000).contains(&steps), "{steps}");
        // The rest is bounded by both lengths together, and not by the pattern's bytes alone.
        let mut steps = 0;
        let glob = Glob::new(("*".to_owned() + &"a".repeat(250) + "b*").as_bytes());
        assert!(!glob.matches(&[b'a'; 500], &mut steps));
        assert!((60_000..70_000).contains(&steps), "{steps}");
    }

    /// Whether a pattern matches, directly by its definition.
    fn by_definition(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|at| by_definition(rest, &text[at..])),
            (_, []) => false,
            ([b'?', rest @ ..], [_, after @ ..]) => by_definition(rest, after),
            ([b'[', ..], [byte, after @ ..]) => {
                let (set, next) = class(pattern, 1);
                has(&set, *byte) && by_definition(&pattern[next..], after)
            }
            ([literal, rest @ ..], [byte, after @ ..]) => {
                literal == byte && by_definition(rest, after)
            }
        }
    }

    #[test]
    fn all_short_patterns_match_as_they_are_defined() {
        let letters = [&b"a"[..], b"b", b"*", b"?", b"[^a]"];
        let words = |letters: &[&[u8]], longest| {
            let mut all = vec![Vec::new()];
            let mut from = 0;
            for _ in 0..longest {
                let end = all.len();
                for at in from..end {
                    let stem: Vec<u8> = all[at].clone();
                    all.extend(letters.iter().map(|it| [&stem, *it].concat()));
                }
                from = end;
            }
            all
        };
        let texts = words(&[b"a", b"b"], 5);
        for pattern in words(&letters, 5) {
            for text in &texts {
                let wanted = by_definition(&pattern, text);
                assert_eq!(matches(&pattern, text), wanted, "{pattern:?} {text:?}");
            }
        }
    }
}
