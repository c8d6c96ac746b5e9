//! A compiler with a standard library for wasm32-unknown-unknown.
//!
//! Rustup's target is the first choice. If its server cannot be reached, Debian's current Rust has the
//! sources of std. They are compiled once into a private sysroot in the cache folder, and a wrapper script
//! around that rustc uses it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use super::apt;
use super::tools::put_in_place;
use crate::repo::Repo;
use crate::run::{ask, capture, say, step};
use crate::stamp::Stamp;

/// The target's name.
const TARGET: &str = "wasm32-unknown-unknown";
const SYSTEM_RUSTC: &str = "/usr/bin/rustc";
const SYSTEM_CARGO: &str = "/usr/bin/cargo";
const SYSTEM_LINKER: &str = "/usr/bin/rust-lld";
const DEBIAN_PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "rust-web-llvm"];
/// Changes with the steps that make a sysroot, so that older ones are not used.
const RECIPE: &str = "1";

/// Flags of the module that pages download. The first one repeats .cargo/config.toml, because the variable
/// replaces its flags.
///
/// The module refers to no JavaScript value. Without reference types, wasm-bindgen adds no table for them.
/// The last three flags inline more than "z" does, which saves calls and 4 percent of the download.
/// Thresholds of 75 and 150 for the first, and of 15 and 50 for the second, were worse.
const MODULE_FLAGS: &str = "--cfg=sha2_backend_soft=\"compact\" -Zunstable-options \
    -Cpanic=immediate-abort -Zlocation-detail=none \
    -Ctarget-feature=-reference-types \
    -Zinline-mir=yes -Zinline-mir-threshold=100 -Cllvm-args=-inline-threshold=30";
/// The feature of std that trades speed for size. Above all, it sorts by heaps, which takes ten times as long
/// with many keys, and saves 3 KB.
pub(crate) const SMALL_STD: &str = "optimize_for_size";
const RUSTUP_LIMIT: Duration = Duration::from_secs(5 * 60);

/// How to compile for wasm32-unknown-unknown on this machine.
#[derive(Debug, Clone)]
pub(crate) struct WasmTarget {
    /// The compiler, unless it is cargo's own choice.
    rustc: Option<PathBuf>,
    target_dir: PathBuf,
}

impl WasmTarget {
    /// A cargo command that compiles with this target's compiler.
    ///
    /// The build has a target folder of its own. The compiler may differ from the native one, and neither
    /// should invalidate the other's work.
    pub(crate) fn cargo(&self, repo: &Repo, subcommand: &str) -> Command {
        let mut command = repo.cargo();
        command.args([subcommand, "--target", TARGET]);
        command.env("CARGO_TARGET_DIR", &self.target_dir);
        if let Some(rustc) = &self.rustc {
            command.env("RUSTC", rustc);
        }
        command
    }

    /// The folder in which cargo puts the final artifacts of a profile.
    pub(crate) fn artifacts(&self, profile: &str) -> PathBuf {
        self.target_dir.join(TARGET).join(profile)
    }
}

/// A cargo command that builds for wasm together with `core` and `alloc`, from their sources.
///
/// The module that pages download is built like this. Compiled together with it, the two have no panic
/// messages and none of the code that formats them, which is a quarter of its size. The flags for this are
/// unstable, so the stable compiler gets a variable that allows them.
///
/// `folder` separates builds of different features, which would invalidate each other's work. `std_features`
/// are the features of `core` and `alloc`.
pub(crate) fn module_build(
    repo: &Repo,
    folder: &str,
    std_features: &str,
) -> Result<(Command, WasmTarget)> {
    const COMPONENT: &str = "rust-src";
    let own = || has_sources(Command::new("rustc").current_dir(repo.path("")));
    let system =
        || has_sources(&mut Command::new(SYSTEM_RUSTC)) && Path::new(SYSTEM_CARGO).is_file();
    let rustup = || -> Result<bool> {
        if super::on_path(&["rustup"]).is_none() {
            return Ok(false);
        }
        say("adding the sources of std with rustup");
        let mut rustup = Command::new("rustup");
        rustup
            .current_dir(repo.path(""))
            .args(["component", "add", COMPONENT]);
        Ok(capture(repo, "rustup component add", RUSTUP_LIMIT, &mut rustup)?.success && own())
    };
    let target_dir = repo.target().join(folder);
    let allowed = rustup_allowed();
    let (mut cargo, rustc) = if allowed && (own() || !system() && rustup()?) {
        (repo.cargo(), None)
    } else {
        install_system(repo)?;
        let mut cargo = Command::new(SYSTEM_CARGO);
        cargo
            .current_dir(repo.path(""))
            .env("RUSTC", SYSTEM_RUSTC)
            .env_remove("RUSTUP_TOOLCHAIN")
            .env_remove("LD_LIBRARY_PATH");
        (cargo, Some(PathBuf::from(SYSTEM_RUSTC)))
    };
    cargo
        .args(["build", "--target", TARGET, "-Zbuild-std=core,alloc"])
        .arg(format!("-Zbuild-std-features={std_features}"))
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", MODULE_FLAGS)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("CARGO_TARGET_DIR", &target_dir);
    Ok((cargo, WasmTarget { rustc, target_dir }))
}

