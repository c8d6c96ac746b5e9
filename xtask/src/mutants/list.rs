//! The mutants, as cargo-mutants lists them.

use std::ops::Range;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::repo::Repo;
use crate::setup;

/// One small change to one file.
#[derive(Debug, Clone)]
pub(super) struct Mutant {
    /// The number with which the environment turns it on.
    pub(super) id: u32,
    pub(super) file: String,
    /// Its start: line and column, both from 1.
    pub(super) at: (usize, usize),
    /// Its end: line and column, both from 1.
    pub(super) end: (usize, usize),
    pub(super) genre: Genre,
    /// A description of the change and its function, without a place.
    pub(super) name: String,
    pub(super) replacement: String,
    /// The code that is changed, on one line. Empty for whole functions and for our own mutants.
    pub(super) of: String,
    /// For our own mutants: each text to find, and its replacement.
    pub(super) own: Vec<(String, String)>,
}

/// The sort of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
pub(super) enum Genre {
    /// A function that only returns a value.
    FnValue,
    /// Another operator between two values.
    BinaryOperator,
    /// No operator before a value.
    UnaryOperator,
    /// An arm that is never taken. Another arm then gets its values.
    MatchArm,
    /// A guard that is always true, or never.
    MatchArmGuard,
    /// A field that is taken from the base of a struct expression.
    StructField,
    /// A mutant of our own.
    Own,
}

impl Mutant {
    /// Its name in reports and for people.
    pub(super) fn title(&self) -> String {
        let file = self.file.strip_prefix("core/src/").unwrap_or(&self.file);
        match self.of.is_empty() {
            true => format!("{file}: {}", self.name),
            false => format!("{file}: {}: `{}`", self.name, self.of),
        }
    }

    /// The bytes of `text` that it replaces.
    pub(super) fn range(&self, text: &str) -> Result<Range<usize>> {
        let place = |(line, column): (usize, usize)| {
            let start = match line {
                1 => 0,
                _ => text.match_indices('\n').nth(line - 2)?.0 + 1,
            };
            let rest = &text[start..];
            let within = rest.char_indices().nth(column - 1).map(|(at, _)| at);
            Some(start + within.unwrap_or(rest.len()))
        };
        let range = place(self.at).zip(place(self.end));
        let (from, to) = range.with_context(|| format!("{} is not in its file", self.title()))?;
        Ok(from..to)
    }
}

#[derive(Deserialize)]
struct Listed {
    file: String,
    genre: Genre,
    name: String,
    replacement: String,
    span: Span,
}

#[derive(Deserialize)]
struct Span {
    start: Place,
    end: Place,
}

#[derive(Deserialize)]
struct Place {
    line: usize,
    column: usize,
}

/// The mutants that cargo-mutants lists for these files.
pub(super) fn of(repo: &Repo, files: &[String]) -> Result<Vec<Mutant>> {
    let mut command = Command::new(setup::cargo_mutants(repo)?);
    command.current_dir(repo.path("")).args([
        "mutants",
        "--list",
        "--json",
        "--package",
        "tallymesh-core",
    ]);
    for file in files {
        command.args(["-f", file]);
    }
    let output = command.output().context("cannot start cargo-mutants")?;
    if !output.status.success() {
        bail!(
            "cargo mutants --list failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let listed: Vec<Listed> = serde_json::from_slice(&output.stdout)
        .context("cargo-mutants lists in a form that is not known here")?;
    let mutants = listed.into_iter().zip(1..).map(|(it, id)| Mutant {
        id,
        at: (it.span.start.line, it.span.start.column),
        end: (it.span.end.line, it.span.end.column),
        genre: it.genre,
        // `file:line:column: description`
        name: it
            .name
            .splitn(4, ':')
            .nth(3)
            .unwrap_or(&it.name)
            .trim()
            .to_owned(),
        replacement: it.replacement,
        file: it.file,
        of: String::new(),
        own: Vec::new(),
    });
    Ok(mutants.collect())
}
