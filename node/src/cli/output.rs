//! What a command prints: text for people or JSON for programs.
//!
//! Text never holds what a terminal obeys: commands put a value into a line by [`text`] or
//! [`escape::value`], and whatever they missed is escaped here, line breaks and tabs excepted.

use super::failure::Failure;
use crate::escape;
use serde_json::Value;
use std::io::{self, StdoutLock, Write};
use std::process::ExitCode;

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

    /// Prints one line: `value` for programs, what `text` makes of it for people.
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

    /// Prints what is no result, for people, to standard error.
    pub(super) fn remark(&mut self, text: &str) -> Result<(), Failure> {
        self.out.flush()?;
        // What is left without standard error are the results.
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
            // With standard error gone too, the exit code is all that is left.
            let _ = writeln!(io::stderr(), "{text}");
        }
        ExitCode::from(code)
    }
}

/// A field as text, without the quotes of JSON and with nothing in it that a terminal obeys.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => escape::value(text).into_owned(),
        Value::Null => "-".into(),
        other => escape::value(&other.to_string()).into_owned(),
    }
}
