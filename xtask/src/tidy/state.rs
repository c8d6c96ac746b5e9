//! The state of core stays short enough to be read in an afternoon.

use std::path::Path;

/// Most lines of `core/src/state.rs` and its folder, without tests.
const LINES_MAX: usize = 5_000;

/// The lines of a file that are compiled without tests, if it belongs to the state.
pub(super) fn lines(name: &Path, text: &str) -> usize {
    let is_state = name.starts_with("core/src/state") || name == Path::new("core/src/state.rs");
    if !is_state || super::is_test(name) {
        return 0;
    }
    let is_shipped = |line: &&str| line.trim_end() != "#[cfg(test)]";
    text.lines().take_while(is_shipped).count()
}

/// The breach, if the state has so many lines.
pub(super) fn broken(lines: usize) -> Option<String> {
    (lines > LINES_MAX).then(|| {
        format!(
            "core/src/state/: {lines} lines without tests, at most {LINES_MAX}: the state is read alone, and in an \
             afternoon; what stands above it belongs into a folder of its own"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_state_are_counted_without_its_tests() {
        let text = "fn one() {}\n    #[cfg(test)]\nfn two() {}\n#[cfg(test)]\nmod tests;\n";
        assert_eq!(lines(Path::new("core/src/state.rs"), text), 3);
        assert_eq!(lines(Path::new("core/src/state/join.rs"), text), 3);
        assert_eq!(lines(Path::new("core/src/state/tests.rs"), text), 0);
        assert_eq!(lines(Path::new("core/src/replica.rs"), text), 0);
        assert_eq!(broken(LINES_MAX), None);
        assert!(broken(LINES_MAX + 1).is_some());
    }
}
