//! Times and durations as people write them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
pub(super) use tallymesh_node_ground::clock::duration;

/// Reads a time, such as `2027-01-31T12:00:00Z`.
pub(super) fn at(text: &str) -> Result<SystemTime, String> {
    humantime::parse_rfc3339_weak(text)
        .map_err(|problem| format!("{problem}; write a time in UTC such as 2027-01-31T12:00:00Z"))
}

/// Milliseconds, rounded up: nothing expires before its time.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970; 0 for earlier times.
pub(super) fn unix_millis(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, millis)
}

/// A time for people, from milliseconds since 1970.
pub(super) fn shown(unix_millis: u64) -> String {
    /// The last millisecond of the year 9999, which is the last that the format can show.
    const LAST: u64 = 253_402_300_799_999;
    match unix_millis > LAST {
        true => "after the year 9999".into(),
        false => {
            let at = UNIX_EPOCH + Duration::from_millis(unix_millis);
            humantime::format_rfc3339_millis(at).to_string()
        }
    }
}

/// A duration for people, in whole seconds if there are any.
pub(super) fn shown_duration(millis: u64) -> String {
    let millis = match millis >= 1000 {
        true => millis - millis % 1000,
        false => millis,
    };
    humantime::format_duration(Duration::from_millis(millis)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown() {
        assert_eq!(millis(duration("1day 12h").expect("valid")), 129_600_000);
        assert_eq!(millis(duration("1us").expect("valid")), 1);
        let time = unix_millis(at("2027-01-31T12:00:00Z").expect("valid"));
        assert_eq!(time, 1_801_396_800_000);
        assert_eq!(shown(time), "2027-01-31T12:00:00.000Z");
        assert_eq!(shown(253_402_300_799_999), "9999-12-31T23:59:59.999Z");
        assert_eq!(shown(8_640_000_000_000_000), "after the year 9999");
        assert_eq!(shown_duration(90_999), "1m 30s");
        assert_eq!(shown_duration(999), "999ms");
        assert_eq!(shown_duration(0), "0s");
        for wrong in ["", "5", "5 apples", "-5s"] {
            let problem = duration(wrong).expect_err(wrong);
            assert!(problem.contains("15m"), "{problem}");
        }
        assert!(at("tomorrow").expect_err("no time").contains("UTC"));
    }
}
