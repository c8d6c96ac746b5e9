//! Links of the documents and paths in texts lead to a file that is there. The page of a folder of core names
//! each of its files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Pages whose paths are of their time.
const OF_THEIR_TIME: [&str; 2] = ["CHANGELOG.md", "docs/reports"];
/// A part of a report, and the report into which a test copies it. Its links are read there.
const PART: (&str, &str) = (
    "node/tests/suite/hostile/found.md",
    "docs/reports/hostile.md",
);

/// The files of the checkout, and the texts of its documents and its code.
#[derive(Default)]
pub(super) struct Pages {
    /// Every file, and every folder that has one.
    paths: BTreeSet<PathBuf>,
    texts: BTreeMap<PathBuf, String>,
}

impl Pages {
    /// Adds a file, with its text if it is one of those that are judged.
    pub(super) fn add(&mut self, name: &Path, text: Option<String>) {
        self.paths.extend(name.ancestors().map(Path::to_path_buf));
        if let Some(text) = text {
            self.texts.insert(name.to_path_buf(), text);
        }
    }

    /// Whether the text of a file is judged.
    pub(super) fn judges(name: &Path) -> bool {
        has_extension(name, "md") || has_extension(name, "rs")
    }

    /// The links and paths that lead nowhere, and the files that a page of core does not name.
    pub(super) fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (name, text) in &self.texts {
            if has_extension(name, "md") {
                broken.extend(self.dead_links(name, text));
            }
            if !OF_THEIR_TIME.iter().any(|it| name.starts_with(it)) {
                broken.extend(self.dead_paths(name, text));
            }
            broken.extend(self.unnamed(name, text));
        }
        broken
    }

    /// The relative links of a document that lead to no file, or to no heading.
    fn dead_links(&self, name: &Path, text: &str) -> Vec<String> {
        let place = match name == Path::new(PART.0) {
            true => Path::new(PART.1),
            false => name,
        };
        let mut broken = Vec::new();
        for (number, line) in prose(text) {
            for link in links(&line) {
                if link.contains("://") || link.starts_with("mailto:") {
                    continue;
                }
                let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
                let file = match path {
                    "" => Some(name.to_path_buf()),
                    _ => beside(place, path),
                };
                let why = match file.filter(|it| self.paths.contains(it)) {
                    None => "there is no such file",
                    Some(file) if !self.has_anchor(&file, anchor) => "there is no such heading",
                    Some(_) => continue,
                };
                broken.push(format!("{}:{number}: `{link}`: {why}", name.display()));
            }
        }
        broken
    }

    fn has_anchor(&self, file: &Path, anchor: &str) -> bool {
        let text = self.texts.get(file);
        anchor.is_empty() || text.is_some_and(|text| anchors(text).iter().any(|it| it == anchor))
    }

    /// The paths between backticks that end no path of the checkout. A path may begin at any folder, because
    /// a text often names a file by its place in a folder that it has named before.
    fn dead_paths(&self, name: &Path, text: &str) -> Vec<String> {
        let lines: Vec<(usize, String)> = match has_extension(name, "md") {
            true => prose(text),
            false => comments(text),
        };
        let mut broken = Vec::new();
        for (number, line) in lines {
            let shown = without_links(&line);
            for path in shown.split('`').skip(1).step_by(2) {
                if self.is_path(path) && !self.leads(name, Path::new(path)) {
                    broken.push(format!(
                        "{}:{number}: `{path}`: there is no such file",
                        name.display()
                    ));
                }
            }
        }
        broken
    }

    /// Whether a text between backticks is a path of the checkout: a Rust file, or a path that begins with
    /// one of its folders.
    fn is_path(&self, text: &str) -> bool {
        let is_of_path =
            |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-' | '.' | '/');
        let plain = !text.is_empty() && text.chars().all(is_of_path) && !text.starts_with('/');
        let path = Path::new(text);
        let is_rust = has_extension(path, "rs") && text.len() > ".rs".len();
        let first = path.components().next();
        let is_below = first.is_some_and(|it| self.paths.contains(Path::new(&it)))
            && text.contains('/')
            && text.split('/').nth(1).is_some_and(|it| !it.is_empty());
        plain && (is_rust || is_below)
    }

    fn leads(&self, from: &Path, path: &Path) -> bool {
        // Built files are in no checkout.
        let is_built = |it: Component<'_>| it.as_os_str() == "dist" || it.as_os_str() == "built";
        let top = from
            .components()
            .next()
            .filter(|_| from.parent() != Some(Path::new("")));
        let of = |it: &&PathBuf| top.is_none_or(|top| it.starts_with(Path::new(&top)));
        path.components().any(is_built)
            || self.paths.contains(path)
            || self.paths.iter().filter(of).any(|it| it.ends_with(path))
    }

    /// The modules of a folder of core that its page does not name.
    fn unnamed(&self, name: &Path, text: &str) -> Vec<String> {
        if name.parent() != Some(Path::new("core/src")) || name.ends_with("lib.rs") {
            return Vec::new();
        }
        let page: Vec<&str> = text.lines().filter(|it| it.starts_with("//!")).collect();
        let page = page.join("\n");
        let is_named = |module: &str| {
            [
                format!("`{module}`"),
                format!("`{module}.rs`"),
                format!("/{module}.rs`"),
            ]
            .iter()
            .any(|it| page.contains(it))
        };
        let mut broken = Vec::new();
        for line in text.lines() {
            let declared = line.trim_start_matches("pub ");
            let declared = declared.trim_start_matches("pub(crate) ");
            let module = declared
                .strip_prefix("mod ")
                .and_then(|it| it.strip_suffix(';'));
            if let Some(module) = module.filter(|it| !it.ends_with("tests") && !is_named(it)) {
                broken.push(format!(
                    "{}: the page of the folder does not name `{module}`",
                    name.display()
                ));
            }
        }
        broken
    }
}

