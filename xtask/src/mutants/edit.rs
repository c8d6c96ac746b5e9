//! Edits of a text. One edit may be inside another one.

use std::ops::Range;

/// A part of the replacement of a range.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    Text(String),
    /// A range of the old text, with the edits within it.
    Old(Range<usize>),
    /// The text of one mutant alone.
    Of(u32, Vec<Piece>),
}

/// One range of the old text, and its replacement.
#[derive(Debug, Clone)]
pub(super) struct Edit {
    pub(super) range: Range<usize>,
    pub(super) pieces: Vec<Piece>,
    /// The mutants that it makes.
    pub(super) ids: Vec<u32>,
}

/// The origin of the bytes of the new text.
#[derive(Debug, Default)]
pub(super) struct Regions {
    /// The ranges of single mutants.
    alternatives: Vec<(Range<usize>, u32)>,
    /// The ranges of edits, with all their mutants.
    edits: Vec<(Range<usize>, Vec<u32>)>,
}

impl Regions {
    /// The mutants that cause an error at these bytes: the one that inserted this place, or all mutants of
    /// the innermost edit around it.
    pub(super) fn guilty(&self, at: &Range<usize>) -> Vec<u32> {
        let around = |range: &Range<usize>| range.start <= at.start && at.end <= range.end;
        let alone = self.alternatives.iter().filter(|(range, _)| around(range));
        let edits = self.edits.iter().filter(|(range, _)| around(range));
        let alone = alone.min_by_key(|(range, _)| range.len());
        let edit = edits.min_by_key(|(range, _)| range.len());
        match (alone, edit) {
            (Some((inner, id)), Some((outer, _))) if inner.len() <= outer.len() => vec![*id],
            (_, Some((_, ids))) => ids.clone(),
            _ => Vec::new(),
        }
    }

    /// The mutants of all edits that share a byte with `at`.
    pub(super) fn near(&self, at: &Range<usize>) -> Vec<u32> {
        let edits = self.edits.iter();
        let edits = edits.filter(|(range, _)| range.start < at.end && at.start < range.end);
        edits.flat_map(|(_, ids)| ids.iter().copied()).collect()
    }
}

/// The text with all edits made.
pub(super) fn apply(text: &str, mut edits: Vec<Edit>) -> (String, Regions) {
    // Outer edits come first, so that the edits within them follow.
    edits.sort_by_key(|edit| (edit.range.start, std::cmp::Reverse(edit.range.end)));
    let mut made = Made {
        text,
        edits: &edits,
        new: String::with_capacity(text.len() * 3),
        regions: Regions::default(),
    };
    made.old(0..text.len(), 0);
    (made.new, made.regions)
}

struct Made<'a> {
    text: &'a str,
    edits: &'a [Edit],
    new: String,
    regions: Regions,
}

impl Made<'_> {
    /// Writes a range of the old text with the edits within it, from number `first` on.
    fn old(&mut self, range: Range<usize>, first: usize) {
        let mut at = range.start;
        for number in first..self.edits.len() {
            let edit = &self.edits[number];
            if edit.range.start > range.end {
                break;
            }
            if edit.range.start < at || edit.range.end > range.end {
                continue;
            }
            self.new.push_str(&self.text[at..edit.range.start]);
            let begun = self.new.len();
            self.pieces(&edit.pieces, number + 1);
            let region = (begun..self.new.len(), edit.ids.clone());
            self.regions.edits.push(region);
            at = edit.range.end;
        }
        self.new.push_str(&self.text[at..range.end]);
    }

    fn pieces(&mut self, pieces: &[Piece], first: usize) {
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.new.push_str(text),
                Piece::Old(range) => self.old(range.clone(), first),
                Piece::Of(id, pieces) => {
                    let begun = self.new.len();
                    self.pieces(pieces, first);
                    let region = (begun..self.new.len(), *id);
                    self.regions.alternatives.push(region);
                }
            }
        }
    }
}
