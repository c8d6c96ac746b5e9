//! What is wrong with a setting, and where that was written.

use crate::escape;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt;
use std::path::PathBuf;

/// Where the value of a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase", tag = "from")]
pub enum Origin {
    /// The command line.
    Flag,
    /// A variable of the environment.
    Environment {
        /// Its name.
        variable: String,
    },
    /// The configuration file.
    File {
        /// The file.
        file: PathBuf,
        /// The line, from 1; 0 if it is none in particular.
        line: usize,
    },
    /// Nowhere: it is what holds if nothing is said.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => f.write_str("command line"),
            Origin::Environment { variable } => write!(f, "environment, {variable}"),
            Origin::File { file, line: 0 } => write!(f, "{}", file.display()),
            Origin::File { file, line } => write!(f, "{}, line {line}", file.display()),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// A setting that means nothing, or a file that can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// A stable name of the kind of error.
    pub code: &'static str,
    /// The setting, such as `http`; empty if it is about a whole file.
    pub key: String,
    /// Where it was written.
    pub origin: Origin,
    /// What is wrong with it, and what to do.
    pub problem: String,
}

/// A value that means nothing, wherever it was written.
pub(super) fn wrong(key: &str, problem: impl Into<String>) -> ConfigError {
    ConfigError {
        code: "config_value",
        key: key.to_owned(),
        origin: Origin::Flag,
        problem: problem.into(),
    }
}

impl ConfigError {
    /// The error for programs.
    pub fn json(&self) -> Value {
        let mut value = json!({ "code": self.code, "key": self.key, "detail": self.problem });
        if let (Ok(Value::Object(origin)), Some(value)) =
            (serde_json::to_value(&self.origin), value.as_object_mut())
        {
            value.extend(origin);
        }
        value
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Flag | Origin::Default => write!(f, "--{}: {}", self.key, self.problem),
            Origin::Environment { variable } => write!(f, "{variable}: {}", self.problem),
            Origin::File { .. } if self.key.is_empty() => {
                write!(f, "{}: {}", self.origin, self.problem)
            }
            Origin::File { .. } => write!(f, "{}: {}: {}", self.origin, self.key, self.problem),
        }
    }
}

impl std::error::Error for ConfigError {}

/// All that is wrong with the settings of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl ConfigErrors {
    /// What there is, or none and a further error.
    pub(super) fn note<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        result.map_err(|error| self.0.push(error)).ok()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self
            .0
            .iter()
            .map(|error| escape::value(&error.to_string()).into_owned())
            .collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}
