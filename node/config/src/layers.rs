//! Settings above each other: the command line over the environment, over the file, over the
//! defaults.

use super::args::{command, names};
use super::error::{ConfigError, ConfigErrors, Origin};
use super::file::{self, FileSettings};
use super::{Config, UpArgs};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Settings that are not shown.
const SECRETS: [&str; 1] = ["resp-password"];

/// Where settings of a node are said, but the file's, which is not read yet.
#[derive(Args, Clone, Debug, Default)]
pub struct Layers {
    /// Configuration file, whose keys are named as these flags; flags and the environment go before
    /// it. `tallymesh config example` prints one [default: none]
    #[arg(long, value_name = "FILE", env = "TALLYMESH_CONFIG")]
    config: Option<PathBuf>,

    #[command(flatten)]
    given: CommandLineSettings,
}

/// Settings of the command line and the environment, and which of the two each is from.
#[derive(Clone, Debug, Default)]
struct CommandLineSettings {
    args: UpArgs,
    origins: BTreeMap<String, Origin>,
}

impl FromArgMatches for CommandLineSettings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<CommandLineSettings, clap::Error> {
        let mut given = CommandLineSettings::default();
        given.update_from_arg_matches(matches)?;
        Ok(given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for arg in command().get_arguments() {
            let Some(name) = arg.get_long() else {
                continue;
            };
            let origin = match matches.value_source(arg.get_id().as_str()) {
                Some(ValueSource::CommandLine) => Origin::Flag,
                Some(ValueSource::EnvVariable) => {
                    let variable = arg.get_env().unwrap_or_default();
                    let variable = variable.to_string_lossy().into_owned();
                    Origin::Environment { variable }
                }
                _ => continue,
            };
            self.origins.insert(name.to_owned(), origin);
        }
        self.args = UpArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for CommandLineSettings {
    fn augment_args(command: Command) -> Command {
        UpArgs::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        UpArgs::augment_args_for_update(command)
    }
}

/// All settings, after the layers were put above each other.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The settings.
    pub args: UpArgs,
    /// The configuration that results from the settings.
    pub config: Config,
    origins: BTreeMap<String, Origin>,
}

/// One setting, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub key: String,
    /// The effective value, `null` if there is none. A password is hidden.
    pub value: Value,
    /// The source of the value.
    pub origin: Origin,
}

impl Layers {
    /// The same with this file instead of another, if a file is given.
    pub fn with_file(mut self, file: Option<PathBuf>) -> Layers {
        self.config = file.or(self.config);
        self
    }

    /// The file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// Reads the file, and checks and converts the settings.
    ///
    /// # Errors
    /// Returns all errors of the file, or else all invalid settings.
    pub fn effective(self) -> Result<Effective, ConfigErrors> {
        let FileSettings { args, lines } = match &self.config {
            Some(file) => file::read(file)?,
            None => FileSettings {
                args: UpArgs::default(),
                lines: BTreeMap::new(),
            },
        };
        let mut origins = self.given.origins;
        for (key, line) in lines {
            let file = self.config.clone().unwrap_or_default();
            origins.entry(key).or_insert(Origin::File { file, line });
        }
        let args = self.given.args.or(args).or(UpArgs::defaults());
        match args.clone().config() {
            Ok(config) => Ok(Effective {
                args,
                config,
                origins,
            }),
            Err(errors) => {
                let placed = |error: ConfigError| ConfigError {
                    origin: origins.get(&error.key).cloned().unwrap_or(Origin::Default),
                    ..error
                };
                let mut errors: Vec<ConfigError> = errors.0.into_iter().map(placed).collect();
                errors.sort_by(|a, b| a.origin.cmp(&b.origin));
                Err(ConfigErrors(errors))
            }
        }
    }
}

impl Effective {
    /// Each setting, sorted by name. A default that depends on other settings is shown with its
    /// effective value.
    pub fn rows(&self) -> Vec<Row> {
        let rate = self.config.http_rules.rate;
        let args = self.args.clone().or(UpArgs {
            data: Some(self.config.data.clone()),
            http_rate: Some(rate.map_or("off".into(), |it| format!("{}/s", it.per_second))),
            http_burst: rate.map(|it| it.burst),
            ..UpArgs::default()
        });
        let values = serde_json::to_value(args).unwrap_or_default();
        let row = |name: String| {
            let value = match &values[&name] {
                Value::String(_) if SECRETS.contains(&&*name) => "(hidden)".into(),
                value => value.clone(),
            };
            let origin = self.origins.get(&name).cloned();
            Row {
                key: name,
                value,
                origin: origin.unwrap_or(Origin::Default),
            }
        };
        let mut rows: Vec<Row> = names().into_iter().map(row).collect();
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        rows
    }
}
