//! Finds the place of each mutant in a file, and writes it so that it can be turned on.

use std::collections::HashMap;
use std::ops::Range;

use anyhow::{Context, Result, bail};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::edit::{Edit, Piece};
use super::list::{Genre, Mutant};

/// Makes the edits of one file for all its `mutants` that `wanted` selects. Notes in each mutant the code
/// that it changes. A mutant whose place has an unknown form gets no edit.
pub(super) fn edits(
    text: &str,
    mutants: &mut [&mut Mutant],
    wanted: impl Fn(u32) -> bool,
) -> Result<Vec<Edit>> {
    let parsed = syn::parse_file(text)?;
    let mut places: HashMap<(Genre, usize, usize), Vec<usize>> = HashMap::new();
    let mut own = Vec::new();
    for (number, mutant) in mutants.iter().enumerate() {
        match mutant.genre {
            Genre::Own => own.extend(own_edits(text, mutant)?),
            genre => {
                let place = (genre, mutant.at.0, mutant.at.1);
                places.entry(place).or_default().push(number);
            }
        }
    }
    own.retain(|edit| edit.ids.iter().all(|id| wanted(*id)));
    let mut visitor = Planter {
        text,
        places,
        mutants,
        edits: own,
        wanted: &wanted,
    };
    visitor.visit_file(&parsed);
    Ok(visitor.edits)
}

/// The edits of a mutant of our own: of expressions, or of statements.
fn own_edits(text: &str, mutant: &Mutant) -> Result<Vec<Edit>> {
    let edit = |(find, replacement): &(String, String)| {
        let at = place(text, find).with_context(|| format!("{}: {find}", mutant.title()))?;
        let range = at..at + find.len();
        let statement = find.ends_with([';', '}']);
        let (open, close) = if statement { ("", "") } else { ("(", ")") };
        Ok(Edit {
            pieces: vec![
                Piece::Text(format!("{open}if {} {{ ", is(mutant.id))),
                Piece::Of(mutant.id, vec![Piece::Text(replacement.clone())]),
                Piece::Text(" } else { ".into()),
                Piece::Old(range.clone()),
                Piece::Text(format!(" }}{close}")),
            ],
            range,
            ids: vec![mutant.id],
        })
    };
    mutant.own.iter().map(edit).collect()
}

/// The start of a text that must occur once.
pub(super) fn place(text: &str, find: &str) -> Result<usize> {
    let mut found = text.match_indices(find);
    let (at, _) = found.next().context("there is no such text")?;
    match found.next() {
        None => Ok(at),
        Some(_) => bail!("there are several such texts"),
    }
}

/// The code that checks whether a mutant is on.
fn is(id: u32) -> String {
    format!("crate::mutant::is({id})")
}

/// The name of the variable for a computed base of a struct expression.
const MADE: &str = "mutant_base";

struct Planter<'a, 'm> {
    text: &'a str,
    places: HashMap<(Genre, usize, usize), Vec<usize>>,
    mutants: &'a mut [&'m mut Mutant],
    edits: Vec<Edit>,
    wanted: &'a dyn Fn(u32) -> bool,
}

/// A wanted mutant: its number and its replacement.
type Wanted = (u32, String);

impl Planter<'_, '_> {
    /// The wanted mutants of a genre that begin at `span`. Notes in each that it changes the code `of`.
    fn at(
        &mut self,
        genre: Genre,
        span: proc_macro2::Span,
        of: Option<Range<usize>>,
    ) -> Vec<Wanted> {
        let start = span.start();
        let place = (genre, start.line, start.column + 1);
        let mut wanted = Vec::new();
        for number in self.places.remove(&place).unwrap_or_default() {
            let mutant = &mut *self.mutants[number];
            if let Some(of) = &of {
                let words: Vec<&str> = self.text[of.clone()].split_whitespace().collect();
                mutant.of = words.join(" ");
            }
            if (self.wanted)(mutant.id) {
                wanted.push((mutant.id, mutant.replacement.clone()));
            }
        }
        wanted
    }

