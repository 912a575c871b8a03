//! Each bug that can be planted in a machine has a row in the simulator's table, and each row a place.

use std::collections::BTreeMap;

use super::Source;

const TABLE: &str = "crates/helio-sim/src/mutants.rs";

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut planted: BTreeMap<&str, &str> = BTreeMap::new();
    let mut rows: Vec<&str> = Vec::new();
    for source in sources.iter().filter(|source| source.is("rs")) {
        if source.path == TABLE {
            rows.extend(names(&source.text, "row(").filter_map(|row| row.get(1).copied()));
        } else if source.path.starts_with("crates/")
            && source.path != "crates/helio-types/src/mutants.rs"
        {
            let here = names(&source.text, "mutant!(").filter_map(|words| words.first().copied());
            planted.extend(here.map(|name| (name, source.path.as_str())));
        }
    }
    let without_row = planted.iter().filter(|(name, _)| !rows.contains(name));
    let without_place = rows.iter().filter(|name| !planted.contains_key(**name));
    let missing =
        |(name, path): (&&str, &&str)| format!("{path}: mutant `{name}` has no row in {TABLE}");
    let stale = |name: &&str| format!("{TABLE}: no machine has the mutant `{name}`");
    without_row.map(missing).chain(without_place.map(stale)).collect()
}

/// The strings that stand first behind each `opening`, up to the end of the line or the bracket.
fn names<'a>(text: &'a str, opening: &'a str) -> impl Iterator<Item = Vec<&'a str>> {
    text.split(opening).skip(1).map(|rest| {
        let inside = rest.split(')').next().unwrap_or_default();
        inside.split('"').skip(1).step_by(2).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_mutant_without_a_row_and_a_row_without_a_mutant_are_found() {
        let table = source(
            TABLE,
            "row(\n    \"retries\",\n    \"known\",\n    \"b\",\n), row(\"x\", \"stale\", \"c\")",
        );
        let machine = source(
            "crates/helio-node-state/src/a.rs",
            "if mutant!(\"known\") || mutant!(\"new\") {}",
        );
        let problems = check(&[table, machine]);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("`new`") && problems[1].contains("`stale`"));
    }
}
