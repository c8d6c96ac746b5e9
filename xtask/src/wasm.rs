//! The WebAssembly module: cargo, bindings, size optimisation; and the runner of its tests.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

use crate::repo::Repo;
use crate::run::{say, shown, step};
use crate::setup::{self, SMALL_STD};
use crate::stamp::{self, Stamp};

/// The cargo profile for what browsers download.
const PROFILE: &str = "wasm";

/// The passes of wasm-opt over the package's modules.
const WASM_OPT: [&str; 15] = [
    // Control flow made anew: a percent less to download.
    "-Oz",
    "--flatten",
    "--rereloop",
    "-Oz",
    // What can be told of values across functions: half a percent.
    "--gufa-optimizing",
    "-Oz",
    // Larger functions with one caller stay apart: brotli packs them better.
    "--one-caller-inline-max-function-size=60",
    // So do the smallest functions, except one that is no larger than a call of it.
    "--always-inline-max-function-size=4",
    "--converge",
    // What these save is less than what brotli loses by it: half a percent in all.
    "--skip-pass=simplify-locals",
    "--skip-pass=local-cse",
    "--skip-pass=code-folding",
    // The far end of the stack is there, which is never reached; offsets can be folded then.
    "--low-memory-unused",
    // How an address is aligned is a hint, which engines pass over on the machines that they are for, and
    // half a percent: so there is one hint for all.
    "--dealign",
    // Puts functions of one module side by side, which brotli likes too.
    "--reorder-functions-by-name",
];

/// Its passes over the module of the page's stories: a matter of seconds, and three percent less after
/// brotli. `-Oz` takes four times as long and saves no more.
const WASM_OPT_MEMBERS: [&str; 5] = [
    "--duplicate-function-elimination",
    "--dae",
    "--vacuum",
    "--dealign",
    "--reorder-functions-by-name",
];

/// Its flags for every module. The features are named one by one: with all of them on, it writes modules
/// that V8 rejects.
const WASM_OPT_FORMAT: [&str; 7] = [
    "--enable-bulk-memory",
    "--enable-bulk-memory-opt",
    "--enable-nontrapping-float-to-int",
    "--enable-sign-ext",
    "--enable-mutable-globals",
    "--strip-producers",
    "--strip-target-features",
];

/// What wasm-opt does with the names of functions at its end.
const STRIP_NAMES: &str = "--strip-debug";
const KEEP_NAMES: &str = "--debuginfo";

/// A module of the package.
struct Module {
    /// The name of its files in wasm/dist: the module's own, and its bindings'.
    wasm: &'static str,
    bindings: &'static str,
    features: &'static [&'static str],
    /// Those of `core` and `alloc`.
    std_features: &'static str,
    /// Where cargo builds it.
    target: &'static str,
}

/// What every page downloads, and what those load on top that meet a space with members.
const MODULES: [Module; 2] = [
    Module {
        wasm: "tallymesh.wasm",
        bindings: "bindgen",
        features: &[],
        std_features: SMALL_STD,
        target: "wasm-module",
    },
    Module {
        wasm: "tallymesh-members.wasm",
        bindings: "bindgen-members",
        features: &["--features", "members"],
        std_features: "", // it writes whole states to storages
        target: "wasm-module-members",
    },
];

/// Brings the modules and their bindings in wasm/dist up to date.
///
/// Returns a digest that changes whenever these files do.
pub(crate) fn build(repo: &Repo) -> Result<String> {
    setup::npm_install(repo, "wasm")?;
    let digests = MODULES.iter().map(|module| build_one(repo, module));
    Ok(digests.collect::<Result<Vec<_>>>()?.concat())
}

/// The first module with the names of its functions, for looking into it; it is the one that ships else.
pub(crate) fn named(repo: &Repo) -> Result<PathBuf> {
    let [module, _] = &MODULES;
    let folder = repo.target().join(module.target);
    let input = folder
        .join("bindings")
        .join(format!("{}_bg.wasm", module.bindings));
    let output = folder.join("named.wasm");
    let digest = Stamp::new("named module")
        .text(&flags_of(&WASM_OPT, KEEP_NAMES).join(" "))
        .file(&repo.path("wasm/package-lock.json"))?
        .file(&input)?
        .finish();
    let mark = folder.join(".xtask-named");
    if !(output.is_file() && stamp::is_current(&mark, &digest)) {
        say("optimising the module once more, with the names of its functions");
        let flags = flags_of(&WASM_OPT, KEEP_NAMES);
        optimise(repo, &flags, &input, &output)?;
        stamp::record(&mark, &digest)?;
    }
    Ok(output)
}