    fn push(&mut self, range: Range<usize>, found: &[Wanted], pieces: Vec<Piece>) {
        self.edits.push(Edit {
            range,
            pieces,
            ids: found.iter().map(|(id, _)| *id).collect(),
        });
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let Some(first) = block.stmts.first() else {
            return;
        };
        let found = self.at(Genre::FnValue, first.span(), None);
        if found.is_empty() {
            return;
        }
        let inside = block.brace_token.span.open().byte_range().end
            ..block.brace_token.span.close().byte_range().start;
        let opaque = matches!(&signature.output,
            syn::ReturnType::Type(_, of) if matches!(**of, syn::Type::ImplTrait(_)));
        let mut pieces = Vec::new();
        if opaque {
            // All returns must have one type.
            pieces.push(Piece::Text(
                " let mutant: alloc::boxed::Box<dyn Iterator<Item = _> + '_> = ".into(),
            ));
            for (id, replacement) in &found {
                pieces.push(Piece::Text(format!("if {} {{ ", is(*id))));
                let text = format!("alloc::boxed::Box::new({replacement})");
                pieces.push(Piece::Of(*id, vec![Piece::Text(text)]));
                pieces.push(Piece::Text(" } else ".into()));
            }
            pieces.push(Piece::Text("{ alloc::boxed::Box::new({ ".into()));
            pieces.push(Piece::Old(inside.clone()));
            pieces.push(Piece::Text(" }) }; mutant ".into()));
            self.push(inside, &found, pieces);
            return;
        }
        for (id, replacement) in &found {
            pieces.push(Piece::Text(format!(" if {} {{ ", is(*id))));
            let text = format!("return {replacement};");
            pieces.push(Piece::Of(*id, vec![Piece::Text(text)]));
            pieces.push(Piece::Text(" }".into()));
        }
        self.push(inside.start..inside.start, &found, pieces);
    }

    fn binary(&mut self, it: &syn::ExprBinary, found: &[Wanted]) {
        use syn::BinOp::*;
        let left = Piece::Old(it.left.span().byte_range());
        let right = Piece::Old(it.right.span().byte_range());
        let op = &self.text[it.op.span().byte_range()];
        let text = |text: String| Piece::Text(text);
        let flips = found.len() == 1;
        let pieces = match it.op {
            // If both sides and the whole are negated, each operator becomes the other.
            And(_) | Or(_) if flips => {
                let on = is(found[0].0);
                let inner = Piece::Of(
                    found[0].0,
                    vec![
                        text("((((".into()),
                        left,
                        text(format!(") ^ {on}) {op} ((")),
                        right,
                        text(format!(") ^ {on})) ^ {on})")),
                    ],
                );
                vec![inner]
            }
            Eq(_) | Ne(_) | Le(_) | Ge(_) if flips => vec![
                text("((".into()),
                left,
                text(format!(" {op} ")),
                right,
                text(format!(") ^ {})", is(found[0].0))),
            ],
            AddAssign(_) | SubAssign(_) | MulAssign(_) | DivAssign(_) | RemAssign(_)
            | BitXorAssign(_) | BitAndAssign(_) | BitOrAssign(_) | ShlAssign(_) | ShrAssign(_) => {
                let mut pieces = vec![text("{ ".into())];
                for (id, other) in found {
                    pieces.push(text(format!("if {} {{ ", is(*id))));
                    let change = vec![left.clone(), text(format!(" {other} ")), right.clone()];
                    pieces.push(Piece::Of(*id, change));
                    pieces.push(text("; } else ".into()));
                }
                pieces.extend([text("{ ".into()), left, text(format!(" {op} ")), right]);
                pieces.push(text("; } }".into()));
                pieces
            }
            _ => {
                let compares = matches!(it.op, Lt(_) | Gt(_) | Le(_) | Ge(_) | Eq(_) | Ne(_));
                let by = if compares { "&" } else { "" };
                let of = if compares { "*" } else { "" };
                let mut pieces = vec![
                    text(format!("(match ({by}(")),
                    left,
                    text(format!("), {by}(")),
                    right,
                    text(")) { (l, r) => ".into()),
                ];
                for (id, other) in found {
                    pieces.push(text(format!("if {} {{ ", is(*id))));
                    pieces.push(Piece::Of(*id, vec![text(format!("{of}l {other} {of}r"))]));
                    pieces.push(text(" } else ".into()));
                }
                pieces.push(text(format!("{{ {of}l {op} {of}r }} }})")));
                pieces
            }
        };
        self.push(it.span().byte_range(), found, pieces);
    }

