//! Counts tests from the output of their runners.

use std::fmt;

/// Counts of tests that passed, failed and were skipped.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests that failed, and stages that ended with an error.
    pub(crate) failed: u64,
    /// The names of tests that did not run.
    pub(crate) skipped: Vec<String>,
    /// The text to show for each failure.
    pub(crate) failures: Vec<String>,
}

impl Tally {
    /// The counts of one success.
    pub(crate) fn pass() -> Tally {
        Tally {
            passed: 1,
            ..Tally::default()
        }
    }

    /// Counts a failure and stores its text.
    pub(crate) fn fail(&mut self, why: String) {
        self.failed += 1;
        self.failures.push(why);
    }

    /// Counts a skipped test.
    pub(crate) fn skip(&mut self, test: &str) {
        self.skipped.push(test.to_owned());
    }

    /// Adds another tally.
    pub(crate) fn join(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend(other.skipped);
        self.failures.extend(other.failures);
    }

    fn ran(&self) -> u64 {
        self.passed + self.failed
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed,
            self.failed,
            self.skipped.len()
        )
    }
}

/// A test runner, by the format of its output.
#[derive(Debug, Clone, Copy)]
pub(super) enum Runner {
    /// Rust's harness, and the one of wasm-bindgen-test, which imitates it.
    Rust,
    /// `node --test`, in its TAP or its spec format.
    Node,
}

impl Runner {
    /// Counts the tests in a runner's output.
    ///
    /// A run that failed without a failed test (it did not compile, or it crashed) counts as one failure. A
    /// run without any test counts as one too, because it proves nothing.
    pub(super) fn tally(self, output: &str, success: bool) -> Tally {
        // The wasm runner writes its status with carriage returns in front of the first line.
        let lines = output.split(['\n', '\r']).map(str::trim);
        let mut tally = match self {
            Runner::Rust => rust(lines),
            Runner::Node => node(lines),
        };
        if !success && tally.failed == 0 {
            tally.failed = 1;
        } else if success && tally.ran() == 0 {
            tally.fail("no test ran".to_owned());
        }
        tally
    }
}

fn rust<'a>(lines: impl Iterator<Item = &'a str>) -> Tally {
    let mut tally = Tally::default();
    let mut named_before = 0;
    for line in lines {
        if let Some(result) = line.strip_prefix("test result: ") {
            tally.passed += number_before(result, " passed");
            tally.failed += number_before(result, " failed");
            // One result line closes one binary. The names of its ignored tests are above it.
            let told = named_before + number_before(result, " ignored");
            while (tally.skipped.len() as u64) < told {
                tally.skip("a test without a name");
            }
            named_before = tally.skipped.len() as u64;
        } else if let Some((name, verdict)) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.rsplit_once(" ... "))
            && verdict.starts_with("ignored")
        {
            tally.skip(name);
        }
    }
    tally
}

fn number_before(text: &str, word: &str) -> u64 {
    text.find(word)
        .and_then(|at| text[..at].rsplit(|c: char| !c.is_ascii_digit()).next())
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0)
}

fn node<'a>(lines: impl Iterator<Item = &'a str>) -> Tally {
    let mut tally = Tally::default();
    let mut told = 0;
    for line in lines {
        let total = line
            .strip_prefix("# ")
            .or_else(|| line.strip_prefix("ℹ "))
            .and_then(|rest| rest.split_once(' '))
            .and_then(|(word, number)| Some((word, number.parse::<u64>().ok()?)));
        match total {
            Some(("pass", number)) => tally.passed += number,
            Some(("fail" | "cancelled", number)) => tally.failed += number,
            Some(("skipped" | "todo", number)) => told += number,
            _ => tally.skipped.extend(skipped_name(line)),
        }
    }
    for _ in tally.skipped.len() as u64..told {
        tally.skip("a test without a name");
    }
    tally
}

/// The name in `ok 3 - name # SKIP why` (TAP) or `﹣ name (0.1ms) # why` (spec).
fn skipped_name(line: &str) -> Option<String> {
    if let Some(rest) = line.strip_prefix("﹣ ") {
        let name = rest.split(" (").next().unwrap_or(rest);
        return Some(name.to_owned());
    }
    let (test, directive) = line.split_once(" # ")?;
    let (_, name) = test.split_once(" - ")?;
    (test.starts_with("ok ") && (directive.starts_with("SKIP") || directive.starts_with("TODO")))
        .then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_harness_output_is_counted() {
        let output = "running 2 tests\ntest a ... ok\ntest b::c ... ignored, needs a disk\n\n\
            test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
        let tally = Runner::Rust.tally(output, false);
        assert_eq!((tally.passed, tally.failed), (4, 2));
        assert_eq!(tally.skipped, ["b::c"]);
    }

    #[test]
    fn wasm_runner_status_does_not_hide_the_result() {
        let output = "Executing bindgen...        \r            \rtest result: ok. 7 passed; 0 failed; 0 ignored; 0 filtered out";
        assert_eq!(Runner::Rust.tally(output, true).passed, 7);
    }

    #[test]
    fn node_output_is_counted_in_both_formats() {
        let tap = "ok 1 - adds\nok 2 - waits # SKIP no browser\n# tests 2\n# pass 1\n# fail 0\n# cancelled 0\n# skipped 1\n# todo 0";
        let tally = Runner::Node.tally(tap, true);
        assert_eq!((tally.passed, tally.failed), (1, 0));
        assert_eq!(tally.skipped, ["waits"]);
        let spec = "✔ adds (1ms)\n﹣ waits (0.1ms) # no browser\nℹ pass 4\nℹ fail 1\nℹ skipped 1";
        let tally = Runner::Node.tally(spec, false);
        assert_eq!((tally.passed, tally.failed), (4, 1));
        assert_eq!(tally.skipped, ["waits"]);
    }

    #[test]
    fn a_run_without_tests_or_with_a_crash_fails() {
        assert_eq!(Runner::Rust.tally("no tests to run!", true).failed, 1);
        assert_eq!(
            Runner::Rust.tally("error: could not compile", false).failed,
            1
        );
        assert_eq!(Runner::Node.tally("", false).failed, 1);
    }
}
