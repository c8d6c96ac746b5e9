//! Methods of a type are in its own folder of `core/src`. A layer above has views, traits or functions.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The methods outside the folder of their type.
pub(super) fn broken(files: &[(PathBuf, String)]) -> Vec<String> {
    let mut folders: HashMap<&str, Vec<String>> = HashMap::new();
    for (name, text) in files {
        for of in lines(text).filter_map(|(_, line)| defined(line)) {
            folders.entry(of).or_default().push(folder(name));
        }
    }
    let mut broken = Vec::new();
    for (name, text) in files {
        let here = folder(name);
        for (number, line) in lines(text) {
            let Some(of) = extended(line) else {
                continue;
            };
            let own = folders.get(of);
            if own.is_some_and(|own| own.contains(&here)) {
                continue;
            }
            let own = own.map_or("no folder".to_owned(), |own| own.join(", "));
            broken.push(format!(
                "{}:{number}: methods of `{of}` belong to its own folder, which is {own}: a layer above has \
                 views, traits or functions (xtask/src/tidy/methods.rs)",
                name.display()
            ));
        }
    }
    broken
}

/// The lines of a file that are compiled for shipping, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().take_while(|line| *line != "mod tests {");
    lines.enumerate().map(|(at, line)| (at + 1, line))
}

fn folder(name: &Path) -> String {
    let inside = name.strip_prefix("core/src").unwrap_or(name);
    let first = inside.components().next();
    let first = first.map(|it| it.as_os_str().to_string_lossy().into_owned());
    first.unwrap_or_default().trim_end_matches(".rs").to_owned()
}

/// The type that a line defines.
fn defined(line: &str) -> Option<&str> {
    let rest = match line.strip_prefix("pub") {
        Some(rest) => match rest.strip_prefix('(') {
            Some(rest) => rest.split_once(") ")?.1,
            None => rest.trim_start(),
        },
        None => line,
    };
    let kinds = ["struct ", "enum ", "union ", "trait "];
    Some(head(kinds.iter().find_map(|it| rest.strip_prefix(it))?))
}

/// The type to which an `impl` without a trait adds methods.
fn extended(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    if rest.contains(" for ") {
        return None;
    }
    let rest = match rest.strip_prefix('<') {
        Some(rest) => &rest[closing(rest)?..],
        None => rest,
    };
    let path = rest.strip_prefix(' ')?.split(['<', ' ']).next()?;
    Some(head(path.rsplit("::").next()?))
}

/// The place after the `>` that ends a list of parameters.
fn closing(text: &str) -> Option<usize> {
    let mut deep = 1;
    let mut before = ' ';
    for (at, it) in text.char_indices() {
        match it {
            '<' => deep += 1,
            '>' if before != '-' => deep -= 1,
            _ => {}
        }
        if deep == 0 {
            return Some(at + 1);
        }
        before = it;
    }
    None
}

/// The first name of a text.
fn head(text: &str) -> &str {
    let end = text.find(|it: char| !it.is_alphanumeric() && it != '_');
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> usize {
        let files = files.iter();
        let files: Vec<(PathBuf, String)> = files
            .map(|(name, text)| (Path::new("core/src").join(name), (*text).to_owned()))
            .collect();
        broken(&files).len()
    }

    #[test]
    fn methods_outside_the_folder_of_their_type_are_found() {
        let message = ("message.rs", "pub struct Message {\n");
        let view = ("state.rs", "pub(crate) struct State<I = NoIndex> {\n");
        assert_eq!(found(&[message, ("wire/adds.rs", "impl Message {\n")]), 1);
        assert_eq!(
            found(&[message, ("message/journal.rs", "impl Message {\n")]),
            0
        );
        assert_eq!(
            found(&[message, ("wire/adds.rs", "impl Encode for Message {\n")]),
            0
        );
        let generic = "impl<I: Fn(u8) -> u8> State<I> {\n";
        assert_eq!(found(&[view, ("quota.rs", generic)]), 1);
        assert_eq!(found(&[view, ("state/join.rs", generic)]), 0);
        assert_eq!(
            found(&[view, ("quota.rs", "impl crate::state::State {\n")]),
            1
        );
        let tests = "mod tests {\nimpl Message {\n";
        assert_eq!(found(&[message, ("wire/adds.rs", tests)]), 0);
    }
}
