//! The paths in the Rust files of a crate, by their tokens: the name with which each begins at the root of the
//! crate. Tokens have no comments and no texts, and those of macros are read like all others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// How often a name may stand for another one.
const ALIASES_MAX: usize = 8;

/// The name of an import of everything.
const GLOB: &str = "*";

/// A path that begins in the crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) file: PathBuf,
    pub(super) line: usize,
    /// The module of the root that names it; `None` is the root itself.
    pub(super) from: Option<String>,
    /// The path from the root, with one name at least.
    pub(super) path: Vec<String>,
}

/// The paths and the imports of a crate.
#[derive(Debug, Default)]
pub(super) struct Paths {
    written: Vec<Written>,
    /// The paths for which imported names stand, by the module that imports them.
    imports: BTreeMap<Place, Vec<String>>,
}

/// A module, and a name in it.
type Place = (Vec<String>, String);

/// A path as it is written.
#[derive(Debug)]
struct Written {
    file: PathBuf,
    line: usize,
    module: Vec<String>,
    path: Vec<String>,
}

/// The place at which the reader is.
#[derive(Clone, Copy)]
struct At<'a> {
    file: &'a Path,
    module: &'a [String],
}

/// The module of a file below the sources of a crate: with `::` between its names, nothing for the root.
pub(super) fn module_of(sources: &str, name: &Path) -> Option<Vec<String>> {
    let inside = name.strip_prefix(sources).ok()?;
    let inside = inside.to_str()?.strip_suffix(".rs")?;
    let mut module: Vec<String> = inside.split('/').map(str::to_owned).collect();
    if ["lib", "main"].contains(&inside) || inside.ends_with("/mod") {
        module.pop();
    }
    Some(module)
}

impl Paths {
    /// Adds a file. Items that are compiled for tests alone are left out.
    ///
    /// # Errors
    /// If the text is no Rust.
    pub(super) fn add(&mut self, file: &Path, text: &str, module: &[String]) -> Result<(), String> {
        let tokens: TokenStream = text
            .parse()
            .map_err(|error| format!("{}: this is no Rust: {error}", file.display()))?;
        self.read(tokens, At { file, module });
        Ok(())
    }

    /// All paths that begin in the crate. A name that the root imports is the root's.
    pub(super) fn named(&self) -> impl Iterator<Item = Named> {
        let named = self.written.iter().map(|it| Named {
            file: it.file.clone(),
            line: it.line,
            from: it.module.first().cloned(),
            path: self.below_root(&it.module, &it.path).unwrap_or_default(),
        });
        named.filter(|it| !it.path.is_empty())
    }

    /// The module of the root in which a path ends that begins there: names that the root imports are followed.
    pub(super) fn reached(&self, path: &[String]) -> Option<String> {
        self.below_root(&[], path)?.into_iter().next()
    }

    /// A path as it is from the root, if it begins in this crate.
    fn below_root(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let (mut module, mut path) = (module.to_vec(), path.to_vec());
        for _ in 0..ALIASES_MAX {
            let first = path.first()?;
            match first.as_str() {
                "crate" => return Some(path.split_off(1)),
                "super" | "self" => return Some(walked(module, &path)),
                _ => {}
            }
            let Some((place, stands_for)) = self.imported(&module, first) else {
                // A name of the root that is not imported is a module or an item.
                return module.is_empty().then_some(path);
            };
            // `use one::one;` and `use one::{self};` are of another crate.
            if place == module && stands_for.first() == Some(first) {
                return None;
            }
            path = [stands_for, &path[1..]].concat();
            module = place;
        }
        None
    }

    /// The import of a name in a module, or in one around it, whose names a glob may import.
    fn imported(&self, module: &[String], name: &str) -> Option<(Vec<String>, &[String])> {
        let around = (0..=module.len()).rev().map(|length| &module[..length]);
        let mut around = around.filter(|it| !it.is_empty() || module.is_empty());
        around.find_map(|it| {
            let path = self.imports.get(&(it.to_vec(), name.to_owned()))?;
            Some((it.to_vec(), path.as_slice()))
        })
    }

