//! The WebAssembly module: cargo, bindings and size optimisation. Also the runner of its tests.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

use crate::repo::Repo;
use crate::run::{say, shown, step};
use crate::setup::{self, SMALL_STD, WasmTarget};
use crate::stamp::{self, Stamp};

/// The cargo profile of files that browsers download.
const PROFILE: &str = "wasm";

/// The first passes of wasm-opt over the package's modules. Those of [`Module::passes`] follow.
const WASM_OPT: [&str; 6] = [
    // These rebuild the control flow, and save a percent of the download.
    "-Oz",
    "--flatten",
    "--rereloop",
    "-Oz",
    // This uses facts about values across functions, and saves half a percent.
    "--gufa-optimizing",
    "-Oz",
];

/// The last passes, and the limits of them all.
const WASM_OPT_END: [&str; 7] = [
    // The smallest functions are not inlined either, except one that is no larger than a call of it.
    "--always-inline-max-function-size=4",
    "--converge",
    // These passes save less than brotli loses by them: half a percent both.
    "--skip-pass=simplify-locals",
    "--skip-pass=local-cse",
    // The lowest addresses are the far end of the stack, which is never reached. So offsets can be folded.
    "--low-memory-unused",
    // The alignment of an address is only a hint. Engines ignore it on their usual machines. One hint for all
    // saves half a percent.
    "--dealign",
    // This puts functions of one module side by side, which also helps brotli.
    "--reorder-functions-by-name",
];

/// The passes of wasm-opt over the module of the page's stories. They take seconds, and save three percent
/// after brotli. `-Oz` takes four times as long and saves no more.
const WASM_OPT_MEMBERS: [&str; 5] = [
    "--duplicate-function-elimination",
    "--dae",
    "--vacuum",
    "--dealign",
    "--reorder-functions-by-name",
];

/// The flags of wasm-opt for every module. They name each feature, because with all features it writes
/// modules that V8 rejects.
const WASM_OPT_FORMAT: [&str; 7] = [
    "--enable-bulk-memory",
    "--enable-bulk-memory-opt",
    "--enable-nontrapping-float-to-int",
    "--enable-sign-ext",
    "--enable-mutable-globals",
    "--strip-producers",
    "--strip-target-features",
];

/// The options of wasm-opt for the names of functions in its output.
const STRIP_NAMES: &str = "--strip-debug";
const KEEP_NAMES: &str = "--debuginfo";

/// A module of the package.
struct Module {
    /// The name of its file in wasm/dist. `bindings` is the name of its bindings' files.
    wasm: &'static str,
    bindings: &'static str,
    features: &'static [&'static str],
    /// Its own passes of wasm-opt, and up to which size a function with one caller is inlined: brotli packs
    /// larger ones better.
    passes: &'static [&'static str],
    /// The features of `core` and `alloc`.
    std_features: &'static str,
    /// The folder in which cargo builds it.
    target: &'static str,
}

/// The module that every page downloads, and the additional one for spaces with members.
const MODULES: [Module; 2] = [
    Module {
        wasm: "tallymesh.wasm",
        bindings: "bindgen",
        features: &[],
        passes: &["--one-caller-inline-max-function-size=60"],
        std_features: SMALL_STD,
        target: "wasm-module",
    },
    Module {
        wasm: "tallymesh-members.wasm",
        bindings: "bindgen-members",
        features: &["--features", "members"],
        passes: &[
            "--gufa-optimizing",
            "-Oz",
            "--one-caller-inline-max-function-size=40",
        ],
        std_features: "", // it writes whole states to storages
        target: "wasm-module-members",
    },
];

impl Module {
    /// All passes of wasm-opt over it.
    fn passes(&self) -> Vec<&'static str> {
        [&WASM_OPT, self.passes, &WASM_OPT_END].concat()
    }
}

/// Brings the modules and their bindings in wasm/dist up to date.
///
/// Returns a digest that changes whenever these files do.
pub(crate) fn build(repo: &Repo) -> Result<String> {
    setup::npm_install(repo, "wasm")?;
    // Whatever is missing is installed for one after the other.
    let builds =
        MODULES.map(|module| setup::module_build(repo, module.target, module.std_features));
    // The optimisation of a whole module has one thread, so the modules are made side by side.
    let digests = thread::scope(|scope| {
        let running = MODULES.iter().zip(builds);
        let running = running.map(|(module, build)| {
            let made = move || build_one(repo, module, build?);
            scope.spawn(made)
        });
        let running: Vec<_> = running.collect();
        let ended = running.into_iter().map(|it| it.join());
        let ended = ended.map(|it| it.expect("a build that ends"));
        ended.collect::<Result<Vec<_>>>()
    });
    Ok(digests?.concat())
}

/// The first module with the names of its functions, for analysis. It is otherwise the shipped one.
pub(crate) fn named(repo: &Repo) -> Result<PathBuf> {
    let [module, _] = &MODULES;
    let folder = repo.target().join(module.target);
    let input = folder
        .join("bindings")
        .join(format!("{}_bg.wasm", module.bindings));
    let output = folder.join("named.wasm");
    let digest = Stamp::new("named module")
        .text(&flags_of(&module.passes(), KEEP_NAMES).join(" "))
        .file(&repo.path("wasm/package-lock.json"))?
        .file(&input)?
        .finish();
    let mark = folder.join(".xtask-named");
    if !(output.is_file() && stamp::is_current(&mark, &digest)) {
        say("optimising the module once more, with the names of its functions");
        let flags = flags_of(&module.passes(), KEEP_NAMES);
        optimise(repo, &flags, &input, &output)?;
        stamp::record(&mark, &digest)?;
    }
    Ok(output)
}

fn build_one(
    repo: &Repo,
    module: &Module,
    (mut cargo, target): (Command, WasmTarget),
) -> Result<String> {
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
        .text(&flags_of(&module.passes(), STRIP_NAMES).join(" "))
        .file(&repo.path("Cargo.lock"))? // pins the bindings generator
        .file(&repo.path("wasm/package-lock.json"))? // pins wasm-opt
        .file(&compiled)?
        .finish();
    // This is beside dist and not inside, because everything in dist is packed.
    let mark = repo.path(format!("wasm/node_modules/.xtask-{}", module.bindings));
    // The package calls the exports itself, with the types in this file.
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
        let flags = flags_of(&module.passes(), STRIP_NAMES);
        optimise(repo, &flags, &input, &dist.join(module.wasm))?;
        fs::copy(bindings.join(&types), dist.join(&types))
            .with_context(|| format!("no {types} among the bindings"))?;
        stamp::record(&mark, &digest)?;
    }
    Ok(digest)
}

/// Brings the module of the page's stories about members, and its bindings, in web-demo/members/dist up to
/// date. It is not part of the package, and a page does not download it at its start. So the optimisation is
/// short.
///
/// Returns a digest that changes whenever these files do.
pub(crate) fn build_members(repo: &Repo) -> Result<String> {
    // The folder in which the package's second module is built. It already has all crates but two.
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

/// Keeps the names of functions in the module, because wasm-opt orders functions by them.
fn generate_bindings(compiled: &Path, name: &str, folder: &Path) -> Result<()> {
    let mut bindgen = Bindgen::new();
    bindgen
        .input_path(compiled)
        .out_name(name)
        .web(true)?
        .typescript(true)
        .remove_producers_section(true)
        // The package and the page name their modules themselves and always pass them. The default path would
        // make bundlers look for a missing file.
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

/// Core as one unit is fastest, and takes longest to build. These tests measure nothing.
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
