//! Builds the page into the program: a table of the files of web-demo/dist, empty if it is not
//! there.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../..");
    let dist = root.join("web-demo").join("dist");
    println!("cargo::rerun-if-changed=build.rs");
    // A path that is missing would make cargo run this each time, so the nearest one that exists
    // is watched.
    let watched = dist.ancestors().take(2).find(|folder| folder.exists());
    if let Some(folder) = watched {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    let mut files = Vec::new();
    if dist.is_dir() {
        collect(&dist.canonicalize()?, &mut files)?;
    }
    files.sort();
    let mut table = String::from("static ASSETS: &[Asset] = &[\n");
    for file in &files {
        let path = file.strip_prefix(dist.canonicalize()?).unwrap_or(file);
        let path = format!("/{}", path.to_string_lossy().replace('\\', "/"));
        let mut hasher = DefaultHasher::new();
        fs::read(file)?.hash(&mut hasher);
        table.push_str(&format!(
            "    Asset {{ path: {path:?}, kind: {:?}, etag: \"\\\"{:016x}\\\"\", bytes: include_bytes!({:?}) }},\n",
            kind(file),
            hasher.finish(),
            file.display().to_string(),
        ));
    }
    table.push_str("];\n");
    fs::write(PathBuf::from(variable("OUT_DIR")).join("page.rs"), table)
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => collect(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

fn kind(file: &Path) -> &'static str {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json" | "map") => "application/json",
        Some("wasm") => "application/wasm",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("txt") => "text/plain; charset=utf-8",
        Some("webmanifest") => "application/manifest+json",
        _ => "application/octet-stream",
    }
}
