//! The file that contains the addresses of a node. It replaces a file, and nothing else.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The name under which the ready file is written before it gets its own.
fn part_of(file: &Path) -> PathBuf {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    part.into()
}

/// Removes the file of an earlier start.
///
/// # Errors
/// Fails when something else has its name: a link, a device, a pipe, a socket or a folder.
pub(crate) fn forget(file: &Path) -> io::Result<()> {
    remove_regular(file).and_then(|()| remove_regular(&part_of(file)))
}

/// Removes a file if it is there, and nothing else of that name, such as a device or a pipe.
fn remove_regular(file: &Path) -> io::Result<()> {
    match fs::symlink_metadata(file) {
        Ok(facts) if facts.is_file() => fs::remove_file(file),
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!(
                "{} is a link, a device, a pipe or a folder, and is left alone: name a file, or one that \
                 is not there",
                file.display()
            ),
        )),
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(problem) => Err(problem),
    }
}

/// Writes the file so that readers see it whole or not at all.
pub(crate) fn write(file: &Path, text: &str) -> io::Result<()> {
    let part = part_of(file);
    let mut new = fs::File::create_new(&part)?;
    new.write_all(text.as_bytes())?;
    drop(new);
    // A file that got the name since the start is checked too.
    remove_regular(file)?;
    fs::rename(&part, file)
}
