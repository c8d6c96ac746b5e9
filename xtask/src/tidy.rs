//! Rules of this project that no compiler checks, each with its reason.

mod arrows;
mod circles;
mod crates;
mod floors;
mod imports;
mod links;
mod methods;
mod packages;
mod paths;
mod scripts;
mod state;
mod words;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::repo::{self, Repo};
use crate::stamp::files_under;

/// A longer file is hard to read as a whole, and should be two.
const LINES_MAX: usize = 700;
const SKIPPED_FOLDERS: [&str; 5] = ["target", "node_modules", "dist", "built", ".git"];
const CODE: [&str; 7] = ["rs", "ts", "js", "mjs", "css", "html", "toml"];

/// All violations of the rules in the checkout, as `file:line: rule and reason`.
pub(crate) fn broken_rules(repo: &Repo) -> Result<Vec<String>> {
    let root = repo.path("");
    let mut broken = Vec::new();
    let mut core = Vec::new();
    let mut crates = crates::Crates::default();
    let mut pages = links::Pages::default();
    let mut state_lines = 0;
    for file in files_under(&root, &SKIPPED_FOLDERS)? {
        let name = file.strip_prefix(&root).unwrap_or(&file).to_path_buf();
        let is_code = name
            .extension()
            .is_some_and(|extension| CODE.iter().any(|code| extension == *code));
        let is_judged = links::Pages::judges(&name);
        if !is_code && !is_judged {
            pages.add(&name, None);
            continue;
        }
        let text = repo::read(&file)?;
        if is_code {
            broken.extend(in_file(&name, &text));
            if !is_test(&name) {
                crates.add(&name, &text);
            }
            state_lines += state::lines(&name, &text);
            if words::has_names(&name) {
                broken.extend(words::misnamed(&name, &text));
            }
            if words::covers(&name) {
                core.push((name.clone(), text.clone()));
            }
        }
        if words::is_document(&name) {
            broken.extend(words::in_document(&name, &text));
        }
        pages.add(&name, is_judged.then_some(text));
    }
    broken.extend(pages.broken());
    broken.extend(crates.broken());
    broken.extend(packages::broken(repo)?);
    broken.extend(state::broken(state_lines));
    broken.extend(methods::broken(&core));
    broken.extend(words::broken(&core));
    broken.extend(versions(repo)?);
    Ok(broken)
}

/// Whether a file is compiled for tests alone.
fn is_test(name: &Path) -> bool {
    let mut parts = name.components();
    parts.any(|part| {
        let part = part.as_os_str().to_string_lossy();
        let part = part.trim_end_matches(".rs");
        part == "tests" || part.ends_with("_tests")
    })
}

fn in_file(name: &Path, text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    if !is_test(name) {
        broken.extend(imports::broken(name, text));
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        broken.push(format!(
            "{}: {lines} lines, at most {LINES_MAX}: one concept a file",
            name.display()
        ));
    }
    let is_rust = name.extension().is_some_and(|e| e == "rs");
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        for rule in rules_for(name) {
            if (rule.breaks)(line) {
                broken.push(format!("{}:{}: {}", name.display(), number + 1, rule.text));
            }
        }
        if is_rust && line.trim() == "#[cfg(test)]" {
            skip_item(&mut lines, line);
        }
    }
    broken
}

/// Skips an item after its attribute: it is compiled for a std host and never shipped.
fn skip_item<'a>(lines: &mut impl Iterator<Item = (usize, &'a str)>, attribute: &str) {
    let indent = &attribute[..attribute.len() - attribute.trim_start().len()];
    for (_, line) in lines {
        let rest = line.strip_prefix(indent).unwrap_or_default();
        if !rest.starts_with([' ', '#']) && rest.ends_with([';', ',', '}']) {
            return;
        }
    }
}

struct Rule {
    text: &'static str,
    breaks: fn(&str) -> bool,
}

fn rules_for(name: &Path) -> Vec<&'static Rule> {
    let mut rules = Vec::new();
    if name != Path::new("xtask/src/tidy.rs") {
        rules.push(&UNFINISHED);
    }
    let is_test = is_test(name);
    if name.starts_with("core/src") && !is_test {
        rules.extend([&NO_STD, &NO_CLOCK]);
    }
    if name.starts_with("tests/src") {
        rules.push(&NO_CLOCK);
    }
    rules
}

