//! The operator's token, which proves that a request is from the operator of this node.
//!
//! It is a file in the data folder that only the node's user can read, created at the first start.
//! It is used because a connection from loopback proves nothing: each program and each page on the
//! machine has one.

use sha2::{Digest, Sha256};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tallymesh_node_store as store;

/// The file's name in the data folder.
pub const FILE: &str = "token";

/// The prefix of each token, so that scanners for leaked secrets find it.
pub const PREFIX: &str = "tmo_";

/// Random bytes of a token, which follow the prefix as hex digits.
const BYTES: usize = 32;

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1024;

/// The token of a node's operator.
#[derive(Clone)]
pub struct OperatorToken {
    text: String,
    digest: [u8; 32],
}

/// The reason why the token can't be used.
#[derive(Debug)]
pub struct TokenError {
    /// Its file.
    pub file: PathBuf,
    /// The problem with the token.
    pub problem: io::Error,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "can't keep the operator's token in {}: {}. Let the node read and write its folder; a file \
             that is damaged may be removed, and the next start makes another",
            self.file.display(),
            self.problem
        )
    }
}

impl std::error::Error for TokenError {}

impl OperatorToken {
    /// The token of a data folder, which is created if there is none. Without a folder, the token
    /// ends with the process.
    ///
    /// # Errors
    /// When the file can't be read or written, or is no token.
    pub fn open(folder: Option<&Path>) -> Result<OperatorToken, TokenError> {
        let Some(folder) = folder else {
            return OperatorToken::draw().map_err(|problem| TokenError {
                file: FILE.into(),
                problem,
            });
        };
        let opened = OperatorToken::open_in(folder);
        opened.map_err(|problem| TokenError {
            file: folder.join(FILE),
            problem,
        })
    }

    fn open_in(folder: &Path) -> io::Result<OperatorToken> {
        make_folder(folder)?;
        match store::read_small(folder, FILE, FILE_BYTES_MAX)? {
            Some(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let text = text.trim();
                if !is_token(text) {
                    let problem = "it is no token";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
                }
                keep_from_others(&folder.join(FILE))?;
                Ok(OperatorToken::from(text.to_owned()))
            }
            None => {
                let token = OperatorToken::draw()?;
                let line = format!("{}\n", token.text);
                store::write_small(folder, FILE, line.as_bytes())?;
                keep_from_others(&folder.join(FILE))?;
                Ok(token)
            }
        }
    }

    fn draw() -> io::Result<OperatorToken> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(OperatorToken::from(format!("{PREFIX}{digits}")))
    }

    /// Its text, which is a secret.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether this is the token. The time that it takes reveals nothing, because digests are
    /// compared.
    pub fn is(&self, shown: &[u8]) -> bool {
        let digest: [u8; 32] = Sha256::digest(shown).into();
        digest == self.digest
    }
}

impl From<String> for OperatorToken {
    fn from(text: String) -> OperatorToken {
        let digest = Sha256::digest(text.as_bytes()).into();
        OperatorToken { text, digest }
    }
}

impl fmt::Debug for OperatorToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OperatorToken")
    }
}

/// Whether this is the text of a token.
fn is_token(text: &str) -> bool {
    let digits = text.strip_prefix(PREFIX);
    digits.is_some_and(|it| it.len() == 2 * BYTES && it.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Creates the folder. It already exists if the node has a store in it.
#[cfg(unix)]
fn make_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn make_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

/// Makes the file readable by its owner alone.
#[cfg(unix)]
fn keep_from_others(file: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let kept = fs::metadata(file)?.permissions().mode() & 0o077 == 0;
    match kept {
        true => Ok(()),
        false => fs::set_permissions(file, fs::Permissions::from_mode(0o600)),
    }
}

#[cfg(not(unix))]
fn keep_from_others(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let token = OperatorToken::open(Some(&data)).expect("made");
        assert!(is_token(token.text()) && token.is(token.text().as_bytes()));
        let again = OperatorToken::open(Some(&data)).expect("read");
        assert_eq!(again.text(), token.text());
        let file = data.join(FILE);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = || fs::metadata(&file).expect("a file").permissions().mode() & 0o777;
            assert_eq!(mode(), 0o600);
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("set");
            OperatorToken::open(Some(&data)).expect("read");
            assert_eq!(mode(), 0o600);
        }
        let other = OperatorToken::open(None).expect("made");
        assert!(
            !token.is(other.text().as_bytes()) && !token.is(b"") && !token.is(PREFIX.as_bytes())
        );
        assert!(!format!("{token:?}").contains(token.text()));
        for wrong in ["", "tmo_", "hello"] {
            fs::write(&file, wrong).expect("write");
            let error = OperatorToken::open(Some(&data)).expect_err("refused");
            assert!(error.to_string().contains("token"), "{error}");
        }
    }
}
