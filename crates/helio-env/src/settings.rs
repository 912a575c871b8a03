//! Settings as this process's environment has them.

use helio_config::setting::{Row, Setting, Typed};

/// The value of a setting.
///
/// # Errors
/// Names the variable whose text is no such value, and the range.
pub fn read<T: Typed>(setting: &Setting<T>) -> Result<T, String> {
    setting.read(&variable)
}

/// The text of a setting, unless none is given or the one given is empty.
#[must_use]
pub fn text(setting: &Setting<String>) -> Option<String> {
    let given = setting.row.find(&variable).map(|(_, text)| text);
    given.filter(|text| !text.is_empty())
}

/// Whether the environment sets it.
#[must_use]
pub fn is_given(row: &Row) -> bool {
    row.find(&variable).is_some_and(|(_, text)| !text.trim().is_empty())
}

/// A sentence for each variable of the environment that is set in vain.
#[must_use]
pub fn warnings() -> Vec<String> {
    let names: Vec<String> =
        std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    helio_config::warnings(names.iter().map(String::as_str), &variable)
}

/// Returns the reason why nothing may be started with this environment, if there is one.
#[must_use]
pub fn refusal() -> Option<String> {
    helio_config::refusal(&variable)
}

/// A variable of the environment that is not a setting: one that another process of Heliostat sets, or one
/// that belongs to another program.
#[must_use]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
