//! Digests that show whether a step's inputs changed since its last run.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// A digest over texts, files and folders, in the order in which they were added.
pub(crate) struct Stamp(Sha256);

impl Stamp {
    /// A stamp of the name of the step alone.
    pub(crate) fn new(step: &str) -> Stamp {
        Stamp(Sha256::new()).text(step)
    }

    /// Adds a text.
    pub(crate) fn text(mut self, text: &str) -> Stamp {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text);
        self
    }

    /// Adds a file's content. A missing file counts as a content of its own.
    pub(crate) fn file(mut self, path: &Path) -> Result<Stamp> {
        if !path.exists() {
            return Ok(self.text("missing"));
        }
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(&bytes);
        Ok(self)
    }

    /// Adds every file under a folder with its relative path, except folders of these names.
    pub(crate) fn tree(mut self, folder: &Path, skip: &[&str]) -> Result<Stamp> {
        for path in files_under(folder, skip)? {
            let relative = path.strip_prefix(folder).unwrap_or(&path);
            self = self.text(&relative.to_string_lossy()).file(&path)?;
        }
        Ok(self)
    }

    /// The digest as hex digits.
    pub(crate) fn finish(self) -> String {
        self.0
            .finalize()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect()
    }
}

/// All files under a folder in a fixed order, without folders of the given names.
pub(crate) fn files_under(folder: &Path, skip: &[&str]) -> Result<Vec<std::path::PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                if !skip.iter().any(|name| entry.file_name() == *name) {
                    folders.push(entry.path());
                }
            } else {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Whether the stamp file has this digest.
pub(crate) fn is_current(file: &Path, digest: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.trim() == digest)
}

/// Stores the digest of a step that has succeeded.
pub(crate) fn record(file: &Path, digest: &str) -> Result<()> {
    fs::write(file, format!("{digest}\n"))
        .with_context(|| format!("cannot write {}", file.display()))
}
