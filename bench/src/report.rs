//! Where measured sections go.

use anyhow::Result;
use std::path::PathBuf;

/// Measured sections go to the terminal, and to a file if one is named.
pub(crate) struct Sections {
    pub(crate) file: Option<PathBuf>,
    /// How the figures were made: the command, and what it ran on.
    pub(crate) made_by: String,
}

impl Sections {
    /// Prints a section in Markdown, and puts it into its block of the file.
    pub(crate) fn put(&self, name: &str, text: &str) -> Result<()> {
        let text = format!("{}\n\n{}", self.made_by, text.trim());
        println!("\n{text}");
        let Some(file) = &self.file else {
            return Ok(());
        };
        tallymesh_reports::put(file, name, &text)
    }
}