    fn read(&mut self, tokens: TokenStream, at: At<'_>) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut next = 0;
        while next < tokens.len() {
            next = self.read_one(&tokens, next, at);
        }
    }

    /// Reads the path, the import or the module that begins at a token, and returns the place after it.
    fn read_one(&mut self, tokens: &[TokenTree], start: usize, at: At<'_>) -> usize {
        let rest = &tokens[start..];
        if is_for_tests(rest) {
            return start + 2 + length_of_item(&rest[2..]);
        }
        match rest {
            [TokenTree::Group(group), ..] => self.read(group.stream(), at),
            [
                TokenTree::Ident(word),
                TokenTree::Ident(name),
                TokenTree::Group(body),
                ..,
            ] if word == "mod" => {
                let module = [at.module, &[name.to_string()]].concat();
                let module = &module[..];
                self.read(body.stream(), At { module, ..at });
                return start + 3;
            }
            [TokenTree::Ident(word), ..] if word == "use" => {
                let tree = rest.iter().take_while(|it| !is_mark(it, ';'));
                let length = tree.count();
                self.import(&rest[1..length], &[], at);
                return start + length;
            }
            [TokenTree::Ident(word), TokenTree::Ident(of), ..]
                if word == "extern" && of == "crate" =>
            {
                let length = rest.iter().take_while(|it| !is_mark(it, ';')).count();
                if let [_, _, own, _, name] = &rest[..length]
                    && own.to_string() == "self"
                {
                    let place = (at.module.to_vec(), name.to_string());
                    self.imports.insert(place, vec!["crate".to_owned()]);
                }
                return start + length;
            }
            [TokenTree::Ident(word), ..] => {
                let (path, length) = path_of(rest);
                if path.len() > 1 && !is_after_path(&tokens[..start]) {
                    self.written.push(Written {
                        file: at.file.to_path_buf(),
                        line: word.span().start().line,
                        module: at.module.to_vec(),
                        path,
                    });
                }
                return start + length;
            }
            _ => {}
        }
        start + 1
    }

    /// Reads the tree of an import. All its paths begin with `before`.
    fn import(&mut self, tree: &[TokenTree], before: &[String], at: At<'_>) {
        // A path from outside of the crate.
        if before.is_empty() && tree.first().is_some_and(|it| is_mark(it, ':')) {
            return;
        }
        let (path, length) = path_of(tree);
        let mut path = [before, &path].concat();
        let new = match &tree[length..] {
            [TokenTree::Group(group), ..] => {
                let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
                let trees = tokens.split(|it| is_mark(it, ','));
                trees.for_each(|tree| self.import(tree, &path, at));
                return;
            }
            [TokenTree::Ident(word), new, ..] if word == "as" => Some(new.to_string()),
            [mark, ..] if is_mark(mark, '*') => {
                path.push(GLOB.to_owned());
                None
            }
            _ => None,
        };
        let Some(first) = tree.first() else { return };
        // `{self}` is the path before the group.
        if path.len() > 1 && path.last().is_some_and(|it| it == "self") {
            path.pop();
        }
        if let Some(name) = new.or_else(|| path.last().cloned()) {
            let place = (at.module.to_vec(), name);
            self.imports.insert(place, path.clone());
        }
        self.written.push(Written {
            file: at.file.to_path_buf(),
            line: first.span().start().line,
            module: at.module.to_vec(),
            path,
        });
    }
}

/// A path that begins in a module, with its `super` and `self` gone.
fn walked(mut module: Vec<String>, path: &[String]) -> Vec<String> {
    for name in path {
        match name.as_str() {
            "self" => {}
            "super" => _ = module.pop(),
            _ => module.push(name.clone()),
        }
    }
    module
}

