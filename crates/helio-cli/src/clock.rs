//! The date, for names and headings, in UTC.

use std::fmt;
use std::time::Duration;

use time::OffsetDateTime;

/// A moment, split for reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Moment(OffsetDateTime);

impl Moment {
    pub(crate) fn now() -> Self {
        Self::from_micros(helio_env::clock::unix_us())
    }

    fn from_micros(unix_us: u64) -> Self {
        Self(OffsetDateTime::UNIX_EPOCH + Duration::from_micros(unix_us))
    }

    /// `2026-01-31_23-59-59_000001`, for file names.
    pub(crate) fn file_name(self) -> String {
        let (date, (hour, minute, second, micros)) = (self.0.date(), self.0.to_hms_micro());
        format!("{date}_{hour:02}-{minute:02}-{second:02}_{micros:06}")
    }
}

/// `2026-01-31 23:59:59.000001`.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (date, (hour, minute, second, micros)) = (self.0.date(), self.0.to_hms_micro());
        write!(f, "{date} {hour:02}:{minute:02}:{second:02}.{micros:06}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_the_calendars() {
        let check = |seconds: u64, expect: &str| {
            assert_eq!(Moment::from_micros(seconds * 1_000_000 + 42).to_string(), expect);
        };
        check(0, "1970-01-01 00:00:00.000042");
        check(951_782_399, "2000-02-28 23:59:59.000042");
        check(951_782_400, "2000-02-29 00:00:00.000042");
        check(951_868_800, "2000-03-01 00:00:00.000042");
        check(1_798_761_599, "2026-12-31 23:59:59.000042");
        assert_eq!(Moment::from_micros(7).file_name(), "1970-01-01_00-00-00_000007");
    }
}
