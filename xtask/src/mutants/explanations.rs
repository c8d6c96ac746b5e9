//! xtask/mutants.toml: the reasons why some mutants may survive, and mutants of our own.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::list::{Genre, Mutant};
use crate::repo::{self, Repo};

pub(super) const FILE: &str = "xtask/mutants.toml";

/// The content of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Explanations {
    #[serde(default)]
    explained: Vec<Explained>,
    #[serde(default)]
    own: Vec<Own>,
}

/// A reason why mutants may survive.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Explained {
    /// The titles of the mutants, without line numbers.
    mutants: Vec<String>,
    why: String,
}

/// A mutant that is not the exchange of one operator.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    /// A description of its fault.
    name: String,
    file: String,
    edits: Vec<Replaced>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Replaced {
    /// An expression or statements that occur once in the file.
    find: String,
    replace: String,
}

impl Explanations {
    pub(super) fn read(repo: &Repo) -> Result<Explanations> {
        let explanations: Explanations =
            toml::from_str(&repo::read(&repo.path(FILE))?).context(FILE)?;
        let mut seen = std::collections::BTreeSet::new();
        for entry in &explanations.explained {
            for mutant in &entry.mutants {
                if !seen.insert(mutant) {
                    bail!("{FILE}: {mutant} is explained twice");
                }
            }
        }
        Ok(explanations)
    }

    /// Our own mutants, numbered after `last`.
    pub(super) fn own(&self, last: usize) -> Vec<Mutant> {
        let numbered = self.own.iter().zip(last as u32 + 1..);
        let text = |text: &str| text.trim().to_owned();
        let mutants = numbered.map(|(own, id)| Mutant {
            id,
            file: own.file.clone(),
            at: (1, 1),
            end: (1, 1),
            genre: Genre::Own,
            name: own.name.clone(),
            replacement: String::new(),
            of: String::new(),
            own: own
                .edits
                .iter()
                .map(|edit| (text(&edit.find), text(&edit.replace)))
                .collect(),
        });
        mutants.collect()
    }

    /// Each explained title, with the reason why the mutant may survive.
    pub(super) fn explained(&self) -> BTreeMap<&str, &str> {
        let entries = self.explained.iter();
        let pairs = entries.flat_map(|e| e.mutants.iter().map(|m| (m.as_str(), e.why.as_str())));
        pairs.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::plant::place;

    /// The run itself takes hours, so a moved file or a changed expression would be noticed late.
    #[test]
    fn each_mutant_of_our_own_has_its_place() {
        let repo = Repo::find().expect("the checkout");
        let explanations = Explanations::read(&repo).expect("the file");
        for own in &explanations.own {
            let text = repo::read(&repo.path(&own.file)).expect("its file");
            for edit in &own.edits {
                let found = place(&text, edit.find.trim());
                assert!(found.is_ok(), "{}: {}: {found:?}", own.name, edit.find);
            }
        }
    }
}