/// The names of the path at the beginning, and the number of its tokens. A `::` before a group belongs to it.
fn path_of(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let (mut path, mut length) = (Vec::new(), 0);
    while let Some(TokenTree::Ident(name)) = tokens.get(length) {
        path.push(name.to_string());
        length += 1;
        match tokens.get(length..length + 2) {
            Some([one, two]) if is_mark(one, ':') && is_mark(two, ':') => length += 2,
            _ => break,
        }
    }
    (path, length)
}

/// Whether a path goes on here, as after `Vec::<u8>::`.
fn is_after_path(before: &[TokenTree]) -> bool {
    let [.., TokenTree::Punct(one), TokenTree::Punct(two)] = before else {
        return false;
    };
    let is_joined = one.spacing() == Spacing::Joint;
    is_joined && one.as_char() == ':' && two.as_char() == ':'
}

fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(it) if it.as_char() == mark)
}

/// Whether an item begins here that is compiled for tests alone.
fn is_for_tests(tokens: &[TokenTree]) -> bool {
    let [mark, TokenTree::Group(attribute), ..] = tokens else {
        return false;
    };
    let text = attribute.stream().to_string();
    let text: String = text.split_whitespace().collect();
    is_mark(mark, '#') && (text == "cfg(test)" || text.starts_with("cfg(all(test,"))
}

