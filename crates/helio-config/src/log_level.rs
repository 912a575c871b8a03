//! The level of a process's log.

use crate::setting::Environment;
use crate::table::BACKEND_LOG_LEVEL;

/// The importance of an entry of a log; a log holds its level and everything more important.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum LogLevel {
    /// Each step.
    Trace,
    /// Details that help to find a fault.
    Debug,
    /// Ordinary events.
    Info,
    /// A fault after which the work goes on.
    Warning,
    /// A failure.
    Error,
    /// The process ends.
    Fatal,
}

impl LogLevel {
    /// All of them, the least important one first.
    pub const ALL: [Self; 6] =
        [Self::Trace, Self::Debug, Self::Info, Self::Warning, Self::Error, Self::Fatal];

    /// The word for it that the setting takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Fatal => "fatal",
        }
    }

    /// The level that an environment asks for. A word that is not a level asks for the default, and for a
    /// warning: a program that Ray runs must not fail by the level of its log.
    #[must_use]
    pub fn read(environment: Environment<'_>) -> (Self, Option<String>) {
        let (name, warning) = match BACKEND_LOG_LEVEL.read(environment) {
            Ok(name) => (name, None),
            Err(wrong) => {
                let default = BACKEND_LOG_LEVEL.row.default().to_string();
                (default.clone(), Some(format!("{wrong} Logs have the level {default}.")))
            }
        };
        let level = Self::ALL.into_iter().find(|level| level.name() == name);
        (level.unwrap_or(Self::Info), warning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::Shape;

    fn read(text: &'static str) -> (LogLevel, Option<String>) {
        LogLevel::read(&move |name| (name == "RAY_BACKEND_LOG_LEVEL").then(|| text.to_owned()))
    }

    #[test]
    fn the_setting_takes_exactly_the_levels() {
        let Shape::Choice { of, default } = BACKEND_LOG_LEVEL.row.shape else { unreachable!() };
        assert_eq!(of, LogLevel::ALL.map(LogLevel::name));
        assert_eq!(LogLevel::read(&|_| None), (LogLevel::Info, None));
        assert_eq!(default, "info");
        for level in LogLevel::ALL {
            assert_eq!(read(level.name()), (level, None));
        }
        assert_eq!(read("WARNING"), (LogLevel::Warning, None));
    }

    #[test]
    fn a_word_that_is_no_level_is_named_and_the_default_stands() {
        let (level, warning) = read("loud");
        assert_eq!(level, LogLevel::Info);
        let warning = warning.unwrap();
        assert!(warning.contains("RAY_BACKEND_LOG_LEVEL=\"loud\""), "{warning}");
        assert!(warning.contains("trace, debug, info, warning, error, fatal"), "{warning}");
    }
}
