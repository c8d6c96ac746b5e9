//! The sizes of the parts of the first download. The module is divided by parts of its sources, from the
//! names of its functions. The script is divided by its files.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use serde::Serialize;
use wasmparser::{KnownCustom, Name, Parser, Payload};

use super::entries::Load;
use super::{brotli_of, grouped, table};
use crate::repo::{self, Repo};
use crate::wasm;

/// Parts smaller than this are shown together.
const SHOWN_BYTES_MIN: usize = 300;

/// A part of the download.
#[derive(Debug, Serialize)]
pub(super) struct Part {
    name: String,
    raw: usize,
    /// Its share of the compressed size of its file, in proportion to the raw bytes.
    brotli: usize,
}

/// The parts of the entry with the limit.
pub(super) fn weigh(repo: &Repo, entry: &Load) -> Result<Vec<Part>> {
    let dist = repo.path("wasm/dist");
    let mut parts = Vec::new();
    for file in &entry.files {
        let bytes = fs::read(dist.join(file))?;
        let sizes = match file.ends_with(".wasm") {
            true => by_names(&fs::read(wasm::named(repo)?)?)?,
            false => by_sources(repo, file)?,
        };
        parts.extend(shares(file, sizes, bytes.len(), brotli_of(&bytes)?));
    }
    Ok(parts)
}

pub(super) fn table_of(parts: &[Part]) -> String {
    let mut rows = vec![["what costs how much", "raw", "brotli, by share"].map(str::to_owned)];
    rows.extend(
        parts
            .iter()
            .map(|part| [part.name.clone(), grouped(part.raw), grouped(part.brotli)]),
    );
    table(&rows, 1)
}

/// Parts of a file, the greatest first, with the small ones as one part. Bytes outside of all parts are the
/// rest.
fn shares(file: &str, sizes: BTreeMap<String, usize>, raw: usize, brotli: usize) -> Vec<Part> {
    let (mut shown, small): (Vec<_>, Vec<_>) = sizes
        .into_iter()
        .partition(|(_, size)| *size >= SHOWN_BYTES_MIN);
    shown.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    let told: usize = shown.iter().map(|(_, size)| size).sum();
    let rest = match small.is_empty() {
        true => "the rest".to_owned(),
        false => format!("the rest, with {} small parts", small.len()),
    };
    shown.push((rest, raw.saturating_sub(told)));
    shown
        .into_iter()
        .map(|(name, size)| Part {
            name: format!("{file}: {name}"),
            raw: size,
            brotli: size * brotli / raw.max(1),
        })
        .collect()
}

/// The bytes of each source in a script, from the notes of wasm/build.mjs.
fn by_sources(repo: &Repo, file: &str) -> Result<BTreeMap<String, usize>> {
    let noted = repo::read(&repo.path("wasm/dist/parts.json"))?;
    let mut all: BTreeMap<String, BTreeMap<String, usize>> =
        serde_json::from_str(&noted).context("wasm/dist/parts.json")?;
    let sources = all
        .remove(file)
        .with_context(|| format!("wasm/dist/parts.json has no {file}"))?;
    let named = sources
        .into_iter()
        .map(|(name, size)| (name.trim_start_matches("js/").to_owned(), size));
    Ok(named.collect())
}

/// The bytes of a module's functions by the part in their names, and the bytes of its data.
fn by_names(module: &[u8]) -> Result<BTreeMap<String, usize>> {
    let mut imported = 0;
    let mut bodies = Vec::new();
    let mut names = BTreeMap::new();
    let mut sizes = BTreeMap::new();
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::ImportSection(imports) => imported = imports.count(),
            Payload::CodeSectionEntry(body) => bodies.push(body.range().len()),
            Payload::DataSection(data) => {
                sizes.insert("data (tables and texts)".to_owned(), data.range().len());
            }
            Payload::CustomSection(section) => {
                if let KnownCustom::Name(known) = section.as_known() {
                    for subsection in known {
                        if let Name::Function(functions) = subsection? {
                            for function in functions {
                                let function = function?;
                                names.insert(function.index, function.name.to_owned());
                            }
                        }
                    }
                }
            }
            _ => {}
        }
    }
    for (index, size) in (imported..).zip(bodies) {
        let name = names.get(&index).map_or("", String::as_str);
        *sizes.entry(part_of(name)).or_default() += size;
    }
    Ok(sizes)
}

/// The part of the sources to which a function belongs: a module of the core, or the crate otherwise. Code
/// that a library generates for a type belongs to the type's part.
fn part_of(function: &str) -> String {
    let function = &without_digests(function);
    if let Some((_, path)) = function.split_once("tallymesh_core::") {
        let module = path.split("::").next().unwrap_or(path);
        let word = module.chars().all(|c| c.is_lowercase() || c == '_');
        return match word && path.contains("::") {
            true => format!("core/src/{module}"),
            false => "core/src/lib".to_owned(),
        };
    }
    if function.contains("tallymesh_wasm") || function.starts_with("engine_") {
        return "wasm/src".to_owned();
    }
    let of = |name: &str| function.contains(&format!("{name}::"));
    match of("alloc") || of("core") {
        true => "Rust's library".to_owned(),
        false => "other".to_owned(),
    }
}

/// The name without the digests that distinguish crates of one name: `[0123456789abcdef]` after each.
fn without_digests(function: &str) -> String {
    let mut name = String::new();
    for (at, piece) in function.split('[').enumerate() {
        match piece.split_once(']') {
            Some((digest, rest)) if at > 0 && digest.chars().all(|c| c.is_ascii_hexdigit()) => {
                name.push_str(rest);
            }
            _ if at > 0 => name = name + "[" + piece,
            _ => name.push_str(piece),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_belong_to_modules() {
        for (function, part) in [
            (
                "<tallymesh_core[c0796793a49cd3fe]::sync::Sync>::pass_on",
                "core/src/sync",
            ),
            (
                "<alloc[6ccc]::raw_vec::RawVec<tallymesh_core[c079]::keys::Handle>>::grow_one",
                "core/src/keys",
            ),
            ("core[1]::slice::sort::<[u8]>", "Rust's library"),
            ("tallymesh_core::Message::decode", "core/src/lib"),
            ("<tallymesh_wasm[b66e]::engine::Engine>::merge", "wasm/src"),
            ("engine_add_small", "wasm/src"),
            ("__wbindgen_free", "other"),
        ] {
            assert_eq!(part_of(function), part, "{function}");
        }
    }

    #[test]
    fn shares_come_to_the_whole() {
        let sizes = [("large", 600), ("small", 10), ("larger", 2_000)];
        let sizes = sizes.map(|(name, size)| (name.to_owned(), size)).into();
        let parts = shares("a.js", sizes, 3_000, 1_000);
        let shown: Vec<_> = parts.iter().map(|it| (&it.name[..], it.raw)).collect();
        let rest = "a.js: the rest, with 1 small parts";
        assert_eq!(
            shown,
            [("a.js: larger", 2_000), ("a.js: large", 600), (rest, 400)]
        );
        assert_eq!(parts.iter().map(|part| part.raw).sum::<usize>(), 3_000);
    }
}