    /// Makes the edit of one arm, and returns the mutants that delete it.
    fn arm(&mut self, arm: &syn::Arm) -> Vec<Wanted> {
        let pattern = arm.pat.span().byte_range();
        let deletes = self.at(Genre::MatchArm, arm.span(), Some(pattern.clone()));
        let guard = arm.guard.as_ref().map(|(_, guard)| guard);
        let guards = guard.map_or(Vec::new(), |guard| {
            self.at(
                Genre::MatchArmGuard,
                guard.span(),
                Some(guard.span().byte_range()),
            )
        });
        let found: Vec<Wanted> = deletes.iter().chain(&guards).cloned().collect();
        if found.is_empty() {
            return deletes;
        }
        let mut test: Vec<Piece> = Vec::new();
        for (id, _) in &deletes {
            test.push(Piece::Of(
                *id,
                vec![Piece::Text(format!("!{} && ", is(*id)))],
            ));
        }
        let Some(guard) = guard else {
            test.insert(0, Piece::Text(" if ".into()));
            test.push(Piece::Text("true".into()));
            self.push(pattern.end..pattern.end, &found, test);
            return deletes;
        };
        test.push(Piece::Text("(".into()));
        for (id, value) in &guards {
            let part = match value == "true" {
                true => format!("{} || ", is(*id)),
                false => format!("!{} && ", is(*id)),
            };
            test.push(Piece::Text(part));
        }
        test.push(Piece::Text("(".into()));
        test.push(Piece::Old(guard.span().byte_range()));
        test.push(Piece::Text("))".into()));
        self.push(guard.span().byte_range(), &found, test);
        deletes
    }

    fn fields(&mut self, it: &syn::ExprStruct) {
        let Some(rest) = &it.rest else {
            return;
        };
        let base = rest.span().byte_range();
        let is_default = self.text[base.clone()] == *"Default::default()";
        // A base that a call computes is evaluated once, because it may move its parts from other places.
        let is_made = matches!(**rest, syn::Expr::Call(_) | syn::Expr::MethodCall(_));
        let is_made = is_made && !is_default;
        let mut all = Vec::new();
        for field in &it.fields {
            let range = field.span().byte_range();
            let found = self.at(Genre::StructField, field.span(), Some(range.clone()));
            let [(id, _)] = &found[..] else {
                continue;
            };
            let syn::Member::Named(name) = &field.member else {
                continue;
            };
            let base = match (is_default, is_made) {
                (true, _) => {
                    let path = &self.text[it.path.span().byte_range()];
                    Piece::Text(format!("<{path} as Default>::default()"))
                }
                (_, true) => Piece::Text(MADE.into()),
                _ => Piece::Old(base.clone()),
            };
            let taken = vec![
                Piece::Text("(".into()),
                base,
                Piece::Text(format!(").{name}")),
            ];
            let pieces = vec![
                Piece::Text(format!("{name}: if {} {{ ", is(*id))),
                Piece::Of(*id, taken),
                Piece::Text(" } else { ".into()),
                Piece::Old(field.expr.span().byte_range()),
                Piece::Text(" }".into()),
            ];
            self.push(range, &found, pieces);
            all.extend(found);
        }
        if is_made && !all.is_empty() {
            let whole = it.span().byte_range();
            let pieces = vec![
                Piece::Text("(match (".into()),
                Piece::Old(base.clone()),
                Piece::Text(format!(") {{ {MADE} => ")),
                Piece::Old(whole.start..base.start),
                Piece::Text(MADE.into()),
                Piece::Old(base.end..whole.end),
                Piece::Text(" })".into()),
            ];
            self.push(whole, &all, pieces);
        }
    }

