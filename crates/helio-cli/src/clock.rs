//! The date, for names and headings, in UTC.

use std::fmt;

/// A moment, split for reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Moment {
    year: i64,
    month: u32,
    day: u32,
    seconds: u64,
    micros: u32,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self::from_micros(helio_env::clock::unix_us())
    }

    fn from_micros(unix_us: u64) -> Self {
        let seconds = unix_us / 1_000_000;
        // Days since 0000-03-01, so that the leap day is the last of its year (Hinnant's
        // `civil_from_days`).
        let days = (seconds / 86_400) as i64 + 719_468;
        let era = days / 146_097;
        let day_of_era = days % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month: month as u32,
            day: (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32,
            seconds: seconds % 86_400,
            micros: (unix_us % 1_000_000) as u32,
        }
    }

    /// `2026-01-31_23-59-59_000001`, for file names.
    pub(crate) fn file_name(self) -> String {
        let Self { year, month, day, seconds, micros } = self;
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        format!("{year:04}-{month:02}-{day:02}_{hour:02}-{minute:02}-{second:02}_{micros:06}")
    }
}

/// `2026-01-31 23:59:59.000001`.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, seconds, micros } = self;
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}")
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