fn build_one(repo: &Repo, module: &Module) -> Result<String> {
    let (mut cargo, target) = setup::module_build(repo, module.target, module.std_features)?;
    shown(
        cargo
            .args([
                "--quiet",
                "--lib",
                "--package",
                "tallymesh-wasm",
                "--profile",
                PROFILE,
            ])
            .args(module.features),
    )?;
    let compiled = target.artifacts(PROFILE).join("tallymesh_wasm.wasm");
    let dist = repo.path("wasm/dist");
    let digest = Stamp::new(module.wasm)
        .text(&flags_of(&WASM_OPT, STRIP_NAMES).join(" "))
        .file(&repo.path("Cargo.lock"))? // pins the bindings generator
        .file(&repo.path("wasm/package-lock.json"))? // pins wasm-opt
        .file(&compiled)?
        .finish();
    // Beside and not inside: all that is in dist is packed.
    let mark = repo.path(format!("wasm/node_modules/.xtask-{}", module.bindings));
    // The package makes the calls by itself, as these types of the exports say.
    let types = format!("{}.d.ts", module.bindings);
    let whole = [module.wasm, &types]
        .iter()
        .all(|name| dist.join(name).is_file());
    if !(whole && stamp::is_current(&mark, &digest)) {
        say(&format!(
            "generating the bindings of {} and optimising it for size",
            module.wasm
        ));
        fs::create_dir_all(&dist)?;
        let bindings = repo.target().join(module.target).join("bindings");
        generate_bindings(&compiled, module.bindings, &bindings)?;
        let input = bindings.join(format!("{}_bg.wasm", module.bindings));
        let flags = flags_of(&WASM_OPT, STRIP_NAMES);
        optimise(repo, &flags, &input, &dist.join(module.wasm))?;
        fs::copy(bindings.join(&types), dist.join(&types))
            .with_context(|| format!("no {types} among the bindings"))?;
        stamp::record(&mark, &digest)?;
    }
    Ok(digest)
}

/// Brings the module of the page's stories about members, and its bindings, in web-demo/members/dist up to
/// date. It is no part of the package, and nobody downloads it with the page: the optimisation is short.
///
/// Returns a digest that changes whenever these files do.
pub(crate) fn build_members(repo: &Repo) -> Result<String> {
    // Where the package's second module is built: all but two crates are built there already.
    let [_, beside] = &MODULES;
    let (mut cargo, target) = setup::module_build(repo, beside.target, beside.std_features)?;
    let package = ["--package", "tallymesh-demo-members"];
    shown(cargo.args(["--quiet", "--profile", PROFILE]).args(package))?;
    let compiled = target
        .artifacts(PROFILE)
        .join("tallymesh_demo_members.wasm");
    let dist = repo.path("web-demo/members/dist");
    let digest = Stamp::new("members of the stories")
        .text(&flags_of(&WASM_OPT_MEMBERS, STRIP_NAMES).join(" "))
        .file(&repo.path("Cargo.lock"))? // pins the bindings generator
        .file(&repo.path("wasm/package-lock.json"))? // pins wasm-opt
        .file(&compiled)?
        .finish();
    let mark = repo.path("web-demo/node_modules/.xtask-members");
    let files = ["members.wasm", "members.js", "members.d.ts"];
    let whole = files.iter().all(|name| dist.join(name).is_file());
    if !(whole && stamp::is_current(&mark, &digest)) {
        say("generating the bindings of the stories' members and optimising their module");
        fs::create_dir_all(&dist)?;
        let bindings = repo.target().join("members-bindings");
        generate_bindings(&compiled, "members", &bindings)?;
        let [module, glue @ ..] = files;
        let input = bindings.join("members_bg.wasm");
        let flags = flags_of(&WASM_OPT_MEMBERS, STRIP_NAMES);
        optimise(repo, &flags, &input, &dist.join(module))?;
        for name in glue {
            fs::copy(bindings.join(name), dist.join(name))
                .with_context(|| format!("no {name} among the bindings"))?;
        }
        stamp::record(&mark, &digest)?;
    }
    Ok(digest)
}

/// Leaves the names of functions in the module: wasm-opt orders functions by them.
fn generate_bindings(compiled: &Path, name: &str, folder: &Path) -> Result<()> {
    let mut bindgen = Bindgen::new();
    bindgen
        .input_path(compiled)
        .out_name(name)
        .web(true)?
        .typescript(true)
        .remove_producers_section(true)
        // The package and the page name their modules themselves and always pass them; the default path
        // would make bundlers look for a file that is not there.
        .omit_default_module_path(true);
    bindgen
        .generate(folder)
        .context("generating the JavaScript bindings")
}

fn flags_of<'a>(passes: &[&'a str], names: &'a str) -> Vec<&'a str> {
    [passes, &WASM_OPT_FORMAT, &[names]].concat()
}

fn optimise(repo: &Repo, flags: &[&str], input: &Path, output: &Path) -> Result<()> {
    let mut wasm_opt = Command::new("node");
    wasm_opt
        .arg(repo.path("wasm/node_modules/binaryen/bin/wasm-opt"))
        .args(flags)
        .arg(input)
        .arg("-o")
        .arg(output);
    step(repo, "wasm-opt", &mut wasm_opt)
}

/// Core as one unit is quickest, and takes longest to build. These tests measure nothing.
const UNITS: &str = "profile.release.package.tallymesh-core.codegen-units=16";

/// A `cargo test` command for wasm whose test binaries this program runs.
pub(crate) fn test_command(repo: &Repo, package: &str) -> Result<Command> {
    let runner = serde_json::to_string(&[
        std::env::current_exe()?.to_string_lossy().into_owned(),
        "wasm-test-runner".to_owned(),
    ])?;
    let mut command = setup::wasm_target(repo)?.cargo(repo, "test");
    command
        .args(["--release", "--package", package])
        .args(["--config", UNITS, "--config"])
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
