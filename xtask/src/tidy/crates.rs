//! The crates whose modules have an order: core and those of the node. Their files are read together, because a
//! name may come from another file of the crate.

use std::collections::BTreeMap;
use std::path::Path;

use super::paths::{self, Paths};
use super::{arrows, circles, floors};

/// The crates by their folders, and what is wrong with single files.
#[derive(Debug, Default)]
pub(super) struct Crates {
    paths: BTreeMap<String, Paths>,
    broken: Vec<String>,
}

/// The folder of the crate that a file belongs to.
fn crate_of(name: &Path) -> Option<String> {
    let parts: Vec<&str> = name.iter().filter_map(|part| part.to_str()).collect();
    match parts[..] {
        ["core", "src", ..] => Some("core".to_owned()),
        ["node", "src", ..] => Some("node".to_owned()),
        ["node", folder, "src", ..] => Some(format!("node/{folder}")),
        _ => None,
    }
}

impl Crates {
    /// Adds a file, if its crate is one of these.
    pub(super) fn add(&mut self, name: &Path, text: &str) {
        let Some(folder) = crate_of(name) else { return };
        let Some(module) = paths::module_of(&format!("{folder}/src"), name) else {
            return;
        };
        let file = name.display().to_string();
        let part = folder.strip_prefix("node/").unwrap_or(&folder);
        match module.first() {
            None if folder == "core" || floors::has_floors(part) => {
                self.broken.extend(code_of_root(&file, text));
            }
            Some(first) if folder == "core" => {
                self.broken.extend(arrows::without_row(&file, first))
            }
            Some(first) => self.broken.extend(floors::without_row(&file, part, first)),
            None => {}
        }
        let paths = self.paths.entry(folder).or_default();
        self.broken.extend(paths.add(name, text, &module).err());
    }

    /// All that is wrong with the crates.
    pub(super) fn broken(self) -> Vec<String> {
        let mut broken = self.broken;
        for (folder, paths) in &self.paths {
            match folder.strip_prefix("node/") {
                Some(part) => broken.extend(floors::broken(part, paths)),
                None if folder == "core" => broken.extend(arrows::broken(paths)),
                None => {}
            }
            if folder != "core" {
                broken.extend(circles::broken(paths));
            }
        }
        broken
    }
}

/// The finding for the root of a crate with floors if it has code of its own. It may name all modules, so with
/// code it would be a floor below and above all others.
fn code_of_root(file: &str, text: &str) -> Option<String> {
    let parsed: syn::File = syn::parse_str(text).ok()?;
    let is_list = |item: &syn::Item| match item {
        syn::Item::Mod(it) => it.content.is_none() || it.attrs.iter().any(is_for_tests),
        syn::Item::Use(_) | syn::Item::ExternCrate(_) => true,
        _ => false,
    };
    let code = parsed.items.iter().find(|it| !is_list(it))?;
    let line = syn::spanned::Spanned::span(code).start().line;
    Some(format!(
        "{file}:{line}: the root of a crate with floors lists its modules and names, and has no code \
         (xtask/src/tidy/crates.rs)"
    ))
}

fn is_for_tests(attribute: &syn::Attribute) -> bool {
    let test = |it: &syn::MetaList| it.tokens.to_string() == "test";
    attribute.path().is_ident("cfg") && attribute.meta.require_list().is_ok_and(test)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::is_test;
    use super::*;

    /// What is wrong with a file alone.
    pub(in super::super) fn all(name: &str, text: &str) -> Vec<String> {
        let mut crates = Crates::default();
        if !is_test(Path::new(name)) {
            crates.add(Path::new(name), text);
        }
        crates.broken()
    }

    pub(in super::super) fn found(name: &str, text: &str) -> usize {
        all(name, text).len()
    }

    #[test]
    fn a_root_with_code_is_found() {
        let list = "//! One.\nextern crate alloc;\nmod one;\npub use one::One;\n#[cfg(test)]\nmod tests {}\n";
        let code = "fn f() {\n    one::f()\n}\n";
        for name in ["core/src/lib.rs", "node/engine/src/lib.rs"] {
            assert_eq!(found(name, list), 0, "{name}");
            assert_eq!(found(name, &format!("{list}{code}")), 1, "{name}");
            assert_eq!(found(name, "mod one {}"), 1, "{name}");
        }
        assert_eq!(found("node/http/src/lib.rs", code), 0);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_found() {
        assert_eq!(found("node/http/src/one.rs", "fn f() {"), 1);
    }
}
