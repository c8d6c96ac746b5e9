//! All mutants in one build. The others are checked one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::edit::{self, Regions};
use super::list::{Genre, Mutant};
use super::plant;
use super::scratch::{Fault, Scratch};
use crate::repo::{self, Repo};
use crate::run::{self, say};

const ROUNDS_MAX: usize = 30;
/// The verdicts on single mutants, by a digest of the file and the change.
const VERDICTS: &str = "mutants/verdicts.json";

/// The copy with the mutants in it.
#[derive(Debug)]
pub(super) struct Planted {
    pub(super) scratch: Scratch,
    /// Mutants that need a build of their own.
    alone: BTreeSet<u32>,
    /// Mutants that do not compile.
    unviable: BTreeSet<u32>,
    /// The files without mutants.
    plain: BTreeMap<String, String>,
}

impl Planted {
    /// Whether a mutant is in the one build.
    pub(super) fn holds(&self, id: u32) -> bool {
        !self.alone.contains(&id) && !self.unviable.contains(&id)
    }

    /// Whether a mutant does not compile.
    pub(super) fn is_unviable(&self, id: u32) -> bool {
        self.unviable.contains(&id)
    }

    /// Changes a copy so that it has this mutant only.
    pub(super) fn only(&self, mutant: &Mutant, scratch: &Scratch) -> Result<()> {
        for (file, text) in &self.plain {
            let text = match *file == mutant.file {
                true => changed(text, mutant)?,
                false => text.clone(),
            };
            scratch.put(file, text.as_bytes())?;
        }
        Ok(())
    }
}

/// The text of a file with one mutant, as cargo-mutants would write it.
fn changed(text: &str, mutant: &Mutant) -> Result<String> {
    let mut new = text.to_owned();
    match mutant.genre {
        Genre::Own => {
            for (find, replacement) in &mutant.own {
                let at = plant::place(&new, find).with_context(|| mutant.title())?;
                new.replace_range(at..at + find.len(), replacement);
            }
        }
        _ => new.replace_range(mutant.range(text)?, &mutant.replacement),
    }
    Ok(new)
}

/// Puts as many mutants into one build as compile together.
pub(super) fn planted(repo: &Repo, mutants: &mut [Mutant]) -> Result<Planted> {
    let mut plain = BTreeMap::new();
    for Mutant { file, .. } in mutants.iter() {
        if !plain.contains_key(file) {
            plain.insert(file.clone(), repo::read(&repo.path(file))?);
        }
    }
    // The trials run in a copy of their own, so that cargo does not see changes in the other one.
    let probe = Scratch::make(repo, "probe", &[])?;
    let files: Vec<&String> = plain.keys().collect();
    let scratch = Scratch::make(repo, "tree", &files)?;
    let mut left_out: BTreeSet<u32> = BTreeSet::new();
    let mut written = BTreeSet::new();
    for round in 1.. {
        run::go_on()?;
        let regions = write(&probe, &plain, mutants, &left_out, &mut written)?;
        let faults = probe.check(repo)?;
        if faults.is_empty() {
            break;
        }
        let before = left_out.len();
        for fault in &faults {
            left_out.extend(guilty(fault, &regions));
        }
        say(&format!(
            "round {round}: {} errors, {} mutants left out",
            faults.len(),
            left_out.len()
        ));
        if left_out.len() == before || round == ROUNDS_MAX {
            let Fault { file, at, text } = &faults[0];
            bail!("the copy with all mutants does not compile: {file}, byte {at:?}: {text}");
        }
    }
    let ids = mutants.iter().map(|mutant| mutant.id);
    let alone = ids.filter(|id| !written.contains(id) || left_out.contains(id));
    let mut planted = Planted {
        scratch,
        alone: alone.collect(),
        unviable: BTreeSet::new(),
        plain,
    };
    judge_alone(repo, &probe, &mut planted, mutants)?;
    let Planted { scratch, plain, .. } = &planted;
    write(scratch, plain, mutants, &left_out, &mut written)?;
    Ok(planted)
}

/// Writes all files with all mutants except some, and notes the mutants that have a place.
fn write(
    scratch: &Scratch,
    plain: &BTreeMap<String, String>,
    mutants: &mut [Mutant],
    left_out: &BTreeSet<u32>,
    written: &mut BTreeSet<u32>,
) -> Result<BTreeMap<String, Regions>> {
    let mut regions = BTreeMap::new();
    written.clear();
    for (file, text) in plain {
        let mut of_file: Vec<&mut Mutant> =
            mutants.iter_mut().filter(|m| m.file == *file).collect();
        let edits = plant::edits(text, &mut of_file, |id| !left_out.contains(&id))
            .with_context(|| file.clone())?;
        written.extend(edits.iter().flat_map(|edit| edit.ids.iter().copied()));
        let (new, found) = edit::apply(text, edits);
        scratch.put(file, new.as_bytes())?;
        regions.insert(file.clone(), found);
    }
    Ok(regions)
}

fn guilty(fault: &Fault, regions: &BTreeMap<String, Regions>) -> Vec<u32> {
    let Some(regions) = regions.get(&fault.file) else {
        return Vec::new();
    };
    let guilty = regions.guilty(&fault.at);
    match guilty.is_empty() {
        true => regions.near(&fault.at),
        false => guilty,
    }
}

/// Finds out which of the mutants that are not in the one build compile at all.
fn judge_alone(
    repo: &Repo,
    probe: &Scratch,
    planted: &mut Planted,
    mutants: &[Mutant],
) -> Result<()> {
    let path = repo.target().join(VERDICTS);
    let known = fs::read_to_string(&path).unwrap_or_default();
    let known: BTreeMap<String, bool> = serde_json::from_str(&known).unwrap_or_default();
    let mut verdicts = BTreeMap::new();
    let alone: Vec<&Mutant> = mutants
        .iter()
        .filter(|mutant| planted.alone.contains(&mutant.id))
        .collect();
    say(&format!("{} mutants are compiled one by one", alone.len()));
    for mutant in alone {
        run::go_on()?;
        let text = changed(&planted.plain[&mutant.file], mutant)?;
        let digest = Sha256::digest(format!("{}\n{text}", mutant.file));
        let digest: String = digest.iter().take(16).map(|b| format!("{b:02x}")).collect();
        let compiles = match known.get(&digest) {
            Some(compiles) => *compiles,
            None => {
                planted.only(mutant, probe)?;
                probe.check(repo)?.is_empty()
            }
        };
        verdicts.insert(digest, compiles);
        if !compiles {
            planted.alone.remove(&mutant.id);
            planted.unviable.insert(mutant.id);
        }
    }
    let mut all = known;
    all.extend(verdicts);
    fs::write(&path, serde_json::to_string(&all)?)?;
    Ok(())
}