/// Finds a way to compile for wasm, or installs one.
///
/// `TALLYMESH_WASM_STD=system` skips rustup, to test the other way.
pub(crate) fn wasm_target(repo: &Repo) -> Result<WasmTarget> {
    let target = |rustc| WasmTarget {
        rustc,
        target_dir: repo.target().join("wasm"),
    };
    let rustup_allowed = rustup_allowed();
    if rustup_allowed && rustup_has_it(repo) {
        return Ok(target(None));
    }
    // This comes before the next call of rustup, which takes time at each run on a closed network.
    if let Some(wrapper) = sysroot_home(repo).map(|home| home.join("rustc"))
        && wrapper.is_file()
    {
        return Ok(target(Some(wrapper)));
    }
    if rustup_allowed && rustup_adds_it(repo)? && rustup_has_it(repo) {
        return Ok(target(None));
    }
    Ok(target(Some(private_sysroot(repo)?)))
}

fn rustup_allowed() -> bool {
    std::env::var("TALLYMESH_WASM_STD").as_deref() != Ok("system")
}

/// Whether a compiler has the sources of std.
fn has_sources(rustc: &mut Command) -> bool {
    ask(rustc.args(["--print", "sysroot"])).is_some_and(|root| {
        Path::new(&root)
            .join("lib/rustlib/src/rust/library/core")
            .is_dir()
    })
}

/// Installs the system's Rust with the sources of std, and its linker.
fn install_system(repo: &Repo) -> Result<()> {
    if !has_sources(&mut Command::new(SYSTEM_RUSTC)) || !Path::new(SYSTEM_CARGO).is_file() {
        apt::install(repo, "Rust with the sources of std", &DEBIAN_PACKAGES)?;
    }
    if let Some(linker) = missing_linker() {
        apt::install(repo, "the linker of the system's Rust", &[&linker])?;
    }
    Ok(())
}

/// Whether cargo's own compiler makes test programs for wasm.
fn rustup_has_it(repo: &Repo) -> bool {
    links(Command::new("rustc").current_dir(repo.path(""))).is_ok()
}

/// Links a test program for wasm. This needs std, the test crate and a linker.
///
/// # Errors
/// The compiler's message, if one of them is missing.
fn links(rustc: &mut Command) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("probe.rs");
    fs::write(&source, "#[test]\nfn probe() {}\n")?;
    let output = rustc
        .args(["--test", "--target", TARGET, "-o"])
        .arg(folder.path().join("probe.wasm"))
        .arg(&source)
        .output()
        .context("cannot start rustc")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

fn rustup_adds_it(repo: &Repo) -> Result<bool> {
    if super::on_path(&["rustup"]).is_none() {
        return Ok(false);
    }
    say(&format!("adding the target {TARGET} with rustup"));
    let mut rustup = Command::new("rustup");
    rustup
        .current_dir(repo.path(""))
        .args(["target", "add", TARGET]);
    let done = capture(repo, "rustup target add", RUSTUP_LIMIT, &mut rustup)?;
    if !done.success {
        let why = done.text.lines().find(|l| l.starts_with("error"));
        say(&format!(
            "rustup could not add it ({}); using the system's Rust instead",
            why.unwrap_or("no reason given")
        ));
    }
    Ok(done.success)
}

/// The cache folder of the system compiler's sysroot, if there is such a compiler.
fn sysroot_home(repo: &Repo) -> Option<PathBuf> {
    let version = ask(Command::new(SYSTEM_RUSTC).arg("-vV"))?;
    // A rebuilt package may have the same version and still reject the old one's libraries.
    let binary = fs::metadata(SYSTEM_RUSTC).ok()?;
    let modified = binary.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let key = Stamp::new("wasm sysroot")
        .text(RECIPE)
        .text(&version)
        .text(&format!("{} {}", binary.len(), modified.as_secs()))
        .finish();
    Some(repo.cache().join(format!("wasm-sysroot-{}", &key[..16])))
}

