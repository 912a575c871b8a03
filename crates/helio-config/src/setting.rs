//! The type of a setting, and how its value is read from environment variables.
//!
//! The environment is an argument, so this crate stays pure (LAYER-1); `helio_env::settings` passes the
//! process's own environment.

use std::fmt;
use std::marker::PhantomData;

/// The environment variables that set a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// `HELIOSTAT_<name>` or, for programs written for Ray, `RAY_<name>`; the first one that is set wins.
    Both,
    /// `HELIOSTAT_<name>` or `RAY_<name>`, and the name is a configuration name of Ray's, which
    /// `_system_config` takes.
    Knob,
    /// `HELIOSTAT_<name>` only.
    Own,
    /// `RAY_<name>` only.
    Ray,
    /// The variable is called as the setting is.
    Exact,
}

/// The values a setting may have, and its default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// A whole number.
    Whole {
        /// The value where nothing sets it.
        default: i64,
        /// The smallest that is allowed.
        min: i64,
        /// The largest that is allowed.
        max: i64,
    },
    /// A number.
    Number {
        /// The value where nothing sets it.
        default: f64,
        /// The smallest that is allowed.
        min: f64,
        /// The largest that is allowed.
        max: f64,
    },
    /// Yes or no.
    Flag {
        /// The value where nothing sets it.
        default: bool,
    },
    /// Any text.
    Text {
        /// The value where nothing sets it; empty for none.
        default: &'static str,
    },
    /// A word out of several, in any case.
    Choice {
        /// The value where nothing sets it.
        default: &'static str,
        /// The words.
        of: &'static [&'static str],
    },
}

/// A value as the environment or the default gives it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The value of a [`Shape::Whole`].
    Whole(i64),
    /// The value of a [`Shape::Number`].
    Number(f64),
    /// The value of a [`Shape::Flag`].
    Flag(bool),
    /// The value of a [`Shape::Text`] or a [`Shape::Choice`].
    Text(String),
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name without the prefix of a variable.
    pub name: &'static str,
    /// The variables that set it.
    pub names: Names,
    /// The values that it may have.
    pub shape: Shape,
    /// The unit of the number; empty for flags and texts.
    pub unit: &'static str,
    /// The part of the system that reads the setting.
    pub read_by: &'static str,
    /// The meaning, as lines of documentation.
    pub about: &'static str,
}

/// A setting whose value has the type `T`.
#[derive(Clone, Copy, Debug)]
pub struct Setting<T> {
    /// The setting's row of the table.
    pub row: Row,
    kind: PhantomData<T>,
}

/// An environment: the value of a variable.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Types of settings' values.
pub trait Typed: Sized {
    /// `None`: the value is of another type.
    fn of(value: Value) -> Option<Self>;
}

impl Typed for i64 {
    fn of(value: Value) -> Option<Self> {
        if let Value::Whole(number) = value { Some(number) } else { None }
    }
}

impl Typed for u64 {
    fn of(value: Value) -> Option<Self> {
        i64::of(value)?.try_into().ok()
    }
}

impl Typed for f64 {
    fn of(value: Value) -> Option<Self> {
        if let Value::Number(number) = value { Some(number) } else { None }
    }
}

impl Typed for bool {
    fn of(value: Value) -> Option<Self> {
        if let Value::Flag(flag) = value { Some(flag) } else { None }
    }
}

impl Typed for String {
    fn of(value: Value) -> Option<Self> {
        if let Value::Text(text) = value { Some(text) } else { None }
    }
}

impl<T: Typed> Setting<T> {
    pub(crate) const fn new(row: Row) -> Self {
        Self { row, kind: PhantomData }
    }

    /// The value of an environment, or the default. The error names the variable, the range and the unit.
    pub fn read(&self, environment: Environment<'_>) -> Result<T, String> {
        let value = self.row.read(environment)?;
        T::of(value)
            .ok_or_else(|| format!("{} is read as another type than its own", self.row.name))
    }
}

