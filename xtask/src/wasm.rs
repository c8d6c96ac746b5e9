//! The WebAssembly module: cargo, bindings, size optimisation; and the runner of its tests.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

use crate::repo::Repo;
use crate::run::{say, shown, step};
use crate::setup;
use crate::stamp::{self, Stamp};

/// The cargo profile for what browsers download.
const PROFILE: &str = "wasm";

/// wasm-opt's flags. The features are named one by one: with all of them on, it writes
/// modules that V8 rejects.
const WASM_OPT: [&str; 18] = [
    // Control flow made anew: a percent less to download.
    "-Oz",
    "--flatten",
    "--rereloop",
    "-Oz",
    // Larger functions with one caller stay apart: brotli packs them better.
    "--one-caller-inline-max-function-size=30",
    "--converge",
    // The far end of the stack is there, which is never reached; offsets can be folded then.
    "--low-memory-unused",
    // Puts functions of one module side by side, which brotli likes too.
    "--reorder-functions-by-name",
    "--enable-bulk-memory",
    "--enable-bulk-memory-opt",
    "--enable-nontrapping-float-to-int",
    "--enable-sign-ext",
    "--enable-mutable-globals",
    "--enable-reference-types",
    "--enable-multivalue",
    "--strip-debug",
    "--strip-producers",
    "--strip-target-features",
];

/// Brings wasm/dist/{tallymesh.wasm, bindgen.js, bindgen.d.ts} up to date.
///
/// Returns a digest that changes whenever these files do.
pub(crate) fn build(repo: &Repo) -> Result<String> {
    let (mut cargo, target) = setup::module_build(repo)?;
    setup::npm_install(repo, "wasm")?;
    shown(cargo.args([
        "--quiet",
        "--lib",
        "--package",
        "tallymesh-wasm",
        "--profile",
        PROFILE,
    ]))?;
    let compiled = target.artifacts(PROFILE).join("tallymesh_wasm.wasm");
    let dist = repo.path("wasm/dist");
    let digest = Stamp::new("wasm module")
        .text(&WASM_OPT.join(" "))
        .file(&repo.path("Cargo.lock"))? // pins the bindings generator
        .file(&repo.path("wasm/package-lock.json"))? // pins wasm-opt
        .file(&compiled)?
        .finish();
    // Beside and not inside: all that is in dist is packed.
    let mark = repo.path("wasm/node_modules/.xtask-module");
    let whole = ["tallymesh.wasm", "bindgen.js", "bindgen.d.ts"]
        .iter()
        .all(|name| dist.join(name).is_file());
    if !(whole && stamp::is_current(&mark, &digest)) {
        say("generating bindings and optimising the module for size");
        fs::create_dir_all(&dist)?;
        let bindings = generate_bindings(repo, &compiled)?;
        optimise(
            repo,
            &bindings.join("bindgen_bg.wasm"),
            &dist.join("tallymesh.wasm"),
        )?;
        for name in ["bindgen.js", "bindgen.d.ts"] {
            fs::copy(bindings.join(name), dist.join(name))
                .with_context(|| format!("no {name} among the bindings"))?;
        }
        stamp::record(&mark, &digest)?;
    }
    Ok(digest)
}

fn generate_bindings(repo: &Repo, compiled: &Path) -> Result<PathBuf> {
    let folder = repo.target().join("wasm").join("bindings");
    let mut bindgen = Bindgen::new();
    bindgen
        .input_path(compiled)
        .out_name("bindgen")
        .web(true)?
        .typescript(true)
        // wasm-opt orders functions by name, and strips the names then.
        .remove_name_section(false)
        .remove_producers_section(true)
        // The package names its module tallymesh.wasm and always passes it; the default path
        // would make bundlers look for a file that is not there.
        .omit_default_module_path(true);
    bindgen
        .generate(&folder)
        .context("generating the JavaScript bindings")?;
    Ok(folder)
}

fn optimise(repo: &Repo, input: &Path, output: &Path) -> Result<()> {
    let mut wasm_opt = Command::new("node");
    wasm_opt
        .arg(repo.path("wasm/node_modules/binaryen/bin/wasm-opt"))
        .args(WASM_OPT)
        .arg(input)
        .arg("-o")
        .arg(output);
    step(repo, "wasm-opt", &mut wasm_opt)
}

/// A `cargo test` command for wasm whose test binaries this program runs.
pub(crate) fn test_command(repo: &Repo, package: &str) -> Result<Command> {
    let runner = serde_json::to_string(&[
        std::env::current_exe()?.to_string_lossy().into_owned(),
        "wasm-test-runner".to_owned(),
    ])?;
    let mut command = setup::wasm_target(repo)?.cargo(repo, "test");
    command
        .args(["--release", "--package", package])
        .arg("--config")
        .arg(format!("target.wasm32-unknown-unknown.runner={runner}"));
    Ok(command)
}

/// Runs one WebAssembly test binary in Node or, if the environment says so, in a browser.
pub(crate) fn run_test_binary(args: Vec<OsString>) -> Result<()> {
    let program = OsString::from("wasm-bindgen-test-runner");
    wasm_bindgen_cli::wasm_bindgen_test_runner::run_cli_with_args(
        std::iter::once(program).chain(args),
    )
}
