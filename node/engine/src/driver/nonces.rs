//! The nonces with which this node's writer ids were minted, beside its key. With a nonce the node
//! proves to others that a writer is its own, even one of an earlier start.
//!
//! They are in one small file in the data folder, which is written whole before a new id is used. A
//! node whose role is below member needs it, because others accept nothing from a writer that was
//! not proved. A nonce is no secret, because the link proves the key.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tallymesh_core::bounds::OWN_WRITERS_MAX;
use tallymesh_core::{Space, WriterId};
use tallymesh_node_store as store;
use tallymesh_node_store::StoreError;

/// The version of the file that this build writes, and the only one that it reads.
const VERSION: u64 = 1;

const NONCE_BYTES: usize = 16;

pub(super) type Nonce = [u8; NONCE_BYTES];

/// The nonces of each space, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Nonces {
    /// `None` without a data folder. Then the nonces end with the process, as do all writes under
    /// these ids.
    folder: Option<PathBuf>,
    by_space: BTreeMap<String, Vec<Nonce>>,
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u64,
    spaces: BTreeMap<String, Vec<String>>,
}

impl Nonces {
    /// Reads the nonces from a data folder. There are none if it has no such file, as a folder of
    /// an earlier build.
    ///
    /// # Errors
    /// When the file exists and can't be read.
    pub(super) fn open(folder: Option<PathBuf>) -> Result<Nonces, StoreError> {
        let mut nonces = Nonces {
            folder,
            by_space: BTreeMap::new(),
        };
        let Some(folder) = &nonces.folder else {
            return Ok(nonces);
        };
        let io = |problem: &dyn std::fmt::Display| StoreError::Io {
            doing: format!("read {}", folder.join(store::WRITERS_FILE).display()),
            problem: problem.to_string(),
        };
        let bytes = store::read_small(folder, store::WRITERS_FILE, store::WRITERS_BYTES_MAX);
        let Some(bytes) = bytes.map_err(|problem| io(&problem))? else {
            return Ok(nonces);
        };
        match read(&bytes) {
            Ok(by_space) => nonces.by_space = by_space,
            Err(problem) => {
                return Err(StoreError::Damaged {
                    folder: folder.clone(),
                    problem: format!(
                        "{} has what proves this node's writers to others, and {problem}; without \
                         that file what is here of earlier starts, and has reached nobody, is taken \
                         by nobody as long as this node's role is less than a member's",
                        store::WRITERS_FILE
                    ),
                });
            }
        }
        Ok(nonces)
    }

    /// The nonces of a space, the oldest first.
    pub(super) fn of(&self, space: &Space) -> &[Nonce] {
        self.by_space.get(space.as_str()).map_or(&[], Vec::as_slice)
    }

    /// Removes the nonces of a space whose writers are no longer of use.
    pub(super) fn retain(
        &mut self,
        space: &Space,
        owner: &[u8; 32],
        of_use: &dyn Fn(&WriterId) -> bool,
    ) {
        if let Some(nonces) = self.by_space.get_mut(space.as_str()) {
            nonces.retain(|nonce| of_use(&WriterId::mint(space, owner, nonce)));
        }
    }

    /// Adds the nonce of a new writer. It is not stored before [`save`](Nonces::save).
    pub(super) fn note(&mut self, space: &Space, nonce: Nonce) {
        let nonces = self.by_space.entry(space.to_string()).or_default();
        nonces.push(nonce);
        if nonces.len() > OWN_WRITERS_MAX {
            nonces.remove(0);
        }
    }

    /// Makes all nonces durable.
    ///
    /// # Errors
    /// When the file can't be written. Then nothing may be sent under the new ids.
    pub(super) fn save(&self) -> Result<(), StoreError> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let io = |problem: &dyn std::fmt::Display| StoreError::Io {
            doing: format!("write {}", folder.join(store::WRITERS_FILE).display()),
            problem: problem.to_string(),
        };
        let rows = self.by_space.iter().map(|(space, nonces)| {
            let nonces = nonces.iter().map(|nonce| hex(nonce));
            (space.clone(), nonces.collect())
        });
        let written = Written {
            version: VERSION,
            spaces: rows.collect(),
        };
        let bytes = serde_json::to_vec(&written).map_err(|problem| io(&problem))?;
        store::write_small(folder, store::WRITERS_FILE, &bytes).map_err(|problem| io(&problem))
    }
}

fn read(bytes: &[u8]) -> Result<BTreeMap<String, Vec<Nonce>>, String> {
    let written: Written = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if written.version != VERSION {
        let found = written.version;
        return Err(format!(
            "is of version {found}, and this build knows {VERSION}"
        ));
    }
    let mut by_space = BTreeMap::new();
    for (space, rows) in written.spaces {
        let nonces = rows.iter().map(|row| {
            let nonce = unhex(row);
            nonce.ok_or_else(|| format!("`{row}` is no nonce of {NONCE_BYTES} bytes"))
        });
        by_space.insert(space, nonces.collect::<Result<_, _>>()?);
    }
    Ok(by_space)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Nonce> {
    if text.len() != 2 * NONCE_BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut nonce = [0; NONCE_BYTES];
    for (at, byte) in nonce.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_there_after_a_start_and_the_oldest_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || Nonces::open(Some(folder.path().to_path_buf())).expect("readable");
        let space = Space::new("shop").expect("a name");
        let mut nonces = open();
        assert_eq!(
            nonces.of(&space),
            [] as [Nonce; 0],
            "an older folder has none"
        );
        for byte in [1, 2] {
            nonces.note(&space, [byte; 16]);
        }
        assert!(open().of(&space).is_empty(), "it was not saved");
        nonces.save().expect("written");
        assert_eq!(open().of(&space), [[1; 16], [2; 16]]);
        let owner = [7; 32];
        let second = WriterId::mint(&space, &owner, &[2; 16]);
        nonces.retain(&space, &owner, &|writer| *writer == second);
        assert_eq!(nonces.of(&space), [[2; 16]]);
        for byte in 0..=OWN_WRITERS_MAX as u16 {
            let [low, high] = byte.to_le_bytes();
            nonces.note(
                &space,
                [low, high, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3],
            );
        }
        assert_eq!(nonces.of(&space).len(), OWN_WRITERS_MAX);
        assert!(!nonces.of(&space).contains(&[2; 16]));
    }

    #[test]
    fn a_damaged_file_is_not_passed_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(store::WRITERS_FILE);
        for text in [
            "{",
            r#"{"version":2,"spaces":{}}"#,
            r#"{"version":1,"spaces":{"a":["00"]}}"#,
            r#"{"version":1,"spaces":{"a":["+0000000000000000000000000000000"]}}"#,
        ] {
            std::fs::write(&file, text).expect("written");
            let opened = Nonces::open(Some(folder.path().to_path_buf()));
            let error = opened.expect_err(text).to_string();
            assert!(error.contains(store::WRITERS_FILE), "{error}");
        }
    }
}