impl Row {
    /// The environment variables that set it; earlier ones win.
    #[must_use]
    pub fn variables(&self) -> Vec<String> {
        let own = || format!("HELIOSTAT_{}", self.name);
        let rays = || format!("RAY_{}", self.name);
        match self.names {
            Names::Both | Names::Knob => vec![own(), rays()],
            Names::Own => vec![own()],
            Names::Ray => vec![rays()],
            Names::Exact => vec![self.name.to_owned()],
        }
    }

    /// The variable that is set, and its text. An empty one counts only where no other is set.
    #[must_use]
    pub fn find(&self, environment: Environment<'_>) -> Option<(String, String)> {
        let mut set: Vec<(String, String)> = self
            .variables()
            .into_iter()
            .filter_map(|variable| environment(&variable).map(|text| (variable, text)))
            .collect();
        // Scripts unset a variable by an empty text, which must not hide the other name's value.
        let first = set.iter().position(|(_, text)| !text.trim().is_empty()).unwrap_or(0);
        (!set.is_empty()).then(|| set.swap_remove(first))
    }

    /// The value of an environment, or the default.
    pub fn read(&self, environment: Environment<'_>) -> Result<Value, String> {
        let Some((variable, text)) = self.find(environment) else { return Ok(self.default()) };
        let is_empty = text.trim().is_empty();
        // For a text an empty one is a value ("none"); a number or a flag has no empty one.
        if is_empty && !matches!(self.shape, Shape::Text { .. }) {
            return Ok(self.default());
        }
        self.parse(&text).ok_or_else(|| format!("{variable}={text:?}: give {}.", self.range()))
    }

    /// The default.
    #[must_use]
    pub fn default(&self) -> Value {
        match self.shape {
            Shape::Whole { default, .. } => Value::Whole(default),
            Shape::Number { default, .. } => Value::Number(default),
            Shape::Flag { default } => Value::Flag(default),
            Shape::Text { default } | Shape::Choice { default, .. } => {
                Value::Text(default.to_owned())
            }
        }
    }

    fn parse(&self, text: &str) -> Option<Value> {
        let trimmed = text.trim();
        match self.shape {
            Shape::Whole { min, max, .. } => {
                let number = trimmed.parse().ok()?;
                (min..=max).contains(&number).then_some(Value::Whole(number))
            }
            Shape::Number { min, max, .. } => {
                let number: f64 = trimmed.parse().ok()?;
                // `NaN` is in no range, and so refused.
                (min..=max).contains(&number).then_some(Value::Number(number))
            }
            Shape::Flag { .. } => flag(trimmed).map(Value::Flag),
            Shape::Text { .. } => Some(Value::Text(text.to_owned())),
            Shape::Choice { of, .. } => {
                let word = of.iter().find(|word| word.eq_ignore_ascii_case(trimmed))?;
                Some(Value::Text((*word).to_owned()))
            }
        }
    }

    /// The values that it may have, in words: "a number from 0 to 1 (part of the memory)".
    #[must_use]
    pub fn range(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" ({})", self.unit) };
        match self.shape {
            Shape::Whole { min, max, .. } => {
                let top = if max == i64::MAX { String::new() } else { max.to_string() };
                format!("a whole number{}{unit}", bounds(&min.to_string(), &top))
            }
            Shape::Number { min, max, .. } => {
                let text = |number: f64| {
                    // The widest bound stands for none, which needs no words.
                    if number.abs() == f64::MAX { String::new() } else { number.to_string() }
                };
                format!("a number{}{unit}", bounds(&text(min), &text(max)))
            }
            Shape::Flag { .. } => "1 or 0".to_owned(),
            Shape::Text { .. } => format!("a text{unit}"),
            Shape::Choice { of, .. } => format!("one of {}", of.join(", ")),
        }
    }
}

/// An empty bound is none.
fn bounds(min: &str, max: &str) -> String {
    match (min, max) {
        ("", "") => String::new(),
        (min, "") => format!(" from {min} up"),
        (min, max) => format!(" from {min} to {max}"),
    }
}

fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        // As in C: every number but 0 is true.
        number => number.parse::<i64>().ok().map(|number| number != 0),
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => write!(f, "{number}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Flag(flag) => write!(f, "{}", u8::from(*flag)),
            Self::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::table::{
        AUTH_TOKEN, HEALTH_CHECK_TIMEOUT_MS, LOG_TO_DRIVER, MEMORY_USAGE_THRESHOLD,
        SESSIONS_KEPT_MAX, TRAIN_VIEW,
    };

    fn of(set: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        let set: Vec<(String, String)> =
            set.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        move |wanted| set.iter().find(|(name, _)| name == wanted).map(|(_, text)| text.clone())
    }

    #[test]
    fn the_own_name_wins_and_the_default_stands_where_none_is_set() {
        let read = |set: &[(&str, &str)]| MEMORY_USAGE_THRESHOLD.read(&of(set));
        assert_eq!(read(&[]), Ok(0.95));
        assert_eq!(read(&[("RAY_memory_usage_threshold", " 0.5 ")]), Ok(0.5));
        let both =
            [("RAY_memory_usage_threshold", "0.5"), ("HELIOSTAT_memory_usage_threshold", "1")];
        assert_eq!(read(&both), Ok(1.0));
        assert_eq!(read(&[("HELIOSTAT_memory_usage_threshold", "")]), Ok(0.95));
        let empty =
            [("RAY_memory_usage_threshold", "0.5"), ("HELIOSTAT_memory_usage_threshold", " ")];
        assert_eq!(read(&empty), Ok(0.5), "an empty variable hides no other");
        let token = [("HELIOSTAT_AUTH_TOKEN", ""), ("RAY_AUTH_TOKEN", "ray")];
        assert_eq!(AUTH_TOKEN.read(&of(&token)), Ok("ray".to_owned()));
        assert_eq!(AUTH_TOKEN.read(&of(&token[..1])), Ok(String::new()));
        assert_eq!(SESSIONS_KEPT_MAX.read(&of(&[("RAY_SESSIONS_KEPT_MAX", "3")])), Ok(20));
    }

    #[test]
    fn a_bad_value_names_variable_range_and_unit() {
        let check = |error: Result<String, String>, parts: &[&str]| {
            let error = error.unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        };
        for text in ["2", "x", "nan", "-1"] {
            let set = [("RAY_memory_usage_threshold", text)];
            let read = MEMORY_USAGE_THRESHOLD.read(&of(&set)).map(|_| String::new());
            check(read, &["RAY_memory_usage_threshold", text, "from 0 to 1", "part of the memory"]);
        }
        let set = [("HELIOSTAT_health_check_timeout_ms", "-1")];
        let read = HEALTH_CHECK_TIMEOUT_MS.read(&of(&set)).map(|_| String::new());
        check(read, &["HELIOSTAT_health_check_timeout_ms", "-1", "whole number from 0", "ms"]);
        let set = [("HELIOSTAT_TRAIN_VIEW", "loud")];
        check(
            TRAIN_VIEW.read(&of(&set)),
            &["HELIOSTAT_TRAIN_VIEW", "loud", "auto, live, lines, off"],
        );
        let set = [("RAY_LOG_TO_DRIVER", "maybe")];
        check(LOG_TO_DRIVER.read(&of(&set)).map(|_| String::new()), &["maybe", "1 or 0"]);
    }

    #[test]
    fn flags_and_words_are_read_in_any_case() {
        for (text, expect) in [("1", true), ("True", true), ("off", false), ("0", false)] {
            assert_eq!(LOG_TO_DRIVER.read(&of(&[("RAY_LOG_TO_DRIVER", text)])), Ok(expect));
        }
        assert_eq!(
            TRAIN_VIEW.read(&of(&[("HELIOSTAT_TRAIN_VIEW", "LIVE")])),
            Ok("live".to_owned())
        );
    }
}
