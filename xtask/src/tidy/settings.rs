//! Settings come from the one table: sources name no `HELIOSTAT_*` variable that is not in it, and the environment is read through `helio_env::settings` only.

use std::collections::BTreeSet;

use super::Source;
use helio_config::table::{INTERNAL, table};

/// The generated page, below the repository.
pub(crate) const PAGE: &str = "docs/settings.md";

/// Crates that read the environment themselves: the door to it, and the simulator's tests.
const READERS: &[&str] = &["helio-env"];

const OWN: &str = "HELIOSTAT_";

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut problems = Vec::new();
    let known: BTreeSet<String> = table()
        .flat_map(|row| row.variables())
        .chain(INTERNAL.iter().map(|(name, _)| (*name).to_owned()))
        .collect();
    for source in sources.iter().filter(|source| is_product(source)) {
        for (line, number) in source.parts().0.lines().zip(1..) {
            for name in named(line).filter(|name| !known.contains(*name)) {
                problems.push(format!(
                    "{}:{number}: {name} is in no table: add it to crates/helio-config/src/table.rs",
                    source.path
                ));
            }
        }
        if source.krate().is_some_and(|krate| !READERS.contains(&krate)) {
            for (number, _) in source.code().filter(|(_, line)| reads_setting(line)) {
                problems.push(format!(
                    "{}:{number}: read settings by helio_env::settings, not from the environment",
                    source.path
                ));
            }
        }
    }
    problems
}

/// Variables of the system (HOME, PYTHONPATH) are nobody's settings.
fn reads_setting(line: &str) -> bool {
    line.contains("env::var") && ["\"HELIOSTAT_", "\"RAY_"].iter().any(|name| line.contains(name))
}

fn is_product(source: &Source) -> bool {
    (source.is("rs")
        && source.path.starts_with("crates/")
        && source.krate() != Some("helio-config"))
        || source.path.starts_with("python/")
}

/// The variables that a line names in full.
fn named(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices(OWN).filter_map(move |(at, _)| {
        let rest = &line[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let name = &rest[..end];
        // A prefix alone stands for all of them, and so does one before a placeholder.
        (!name.ends_with('_') && !matches!(name, "HELIOSTAT_X" | "HELIOSTAT_x")).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    fn problems(path: &str, text: &str) -> usize {
        check(&[source(path, text)]).len()
    }

    #[test]
    fn variables_outside_of_the_table_are_found() {
        assert_eq!(problems("python/heliostat/a.py", "x = env[\"HELIOSTAT_NEW\"]"), 1);
        assert_eq!(problems("crates/helio-node/src/a.rs", "(\"HELIOSTAT_NEW\", 1)"), 1);
        assert_eq!(
            problems("python/heliostat/a.py", "env[\"HELIOSTAT_TRAIN_VIEW\"]; \"HELIOSTAT_*\""),
            0
        );
        assert_eq!(problems("tests/api/test_a.py", "env[\"HELIOSTAT_NEW\"]"), 0);
    }

    #[test]
    fn reading_the_environment_elsewhere_is_found() {
        assert_eq!(problems("crates/helio-node/src/a.rs", "let a = std::env::var(\"RAY_A\");"), 1);
        assert_eq!(problems("crates/helio-env/src/a.rs", "let a = std::env::var(\"RAY_A\");"), 0);
    }
}
