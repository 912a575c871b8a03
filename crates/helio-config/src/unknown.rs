//! Variables of the environment that are set in vain.

use crate::log_level::LogLevel;
use crate::setting::Environment;
use crate::table::{INTERNAL, table};

/// Edits that a misspelt name may be away from the setting that is offered for it.
const EDITS_MAX: usize = 3;

const OWN: &str = "HELIOSTAT_";

/// Returns a sentence for each `HELIOSTAT_*` variable that no setting answers to, with the nearest
/// name.
pub fn unknown<'a>(variables: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let known = known();
    let mut strange: Vec<&str> = variables
        .into_iter()
        .filter(|name| name.starts_with(OWN) && !known.iter().any(|known| known == name))
        .collect();
    strange.sort_unstable();
    strange.into_iter().map(|name| sentence(name, &known)).collect()
}

/// Returns a sentence for each variable that changes nothing though it is meant to: no setting answers to it,
/// or its value is not taken.
pub fn warnings<'a>(
    variables: impl IntoIterator<Item = &'a str>,
    environment: Environment<'_>,
) -> Vec<String> {
    let mut found = unknown(variables);
    found.extend(LogLevel::read(environment).1);
    found
}

fn known() -> Vec<String> {
    let settings = table().flat_map(|row| row.variables());
    let internal = INTERNAL.iter().map(|(name, _)| (*name).to_owned());
    settings.chain(internal).filter(|name| name.starts_with(OWN)).collect()
}

fn sentence(name: &str, known: &[String]) -> String {
    let hint = match nearest(name, known.iter().map(String::as_str)) {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => "docs/settings.md lists all settings.".to_owned(),
    };
    format!("The environment variable {name} is not a setting of Heliostat; {hint}")
}

/// The known name that a misspelt one was meant to be; capitals do not count. None: no name is near.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let edits_max = EDITS_MAX.min(name.chars().count() / 2);
    let apart = |known: &str| distance(&name.to_lowercase(), &known.to_lowercase());
    let found = known.into_iter().map(|known| (apart(known), known)).min();
    found.filter(|(edits, _)| *edits <= edits_max).map(|(_, known)| known)
}

/// The number of insertions, deletions and replacements between two names.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_variable_is_named_with_the_nearest_setting() {
        let set = [
            "PATH",
            "HELIOSTAT_memory_usage_treshold",
            "HELIOSTAT_TRAIN_VIEW",
            "HELIOSTAT_NODE_SOCKET",
            "HELIOSTAT_SESSION_KEPT_MAX",
            "HELIOSTAT_something_else_altogether",
            "RAY_unheard_of",
        ];
        let said = unknown(set);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].contains("did you mean HELIOSTAT_SESSIONS_KEPT_MAX?"), "{}", said[0]);
        assert!(said[1].contains("did you mean HELIOSTAT_memory_usage_threshold?"), "{}", said[1]);
        assert!(said[2].contains("docs/settings.md"), "{}", said[2]);
    }
}