fn has_extension(name: &Path, extension: &str) -> bool {
    name.extension().is_some_and(|it| it == extension)
}

/// The file that a relative path in a document names. `None` if it is outside the checkout.
fn beside(name: &Path, path: &str) -> Option<PathBuf> {
    let mut found = name.parent()?.to_path_buf();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => found.pop().then_some(())?,
            Component::Normal(part) => found.push(part),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(found)
}

/// The lines of a document outside blocks of code, with their numbers.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        is_code ^= fence;
        if !is_code && !fence {
            lines.push((at + 1, line.to_owned()));
        }
    }
    lines
}

/// The lines of comments in a file of code, with their numbers.
fn comments(text: &str) -> Vec<(usize, String)> {
    let lines = text.lines().enumerate();
    let comment = lines.filter(|it| it.1.trim_start().starts_with("//"));
    comment.map(|it| (it.0 + 1, it.1.to_owned())).collect()
}

/// Where the links of a line lead.
fn links(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (open, close) in [("](", ')'), ("href=\"", '"'), ("src=\"", '"')] {
        for (at, _) in line.match_indices(open) {
            // Code between backticks has no links.
            if line[..at].matches('`').count().is_multiple_of(2) {
                let rest = &line[at + open.len()..];
                found.extend(rest.split([close, ' ']).next());
            }
        }
    }
    let defined = line.strip_prefix('[').and_then(|it| it.split_once("]: "));
    found.extend(defined.map(|it| it.1.trim()));
    found
}

/// A line without its links, of which each says where it leads.
fn without_links(line: &str) -> String {
    let mut shown = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("](") {
        shown.push_str(before.rsplit_once('[').map_or(before, |it| it.0));
        rest = after.split_once(')').map_or("", |it| it.1);
    }
    shown + rest
}

/// The anchors of a document: those of its headings, as hosts of Git repositories make them, and its own.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, line) in prose(text) {
        let own = line.split("<a id=\"").skip(1);
        let own = own.filter_map(|it| it.split_once('"'));
        found.extend(own.map(|it| it.0.to_owned()));
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let mut shown = String::new();
        let mut rest = heading.trim();
        while let Some((before, after)) = rest.split_once("](") {
            shown.push_str(before);
            rest = after.split_once(')').map_or("", |it| it.1);
        }
        shown.push_str(rest);
        let is_kept = |it: &char| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_');
        let kept = shown
            .to_lowercase()
            .chars()
            .filter(is_kept)
            .collect::<String>();
        let anchor = kept.replace(' ', "-");
        let same = found.iter().filter(|it| **it == anchor).count();
        match same {
            0 => found.push(anchor),
            _ => found.push(format!("{anchor}-{same}")),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(files: &[(&str, &str)]) -> Pages {
        let mut pages = Pages::default();
        for (name, text) in files {
            pages.add(Path::new(name), Some((*text).to_owned()));
        }
        pages
    }

    fn broken_in(name: &str, text: &str) -> usize {
        let there = ("core/src/state/join.rs", "");
        let guide = ("docs/guide.md", "# The `one` way\n## Twice\n## Twice\n");
        pages(&[there, guide, (name, text)]).broken().len()
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        for dead in [
            "[it](gone.md)",
            "[it](guide.md#another)",
            "[it](#here)",
            "[it](../core/src/state/gone.rs)",
            "[it](../../outside.md)",
            "<img src=\"gone.png\">",
            "[it]: gone.md",
        ] {
            assert_eq!(broken_in("docs/one.md", dead), 1, "{dead}");
        }
        for good in [
            "[it](guide.md)",
            "[it](guide.md#the-one-way)",
            "[it](guide.md#twice-1)",
            "# Here\n[it](#here)",
            "<a id=\"here\"></a>[it](#here)",
            "[`gone.rs`](../core/src/state/join.rs)",
            "[it](../core/src/state/join.rs) and [state](../core/src/state)",
            "[it](https://example.org/gone.md)",
            "`[it](gone.md)`",
            "```\n[it](gone.md)\n```",
        ] {
            assert_eq!(broken_in("docs/one.md", good), 0, "{good}");
        }
    }

    #[test]
    fn a_path_of_no_file_is_found() {
        for dead in ["`gone.rs`", "`state/gone.rs`", "`core/src/gone/`"] {
            assert_eq!(broken_in("ARCHITECTURE.md", dead), 1, "{dead}");
            let comment = format!("fn one() {{}}\n    /// See {dead}.\n");
            assert_eq!(broken_in("core/src/one.rs", &comment), 1, "{dead}");
            assert_eq!(broken_in("CHANGELOG.md", dead), 0, "{dead}");
        }
        for good in [
            "`join.rs`",
            "`state/join.rs`",
            "`core/src/state/`",
            "`a/b`",
            "`.rs`",
        ] {
            assert_eq!(broken_in("ARCHITECTURE.md", good), 0, "{good}");
        }
        assert_eq!(broken_in("node/src/one.rs", "// `join.rs`\n"), 1);
        assert_eq!(
            broken_in("node/src/one.rs", "// `core/src/state/join.rs`\n"),
            0
        );
    }

    #[test]
    fn a_page_names_each_of_its_files() {
        let page = "//! | `join` | the join |\nmod join;\npub(crate) mod keys;\nmod tests;\n";
        assert_eq!(broken_in("core/src/state.rs", page), 1);
        assert_eq!(broken_in("core/src/state/slot.rs", page), 0);
    }
}
