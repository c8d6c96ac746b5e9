//! The output of a command: text for people or JSON for programs.
//!
//! Text never contains control characters for the terminal. Commands put a value into a line by
//! [`text`] or [`escape::value`]. All that they missed is escaped here, except line breaks and
//! tabs.

use super::failure::Failure;
use serde_json::Value;
use std::io::{self, StdoutLock, Write};
use std::process::ExitCode;
use tallymesh_node_ground::escape;

/// Standard output, in one of two forms.
pub(super) struct Output {
    json: bool,
    out: StdoutLock<'static>,
}

impl Output {
    pub(super) fn new(json: bool) -> Output {
        Output {
            json,
            out: io::stdout().lock(),
        }
    }

    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints one line: `value` for programs, and the result of `text` for people.
    pub(super) fn line(
        &mut self,
        value: &Value,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        match self.json {
            true => writeln!(self.out, "{}", escape::json(&value.to_string()))?,
            false => writeln!(self.out, "{}", escape::layout(&text()))?,
        }
        Ok(())
    }

    /// Prints a remark that is no result, for people, to standard error.
    pub(super) fn remark(&mut self, text: &str) -> Result<(), Failure> {
        self.out.flush()?;
        // If standard error is closed, only the results are printed.
        let _ = writeln!(io::stderr(), "{}", escape::layout(text));
        Ok(())
    }

    /// Prints the end of a command and turns it into an exit code.
    pub(super) fn finish(mut self, result: Result<(), Failure>) -> ExitCode {
        let result = result.and_then(|()| Ok(self.out.flush()?));
        let Err(failure) = result else {
            return ExitCode::SUCCESS;
        };
        let code = failure.exit_code();
        if code != 0 {
            let text = match self.json {
                true => escape::json(&failure.json().to_string()).into_owned(),
                false => format!("error: {}", failure.text()),
            };
            // If standard error is closed too, only the exit code is left.
            let _ = writeln!(io::stderr(), "{text}");
        }
        ExitCode::from(code)
    }
}

/// A field as text, without the quotes of JSON and without control characters for the terminal.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => escape::value(text).into_owned(),
        Value::Null => "-".into(),
        other => escape::value(&other.to_string()).into_owned(),
    }
}