/// Compiles std for wasm with the system's Rust. Returns the wrapper to use as rustc.
fn private_sysroot(repo: &Repo) -> Result<PathBuf> {
    install_system(repo)?;
    let home = sysroot_home(repo).context("the system has no usable /usr/bin/rustc")?;
    let wrapper = home.join("rustc");
    if wrapper.is_file() {
        return Ok(wrapper);
    }
    say(&format!(
        "compiling std for {TARGET} into {} (once, about a minute)",
        home.display()
    ));
    fs::create_dir_all(repo.cache())?;
    let building = tempfile::Builder::new()
        .prefix("building-wasm-sysroot-")
        .tempdir_in(repo.cache())?;
    let libraries = compile_std(repo, building.path())?;
    let made = building.path().join("made");
    lay_out(&libraries, &made)?;
    links(
        Command::new(SYSTEM_RUSTC)
            .arg("--sysroot")
            .arg(made.join("sysroot")),
    )
    .with_context(|| format!("the std made with {SYSTEM_RUSTC} does not link"))?;
    // The wrapper names the final folder, because the folder is moved there when it is complete.
    write_wrapper(&made.join("rustc"), &home.join("sysroot"))?;
    put_in_place(&made, &home)?;
    Ok(wrapper)
}

/// The package of rust-lld, if Debian's link to it leads nowhere.
fn missing_linker() -> Option<String> {
    let link = Path::new(SYSTEM_LINKER);
    if link.exists() {
        return None;
    }
    // The link has the form `lld-22`, and the package has the name of the program.
    let program = fs::read_link(link).ok()?;
    Some(program.file_name()?.to_string_lossy().into_owned())
}

/// Builds std, panic_abort and test in a temporary crate. Returns the folder of the rlibs.
fn compile_std(repo: &Repo, folder: &Path) -> Result<PathBuf> {
    let package = folder.join("throwaway");
    fs::create_dir_all(package.join("src"))?;
    fs::write(package.join("src/lib.rs"), "")?;
    fs::write(
        package.join("Cargo.toml"),
        "[package]\nname = \"throwaway\"\nedition = \"2024\"\n\n[workspace]\n\n[profile.release]\n\
         opt-level = \"s\"\npanic = \"abort\"\ncodegen-units = 1\n",
    )?;
    let output = folder.join("target");
    let mut cargo = Command::new(SYSTEM_CARGO);
    cargo
        .current_dir(&package)
        .args(["build", "--release", "--target", TARGET])
        .arg("-Zbuild-std=std,panic_abort,test")
        .env("RUSTC", SYSTEM_RUSTC)
        // The unstable flag is needed only here. Builds with the result are stable.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Cembed-bitcode=yes")
        .env("CARGO_TARGET_DIR", &output)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("LD_LIBRARY_PATH");
    step(repo, "compiling std for wasm", &mut cargo)?;
    Ok(output.join(TARGET).join("release").join("deps"))
}

/// Makes a sysroot: our rlibs for wasm, the system's own for everything else.
fn lay_out(libraries: &Path, made: &Path) -> Result<()> {
    let rustlib = made.join("sysroot/lib/rustlib");
    let ours = rustlib.join(TARGET).join("lib");
    fs::create_dir_all(&ours)?;
    for entry in fs::read_dir(libraries)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.ends_with(".rlib") && !name.starts_with("libthrowaway") {
            fs::copy(&path, ours.join(&name))?;
        }
    }
    let system = ask(Command::new(SYSTEM_RUSTC).args(["--print", "sysroot"]))
        .context("the system's rustc does not name its sysroot")?;
    for entry in fs::read_dir(Path::new(&system).join("lib/rustlib"))? {
        let entry = entry?;
        if entry.file_name() != TARGET {
            symlink(entry.path(), rustlib.join(entry.file_name()))?;
        }
    }
    Ok(())
}

fn write_wrapper(file: &Path, sysroot: &Path) -> Result<()> {
    let quoted = sysroot.to_string_lossy().replace('\'', r"'\''");
    fs::write(
        file,
        format!("#!/bin/sh\nexec {SYSTEM_RUSTC} --sysroot '{quoted}' \"$@\"\n"),
    )?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