static UNFINISHED: Rule = Rule {
    text: "unfinished work belongs in the issue list, where it is seen",
    breaks: |line| {
        [
            "TODO:",
            "TODO(",
            "// TODO",
            "FIXME",
            "XXX:",
            "todo!(",
            "unimplemented!(",
        ]
        .iter()
        .any(|word| line.contains(word))
    },
};

static NO_STD: Rule = Rule {
    text: "core runs without std: use core:: and alloc::",
    breaks: |line| {
        let code = line.trim_start();
        !code.starts_with("//") && (code.contains("std::") || code.contains("extern crate std"))
    },
};

static NO_CLOCK: Rule = Rule {
    text: "time and randomness are arguments, so that every run can be repeated from its seed",
    breaks: |line| {
        let code = line.trim_start();
        !code.starts_with("//")
            && [
                "Instant::now",
                "SystemTime",
                "thread_rng",
                "rand::rng(",
                "RandomState",
            ]
            .iter()
            .any(|word| code.contains(word))
    },
};

/// Compares facts that several files must state with the one that counts.
fn versions(repo: &Repo) -> Result<Vec<String>> {
    let version = repo.version()?;
    let mut broken = Vec::new();
    for file in ["wasm/package.json", "wasm/package-lock.json"] {
        let path = repo.path(file);
        if path.exists() {
            let json: serde_json::Value =
                serde_json::from_str(&repo::read(&path)?).with_context(|| file.to_owned())?;
            if json["version"] != version.as_str() {
                broken.push(format!(
                    "{file}: version {}, but the workspace is at {version}",
                    json["version"]
                ));
            }
        }
    }
    let manifest: toml::Table = repo::read(&repo.path("Cargo.toml"))?.parse()?;
    let rust = manifest["workspace"]["package"]["rust-version"]
        .as_str()
        .context("Cargo.toml states no rust-version")?
        .to_owned();
    for file in ["README.md", "CONTRIBUTING.md"] {
        let path: PathBuf = repo.path(file);
        if path.exists() {
            let stated = stated_rust(&repo::read(&path)?);
            broken.extend(
                stated
                    .into_iter()
                    .filter(|found| *found != rust)
                    .map(|found| {
                        format!(
                            "{file}: says Rust {found}, but Cargo.toml's rust-version is {rust}"
                        )
                    }),
            );
        }
    }
    Ok(broken)
}

/// The versions in `Rust 1.N`, wherever a text has this form.
fn stated_rust(text: &str) -> Vec<String> {
    text.match_indices("Rust 1.")
        .map(|(at, _)| {
            text[at + "Rust ".len()..]
                .chars()
                .take_while(|c| c.is_ascii_digit() || *c == '.')
                .collect::<String>()
                .trim_end_matches('.')
                .to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checkout_keeps_the_rules() {
        let broken = broken_rules(&Repo::find().unwrap()).unwrap();
        assert!(broken.is_empty(), "{}", broken.join("\n"));
    }

    #[test]
    fn each_rule_finds_its_breach() {
        let core = Path::new("core/src/state/shard.rs");
        assert_eq!(in_file(core, "use std::vec::Vec;\n").len(), 1);
        assert_eq!(
            in_file(core, "// std::vec\nuse alloc::vec::Vec;\n").len(),
            0
        );
        assert_eq!(in_file(core, "#[cfg(test)]\nuse std::vec::Vec;\n").len(), 0);
        let one = "#[cfg(test)]\nfn one() {\n    std::mem::drop(1);\n}\nuse std::vec::Vec;\n";
        assert_eq!(in_file(core, one).len(), 1);
        assert_eq!(in_file(core, "let t = Instant::now();\n").len(), 1);
        assert_eq!(
            in_file(Path::new("node/src/http.rs"), "// FIXME\n").len(),
            1
        );
        let long = "\n".repeat(LINES_MAX + 1);
        assert_eq!(in_file(Path::new("wasm/js/entries/api.ts"), &long).len(), 1);
        assert_eq!(
            stated_rust("Rust 1.88 or later; Rust 1.9."),
            ["1.88", "1.9"]
        );
    }
}
