//! `tallymesh config`: the configuration that a node would have, without a start.

use super::failure::Failure;
use super::output::Output;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use tallymesh_node_config::{ConfigErrors, Layers, Origin, Row};
use tallymesh_node_ground::escape;

/// The configuration with all its settings, each with its meaning, its bounds and its default.
const EXAMPLE: &str = include_str!("../../../deploy/tallymesh.toml");

/// The arguments of `tallymesh config`.
#[derive(Args, Debug)]
pub struct ConfigArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Tell all that is wrong with a configuration; exits with 1 if anything is. Other files, such as
    /// certificates, are read at the start of a node only
    Check(Box<Settings>),
    /// Print what a node would be started with, and where each setting comes from
    Show(Box<Settings>),
    /// Print a configuration file with all settings, their bounds and their defaults
    Example,
}

/// Settings as `tallymesh up` takes them.
#[derive(Args, Debug)]
struct Settings {
    /// The configuration file, as with --config
    file: Option<PathBuf>,

    #[command(flatten)]
    layers: Layers,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: ConfigArgs) -> ExitCode {
    let output = |json| Output::new(json);
    match args.action {
        Action::Check(settings) => {
            let mut output = output(settings.json);
            let result = check(&mut output, *settings);
            output.finish(result)
        }
        Action::Show(settings) => {
            let mut output = output(settings.json);
            let result = show(&mut output, *settings);
            output.finish(result)
        }
        Action::Example => {
            let mut output = output(false);
            let result = output.line(&Value::Null, || EXAMPLE.trim_end().to_owned());
            output.finish(result)
        }
    }
}

fn check(output: &mut Output, settings: Settings) -> Result<(), Failure> {
    let layers = settings.layers.with_file(settings.file);
    let what = match layers.file() {
        Some(file) => file.display().to_string(),
        None => "the configuration".to_owned(),
    };
    let errors = layers.effective().err().unwrap_or_default();
    for error in &errors.0 {
        output.line(&error.json(), || {
            escape::value(&error.to_string()).into_owned()
        })?;
    }
    match errors.0.len() {
        0 => output.line(&json!({ "checked": what }), || {
            format!("{} is valid", escape::value(&what))
        }),
        count => Err(Failure::Local {
            code: "config",
            problem: format!("problems: {count} in {what}; a node would not start with it"),
        }),
    }
}

fn show(output: &mut Output, settings: Settings) -> Result<(), Failure> {
    let layers = settings.layers.with_file(settings.file);
    let effective = layers.effective();
    let effective = effective.map_err(|errors: ConfigErrors| Failure::Lines {
        problem: errors.to_string(),
    })?;
    for row in effective.rows() {
        let mut value = json!({ "key": row.key, "value": row.value });
        if let (Ok(Value::Object(origin)), Some(value)) =
            (serde_json::to_value(&row.origin), value.as_object_mut())
        {
            value.extend(origin);
        }
        output.line(&value, || escape::value(&line(&row)).into_owned())?;
    }
    Ok(())
}

/// A setting as a line that is valid in a configuration file.
fn line(row: &Row) -> String {
    let setting = match &row.value {
        Value::Null => format!("# {} is not set", row.key),
        value => format!("{} = {value}", row.key),
    };
    match row.origin {
        Origin::Default => format!("{setting:<56} # default"),
        _ => format!("{setting:<56} # {}", row.origin),
    }
}