/// The number of tokens of an item, a field, an arm or a statement.
fn length_of_item(tokens: &[TokenTree]) -> usize {
    let is_import = |it: &TokenTree| matches!(it, TokenTree::Ident(word) if word == "use");
    let is_head = |it: &&TokenTree| match it {
        TokenTree::Ident(word) => word == "pub",
        TokenTree::Group(group) => group.delimiter() != Delimiter::Brace,
        other => is_mark(other, '#'),
    };
    let is_import = tokens.iter().find(|it| !is_head(it)).is_some_and(is_import);
    let mut deep = 0;
    for (at, token) in tokens.iter().enumerate() {
        let is_body = matches!(token, TokenTree::Group(it) if it.delimiter() == Delimiter::Brace);
        let is_arrow = at > 0 && (is_mark(&tokens[at - 1], '-') || is_mark(&tokens[at - 1], '='));
        match token {
            _ if is_mark(token, ';') => return at + 1,
            _ if is_import => {}
            _ if is_body || deep == 0 && is_mark(token, ',') => return at + 1,
            _ if is_mark(token, '<') => deep += 1,
            _ if is_mark(token, '>') && !is_arrow => deep -= 1,
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths in a file of the module `one::two`, each with its line.
    fn named(text: &str) -> Vec<String> {
        let mut paths = Paths::default();
        let module = module_of("src", Path::new("src/one/two.rs")).unwrap();
        paths.add(Path::new("two.rs"), text, &module).unwrap();
        let named = paths.named();
        named
            .map(|it| format!("{} {}", it.line, it.path.join("::")))
            .collect()
    }

    #[test]
    fn a_file_is_a_module() {
        let module = |name: &str| module_of("src", Path::new(name)).map(|it| it.join("::"));
        for (name, expected) in [
            ("src/lib.rs", Some("")),
            ("src/main.rs", Some("")),
            ("src/one.rs", Some("one")),
            ("src/one/two.rs", Some("one::two")),
            ("src/one/mod.rs", Some("one")),
            ("src/one/lib.rs", Some("one::lib")),
            ("src/one.txt", None),
            ("tests/one.rs", None),
        ] {
            assert_eq!(module(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn paths_are_found_in_imports_in_code_and_in_macros() {
        assert_eq!(named("use crate::driver::X;"), ["1 driver::X"]);
        assert_eq!(
            named("fn f(it: crate::a::B) {\n    0..crate::c::D;\n}"),
            ["1 a::B", "2 c::D"]
        );
        assert_eq!(named("print!(\"{}\", crate::driver::X);"), ["1 driver::X"]);
        assert_eq!(named("super::super::driver::f()"), ["1 driver::f"]);
        assert_eq!(named("use super::x;"), ["1 one::x"]);
        assert_eq!(
            named("use crate::{\n    a::{B, C},\n    d,\n};"),
            ["2 a::B", "2 a::C", "3 d"]
        );
        assert_eq!(named("use crate::*;"), ["1 *"]);
        assert_eq!(named("use crate::a::{self};"), ["1 a"]);
        assert_eq!(named("a.b::<crate::c::D>().e::<u8>()"), ["1 c::D"]);
    }

    #[test]
    fn a_path_by_another_name_is_found() {
        let own = "use crate as own;\nuse own::driver::X;";
        assert_eq!(named(own), ["2 driver::X"]);
        assert_eq!(
            named("own::driver::f();\nuse crate::{self as own};"),
            ["1 driver::f"]
        );
        assert_eq!(
            named("extern crate self as own;\nuse own::driver::X;"),
            ["2 driver::X"]
        );
        assert_eq!(named("use super::{super::driver::X};"), ["1 driver::X"]);
        assert_eq!(
            named("use super::super as up;\nup::driver::f();"),
            ["2 driver::f"]
        );
        let inner = "use crate as own;\nmod inner {\n    use super::*;\n    own::driver::f();\n}";
        assert_eq!(named(inner), ["3 one::two::*", "4 driver::f"]);
        assert_eq!(
            named("use libp2p::{self, Swarm};\nlibp2p::f();\nuse it::it;\nit::f();"),
            [""; 0]
        );
    }

    #[test]
    fn texts_and_comments_are_no_code() {
        let text = "\"http://x\"; use crate::driver::X; // crate::a::B\n/* crate::c::D */ r\"crate::e::F\"";
        assert_eq!(named(text), ["1 driver::X"]);
    }

    #[test]
    fn what_is_for_tests_alone_is_left_out() {
        for item in [
            "mod tests {\n use crate::a::B;\n}",
            "use crate::a::{B, C};",
            "pub(crate) fn f<A, B>(it: A) -> B {\n crate::a::b()\n}",
            "#[expect(unused)]\nconst A: B = crate::a::C;",
            "a: crate::a::B,",
            "crate::a::b(c);",
        ] {
            for attribute in ["#[cfg(test)]", "#[cfg(all(test, unix))]"] {
                let text = format!("{attribute}\n{item} crate::d::e();");
                let found: Vec<String> = named(&text);
                assert_eq!(found.len(), 1, "{item}: {found:?}");
                assert!(found[0].ends_with(" d::e"), "{item}: {found:?}");
            }
        }
        assert_eq!(named("#[cfg(unix)]\nuse crate::a::B;"), ["2 a::B"]);
    }

    #[test]
    fn names_that_the_root_imports_are_followed() {
        let mut paths = Paths::default();
        let mut add = |text: &str, module: &[&str]| {
            let module: Vec<String> = module.iter().map(|&it| it.to_owned()).collect();
            paths.add(Path::new("x.rs"), text, &module).unwrap();
        };
        add(
            "mod one;\nuse one::two::Thing as Named;\nuse std::fmt;",
            &[],
        );
        add("use super::Named;", &["two"]);
        let named: Vec<Named> = paths.named().filter(|it| it.from.is_some()).collect();
        assert_eq!(named[0].path, ["Named"]);
        assert_eq!(paths.reached(&named[0].path).as_deref(), Some("one"));
        assert_eq!(
            paths.reached(&["Other".to_owned()]).as_deref(),
            Some("Other")
        );
    }

    #[test]
    fn what_is_no_rust_is_an_error() {
        let mut paths = Paths::default();
        assert!(paths.add(Path::new("x.rs"), "fn f() {", &[]).is_err());
    }
}