    /// A function with mutants cannot be const, so the keyword is removed.
    fn unconst(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let Some(word) = signature.constness else {
            return;
        };
        let within = block.span().byte_range();
        let ids: Vec<u32> = self
            .edits
            .iter()
            .filter(|edit| within.start <= edit.range.start && edit.range.end <= within.end)
            .flat_map(|edit| edit.ids.clone())
            .collect();
        if !ids.is_empty() {
            self.edits.push(Edit {
                range: word.span().byte_range(),
                pieces: Vec::new(),
                ids,
            });
        }
    }
}

impl<'ast> Visit<'ast> for Planter<'_, '_> {
    fn visit_item_fn(&mut self, it: &'ast syn::ItemFn) {
        self.function(&it.sig, &it.block);
        visit::visit_item_fn(self, it);
        self.unconst(&it.sig, &it.block);
    }

    fn visit_impl_item_fn(&mut self, it: &'ast syn::ImplItemFn) {
        self.function(&it.sig, &it.block);
        visit::visit_impl_item_fn(self, it);
        self.unconst(&it.sig, &it.block);
    }

    fn visit_expr_binary(&mut self, it: &'ast syn::ExprBinary) {
        let whole = it.span().byte_range();
        let found = self.at(Genre::BinaryOperator, it.op.span(), Some(whole));
        // A condition that binds names cannot be put into brackets. With `||` it does not compile.
        if !found.is_empty() && !binds(it) {
            self.binary(it, &found);
        }
        visit::visit_expr_binary(self, it);
    }

    fn visit_expr_unary(&mut self, it: &'ast syn::ExprUnary) {
        let whole = it.span().byte_range();
        let found = self.at(Genre::UnaryOperator, it.op.span(), Some(whole.clone()));
        if let [(id, _)] = &found[..] {
            let op = &self.text[it.op.span().byte_range()];
            let pieces = vec![
                Piece::Text("(match ".into()),
                Piece::Text("(".into()),
                Piece::Old(it.expr.span().byte_range()),
                Piece::Text(format!(") {{ v => if {} {{ ", is(*id))),
                Piece::Of(*id, vec![Piece::Text("v".into())]),
                Piece::Text(format!(" }} else {{ {op}v }} }})")),
            ];
            self.push(whole, &found, pieces);
        }
        visit::visit_expr_unary(self, it);
    }

    fn visit_expr_match(&mut self, it: &'ast syn::ExprMatch) {
        let deleted = it.arms.iter().flat_map(|arm| self.arm(arm));
        let deleted: Vec<Wanted> = deleted.collect();
        if !deleted.is_empty() {
            // This edit changes nothing. The compiler reports missing arms at this place.
            let range = it.span().byte_range();
            self.push(range.clone(), &deleted, vec![Piece::Old(range)]);
        }
        visit::visit_expr_match(self, it);
    }

    fn visit_expr_struct(&mut self, it: &'ast syn::ExprStruct) {
        self.fields(it);
        visit::visit_expr_struct(self, it);
    }
}

