//! Known vulnerabilities of dependencies, from a copy of the RustSec database in a folder. This is for
//! networks without access to the database's server. The crate `rustsec` reads the copy, as in cargo-audit.
//! cargo-deny requires a git repository under a name that it computes itself.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rustsec::advisory::{Id, Informational};
use rustsec::report::Settings;
use rustsec::{Database, Lockfile, Report};

/// All advisories of the database in a folder for the packages of a lock file, one line each.
///
/// # Errors
/// If the folder has no advisory, because an empty database proves nothing.
pub(super) fn known(folder: &Path, lockfile: &Path, ignored: &[Id]) -> Result<Vec<String>> {
    let doing = || format!("the advisory database in {}", folder.display());
    let database = Database::open(folder).with_context(doing)?;
    if database.iter().next().is_none() {
        bail!("{} holds no advisory below crates/", folder.display());
    }
    let locked = Lockfile::load(lockfile).with_context(|| lockfile.display().to_string())?;
    let settings = Settings {
        ignore: ignored.to_vec(),
        // As cargo-deny does by default: unmaintained packages are reported too.
        informational_warnings: vec![Informational::Unmaintained, Informational::Unsound],
        ..Settings::default()
    };
    let report = Report::generate(&database, &locked, &settings);
    let grave = report.vulnerabilities.list.iter();
    let grave = grave.map(|it| ("vulnerability", &it.package, Some(&it.advisory)));
    let warned = report.warnings.values().flatten();
    let warned = warned.map(|it| (it.kind.as_str(), &it.package, it.advisory.as_ref()));
    let lines = grave.chain(warned).map(|(kind, package, advisory)| {
        let (id, title) =
            advisory.map_or_else(Default::default, |it| (it.id.to_string(), &*it.title));
        format!(
            "{kind} {id} in {} {}: {title}",
            package.name, package.version
        )
    });
    Ok(lines.collect())
}

/// The advisories that deny.toml ignores, each with its reason there.
pub(super) fn ignored(deny: &Path) -> Result<Vec<Id>> {
    let doing = || deny.display().to_string();
    let text = fs::read_to_string(deny).with_context(doing)?;
    let table: toml::Table = text.parse().with_context(doing)?;
    let list = table
        .get("advisories")
        .and_then(|section| section.get("ignore"))
        .and_then(toml::Value::as_array);
    let ids = list.into_iter().flatten().map(|entry| {
        let id = entry.get("id").unwrap_or(entry).as_str();
        let id =
            id.with_context(|| format!("{}: an ignored advisory without id", deny.display()))?;
        Ok(id.parse::<Id>()?)
    });
    ids.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADVISORY: &str = r#"```toml
[advisory]
id = "RUSTSEC-2026-9999"
package = "shaky"
date = "2026-01-01"
url = "https://example.com"

[versions]
patched = [">= 1.2.0"]
```

# It shakes
"#;

    fn lock(version: &str) -> String {
        format!(
            "version = 4\n\n[[package]]\nname = \"shaky\"\nversion = \"{version}\"\n\
             source = \"registry+https://github.com/rust-lang/crates.io-index\"\n"
        )
    }

    #[test]
    fn a_database_in_a_folder_is_read() -> Result<()> {
        let place = tempfile::tempdir()?;
        let (folder, locked) = (place.path().join("db"), place.path().join("Cargo.lock"));
        fs::create_dir_all(folder.join("crates/shaky"))?;
        fs::write(&locked, lock("1.1.0"))?;
        assert!(
            known(&folder, &locked, &[]).is_err(),
            "an empty database says nothing of a package"
        );
        fs::write(folder.join("crates/shaky/RUSTSEC-2026-9999.md"), ADVISORY)?;
        let found = known(&folder, &locked, &[])?;
        assert_eq!(
            found,
            ["vulnerability RUSTSEC-2026-9999 in shaky 1.1.0: It shakes"]
        );

        let deny = place.path().join("deny.toml");
        fs::write(&deny, "[advisories]\nyanked = \"warn\"\n")?;
        assert!(ignored(&deny)?.is_empty());
        fs::write(
            &deny,
            "[advisories]\nignore = [{ id = \"RUSTSEC-2026-9999\", reason = \"not reached\" }]\n",
        )?;
        assert!(known(&folder, &locked, &ignored(&deny)?)?.is_empty());

        fs::write(&locked, lock("1.2.0"))?;
        assert!(known(&folder, &locked, &[])?.is_empty());
        assert!(known(&place.path().join("nothing"), &locked, &[]).is_err());
        Ok(())
    }
}
