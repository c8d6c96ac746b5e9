//! The configuration file: TOML, whose keys are the names of the flags of `tallymesh up`.

use super::error::{ConfigError, ConfigErrors, Origin};
use super::{UpArgs, args};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How similar a key must be to an existing one to count as mistyped: 1 is the same.
const ALIKE_MIN: f64 = 0.6;

/// The settings of a file, and the line of each.
pub(super) struct FileSettings {
    pub(super) args: UpArgs,
    pub(super) lines: BTreeMap<String, usize>,
}

/// Reads a file.
pub(super) fn read(file: &Path) -> Result<FileSettings, ConfigErrors> {
    let text = contents(file).map_err(|error| ConfigErrors(vec![error]))?;
    let read = parse(file, &text)?;
    refuse_shared_secrets(file, &read).map_err(|error| ConfigErrors(vec![error]))?;
    Ok(read)
}

fn contents(file: &Path) -> Result<String, ConfigError> {
    let wrong = |problem| error("config_file", file, "", 0, problem);
    let facts = fs::metadata(file).map_err(|problem| {
        wrong(format!(
            "can't be read: {problem}; name another with --config"
        ))
    })?;
    if facts.len() > FILE_BYTES_MAX {
        let bytes = facts.len();
        return Err(wrong(format!(
            "has {bytes} bytes, and a configuration has at most {FILE_BYTES_MAX}; is it another file?"
        )));
    }
    fs::read_to_string(file).map_err(|problem| wrong(format!("can't be read as text: {problem}")))
}

/// Reads the text of a file. It reports all errors at once.
pub(super) fn parse(file: &Path, text: &str) -> Result<FileSettings, ConfigErrors> {
    let line_of = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let mut errors = ConfigErrors::default();
    let (table, unreadable) = DeTable::parse_recoverable(text);
    for problem in unreadable {
        let line = problem.span().map_or(0, |span| line_of(span.start));
        let problem = format!(
            "{}; a line is such as `http = \"127.0.0.1:4280\"`",
            problem.message()
        );
        errors
            .0
            .push(error("config_syntax", file, "", line, problem));
    }
    if !errors.0.is_empty() {
        return Err(sorted(errors));
    }
    let names = args::names();
    let mut read = FileSettings {
        args: UpArgs::default(),
        lines: BTreeMap::new(),
    };
    for (key, value) in table.into_inner() {
        let (line, name) = (line_of(key.span().start), key.get_ref().to_string());
        if !names.contains(&name) {
            let problem = unknown(&name, &names);
            errors
                .0
                .push(error("config_unknown_key", file, &name, line, problem));
            continue;
        }
        let kind = value.get_ref().type_str();
        match alone(name.clone(), value) {
            Ok(args) => read.args = read.args.or(args),
            Err(problem) => {
                let problem = mistyped(&name, kind, &problem);
                errors
                    .0
                    .push(error("config_type", file, &name, line, problem));
            }
        }
        read.lines.insert(name, line);
    }
    match errors.0.is_empty() {
        true => Ok(read),
        false => Err(sorted(errors)),
    }
}

/// The errors in the order of their lines.
fn sorted(mut errors: ConfigErrors) -> ConfigErrors {
    errors.0.sort_by(|a, b| a.origin.cmp(&b.origin));
    errors
}

fn error(code: &'static str, file: &Path, key: &str, line: usize, problem: String) -> ConfigError {
    let file = file.to_path_buf();
    ConfigError {
        code,
        key: key.to_owned(),
        origin: Origin::File { file, line },
        problem,
    }
}

/// Reads this key alone. Returns its settings, or the reason for which its value is invalid.
fn alone(key: String, value: Spanned<DeValue<'_>>) -> Result<UpArgs, String> {
    let span = value.span();
    let mut table = DeTable::new();
    table.insert(Spanned::new(span.clone(), key.into()), value);
    let table = toml::Deserializer::from(Spanned::new(span, table));
    UpArgs::deserialize(table).map_err(|problem| problem.message().to_owned())
}

/// The advice for a key whose value is of the wrong kind.
fn mistyped(key: &str, kind: &str, problem: &str) -> String {
    let samples = [
        ("boolean", "true", "true or false, without quotes"),
        ("string", "\"text\"", "a text in quotes"),
        ("integer", "1", "a whole number, without quotes"),
        (
            "array",
            "[\"text\"]",
            "a list of texts, such as [\"a\", \"b\"]",
        ),
    ];
    let takes = |sample: &str| {
        let value = DeValue::parse(sample).map_err(|error| error.message().to_owned());
        value.and_then(|value| alone(key.to_owned(), value)).is_ok()
    };
    let wanted = samples.iter().find(|sample| takes(sample.1));
    match wanted {
        // The value is of the right kind, but it is invalid.
        Some((right, ..)) if *right == kind => problem.to_owned(),
        Some((_, _, wanted)) => format!("the value is of the kind {kind}, and must be {wanted}"),
        None => problem.to_owned(),
    }
}

fn unknown(key: &str, names: &[String]) -> String {
    let typed = key.to_ascii_lowercase().replace('_', "-");
    let alike = |name: &str| strsim::normalized_damerau_levenshtein(&typed, name);
    let nearest = names.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)));
    match nearest.filter(|name| alike(name) >= ALIKE_MIN) {
        Some(name) => format!("there is no such key; is `{name}` meant?"),
        None => "there is no such key; `tallymesh config example` prints all there are".to_owned(),
    }
}

/// A password is allowed only in a file that no one but its owner and its group can open.
#[cfg(unix)]
fn refuse_shared_secrets(file: &Path, read: &FileSettings) -> Result<(), ConfigError> {
    use std::os::unix::fs::PermissionsExt;
    const KEY: &str = "resp-password";
    let Some(line) = read.lines.get(KEY) else {
        return Ok(());
    };
    let mode = fs::metadata(file).map_or(0, |facts| facts.permissions().mode()) & 0o777;
    if mode & 0o007 == 0 {
        return Ok(());
    }
    let shown = file.display();
    let problem = format!(
        "others on this machine can open the file (mode {mode:o}), so it may hold no password; `chmod \
         o= {shown}`, or set TALLYMESH_RESP_PASSWORD instead"
    );
    Err(error("config_secret", file, KEY, *line, problem))
}

#[cfg(not(unix))]
fn refuse_shared_secrets(_: &Path, _: &FileSettings) -> Result<(), ConfigError> {
    Ok(())
}
