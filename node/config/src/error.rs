//! The errors of settings, and the places where they were written.

use serde::Serialize;
use serde_json::{Value, json};
use std::fmt;
use std::path::PathBuf;
use tallymesh_node_ground::escape;

/// The source of a setting's value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase", tag = "from")]
pub enum Origin {
    /// The command line.
    Flag,
    /// A variable of the environment.
    Environment {
        /// The name of the variable.
        variable: String,
    },
    /// The configuration file.
    File {
        /// The file.
        file: PathBuf,
        /// The line, from 1; 0 if it is no particular line.
        line: usize,
    },
    /// None of these: the value is the default.
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

/// An invalid setting, or a file that can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// A stable name of the kind of error.
    pub code: &'static str,
    /// The setting, such as `http`; empty for an error of a whole file.
    pub key: String,
    /// The place where it was written.
    pub origin: Origin,
    /// The error, and the advice.
    pub problem: String,
}

/// An error for an invalid value, from any source.
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

/// All errors of a node's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl ConfigErrors {
    /// Returns the value, or records the error and returns `None`.
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