/// Whether one side of a chain of `&&` is a `let`.
fn binds(it: &syn::ExprBinary) -> bool {
    [&it.left, &it.right].into_iter().any(|side| match &**side {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(inner) => matches!(inner.op, syn::BinOp::And(_)) && binds(inner),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::edit;

    fn mutant(id: u32, genre: Genre, at: (usize, usize), replacement: &str) -> Mutant {
        Mutant {
            id,
            file: "core/src/x.rs".into(),
            at,
            end: at,
            genre,
            name: String::new(),
            replacement: replacement.into(),
            of: String::new(),
            own: Vec::new(),
        }
    }

    /// The text with all mutants in it, and the code that each mutant changes.
    fn planted(text: &str, mut mutants: Vec<Mutant>) -> (String, Vec<String>) {
        let edits = edits(text, &mut mutants.iter_mut().collect::<Vec<_>>(), |_| true).unwrap();
        let (new, _) = edit::apply(text, edits);
        syn::parse_file(&new).unwrap();
        let words: Vec<&str> = new.split_whitespace().collect();
        (words.join(" "), mutants.into_iter().map(|m| m.of).collect())
    }

    #[test]
    fn mutants_within_each_other_are_all_planted() {
        let text = "fn f(a: u8, b: u8) -> bool {\n    a < 1 && a + b == 2\n}\n";
        let (new, of) = planted(
            text,
            vec![
                mutant(1, Genre::FnValue, (2, 5), "true"),
                mutant(2, Genre::BinaryOperator, (2, 11), "||"),
                mutant(3, Genre::BinaryOperator, (2, 7), "<="),
                mutant(4, Genre::BinaryOperator, (2, 20), "!="),
                mutant(5, Genre::BinaryOperator, (2, 16), "-"),
            ],
        );
        assert_eq!(
            of[1..],
            ["a < 1 && a + b == 2", "a < 1", "a + b == 2", "a + b"]
        );
        for id in 1..=5 {
            assert!(new.contains(&is(id)), "{id}: {new}");
        }
        let less = "if crate::mutant::is(3) { *l <= *r } else { *l < *r }";
        assert!(new.contains(less), "{new}");
    }

    #[test]
    fn what_binds_names_is_left_alone() {
        let text =
            "fn f(a: Option<u8>) -> u8 {\n    if let Some(b) = a && b > 1 { b } else { 0 }\n}\n";
        let (new, _) = planted(
            text,
            vec![
                mutant(1, Genre::BinaryOperator, (2, 24), "||"),
                mutant(2, Genre::BinaryOperator, (2, 29), "<"),
            ],
        );
        assert!(!new.contains(&is(1)) && new.contains(&is(2)), "{new}");
    }

    #[test]
    fn arms_fields_and_texts_of_our_own_are_switched() {
        let text = "fn f(a: S) -> S {\n    match a.b {\n        1 if a.c => a,\n        2 => S { b: !a.b, ..a },\n        _ => a,\n    }\n}\n";
        let mut own = mutant(5, Genre::Own, (1, 1), "");
        own.own = vec![("a.c".into(), "false".into())];
        let (new, _) = planted(
            text,
            vec![
                mutant(1, Genre::MatchArm, (3, 9), ""),
                mutant(2, Genre::MatchArmGuard, (3, 14), "true"),
                mutant(3, Genre::MatchArm, (4, 9), ""),
                mutant(4, Genre::StructField, (4, 18), ""),
                own,
                mutant(6, Genre::UnaryOperator, (4, 21), ""),
            ],
        );
        for id in 1..=6 {
            assert!(new.contains(&is(id)), "{id}: {new}");
        }
        assert!(
            new.contains("(if crate::mutant::is(5) { false } else { "),
            "{new}"
        );
        assert!(
            new.contains("b: if crate::mutant::is(4) { (a).b }"),
            "{new}"
        );
        let text = "fn f(j: J) -> S {\n    S { b: 1, ..S::new(j) }\n}\n";
        let (new, _) = planted(text, vec![mutant(1, Genre::StructField, (2, 9), "")]);
        assert!(
            new.contains("(match (S::new(j)) { mutant_base => S { b: if crate::mutant::is(1) { (mutant_base).b } else { 1 }, ..mutant_base } })"),
            "{new}"
        );
        let twice = place("a a", "a").unwrap_err();
        assert!(twice.to_string().contains("several"));
    }
}
