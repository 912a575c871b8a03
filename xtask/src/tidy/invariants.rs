//! Each invariant is stated in the doc of every module that has a part in it, and a test cites it.
//!
//! Stated: its id in bold (`**OWN-1**`) in a Rust module doc or a Python docstring. Cited: its id
//! anywhere in a test. What `ARCHITECTURE.md` states in bold must be stated by a module as well.

use super::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Ids of these families are invariants wherever they appear; a bold id founds a family.
const FAMILIES: &[&str] = &[
    "LAYER", "STATE", "CTL", "NODE", "OWN", "SHM", "GIL", "WIRE", "LIMIT", "WHY", "AUTH", "PY",
    "DASH",
];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut stated: BTreeMap<&str, &str> = BTreeMap::new();
    let mut promised: BTreeMap<&str, &str> = BTreeMap::new();
    let mut cited: BTreeMap<&str, &str> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.path.ends_with("tidy/invariants.rs")) {
        let (code, tests) = source.parts();
        for id in doc_lines(source, code).flat_map(bold) {
            stated.entry(id).or_insert(&source.path);
        }
        if source.path == "ARCHITECTURE.md" {
            promised.extend(bold(&source.text).map(|id| (id, source.path.as_str())));
        }
        if source.is("rs") || source.is("py") {
            cited.extend(ids(tests).map(|id| (id, source.path.as_str())));
        }
    }
    let mut families: BTreeSet<&str> = FAMILIES.iter().copied().collect();
    families.extend(stated.keys().map(|id| family(id)));

    let mut problems = Vec::new();
    for (id, home) in &stated {
        if !cited.contains_key(id) {
            problems.push(format!("{home}: no test cites {id}"));
        }
    }
    for (id, home) in promised.iter().chain(&cited) {
        if !stated.contains_key(id) && families.contains(family(id)) {
            problems.push(format!("{home}: no module doc states {id}"));
        }
    }
    problems.sort();
    problems.dedup();
    problems
}

fn family(id: &str) -> &str {
    id.split('-').next().unwrap_or(id)
}

/// The lines of a file that can state an invariant.
fn doc_lines<'a>(source: &'a Source, code: &'a str) -> Box<dyn Iterator<Item = &'a str> + 'a> {
    if source.is("rs") {
        return Box::new(code.lines().filter(|line| line.trim_start().starts_with("//!")));
    }
    let docstring = code.strip_prefix("\"\"\"").and_then(|rest| rest.split("\"\"\"").next());
    Box::new(docstring.filter(|_| source.is("py")).into_iter().flat_map(str::lines))
}

/// Every bold id.
fn bold(text: &str) -> impl Iterator<Item = &str> {
    text.split("**").skip(1).step_by(2).filter(|word| ids(word).next() == Some(*word))
}

/// Returns everything that looks like an id: capitals, a dash, a number.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    let outside = |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_');
    text.split(outside).filter(|word| {
        word.split_once('-').is_some_and(|(name, number)| {
            name.len() > 1
                && name.chars().all(|c| c.is_ascii_uppercase())
                && (1..3).contains(&number.len())
                && number.chars().all(|c| c.is_ascii_digit())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    const OWNER: (&str, &str) = ("crates/a/src/lib.rs", "//! **OWN-1** One owner.\n");
    const TEST: (&str, &str) = ("tests/test_a.py", "# OWN-1\n");

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files.iter().map(|(path, text)| source(path, text)).collect();
        check(&sources)
    }

    #[test]
    fn stated_and_cited_is_well() {
        assert_eq!(problems(&[OWNER, TEST]), Vec::<String>::new());
        let inline = ("crates/a/src/lib.rs", "//! **OWN-1** x\n#[cfg(test)]\nmod t { // OWN-1\n }");
        assert_eq!(problems(&[inline]), Vec::<String>::new());
        let python = ("python/heliostat/a.py", "\"\"\"A.\n\n**OWN-1** x\n\"\"\"\n");
        assert_eq!(problems(&[python, TEST]), Vec::<String>::new());
    }

    #[test]
    fn stated_without_a_test_is_a_problem() {
        assert_eq!(problems(&[OWNER]), ["crates/a/src/lib.rs: no test cites OWN-1"]);
        let mention = ("crates/b/src/lib.rs", "// OWN-1 outside of a test\n");
        assert_eq!(problems(&[OWNER, mention]).len(), 1);
    }

    #[test]
    fn cited_or_promised_without_a_home_is_a_problem() {
        assert_eq!(problems(&[TEST]), ["tests/test_a.py: no module doc states OWN-1"]);
        let promise = ("ARCHITECTURE.md", "- **OWN-1** Every object …\n");
        assert_eq!(problems(&[promise]), ["ARCHITECTURE.md: no module doc states OWN-1"]);
    }

    #[test]
    fn what_only_looks_like_an_id_is_left_alone() {
        let text = ("tests/test_b.py", "# UTF-8, SHA-256, X-1, own-1, OWN-1a\n");
        assert_eq!(problems(&[text]), Vec::<String>::new());
    }
}
