//! The glossary and the code use the same words, checked both ways.
//!
//! A term of `GLOSSARY.md` stands somewhere in the code or the other pages; and each word in the name of a public
//! type of the machines is a word of a term.

use std::collections::BTreeSet;

use super::Source;

/// The crates whose public types are the project's own nouns.
const MACHINES: &[&str] = &[
    "helio-control-state",
    "helio-node-state",
    "helio-owner-state",
    "helio-process-state",
    "helio-scheduler",
];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let Some(page) = sources.iter().find(|source| source.path == "GLOSSARY.md") else {
        return vec!["GLOSSARY.md is missing".to_owned()];
    };
    let terms: Vec<String> = page
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("| **")?.split("**").next().map(str::to_lowercase))
        .collect();
    let mut problems = unused(&terms, sources);
    problems.extend(unexplained(&terms, sources));
    problems
}

/// Terms that nothing speaks of.
fn unused(terms: &[String], sources: &[Source]) -> Vec<String> {
    let mut missing: Vec<&String> = terms.iter().collect();
    for source in sources.iter().filter(|source| source.path != "GLOSSARY.md" && !own(source)) {
        let text = source.text.to_lowercase().replace('_', " ");
        missing.retain(|term| !has_word(&text, term) && !source.text.contains(&type_name(term)));
    }
    let say = |term: &&String| format!("GLOSSARY.md: nothing speaks of \"{term}\": take it out");
    missing.iter().map(say).collect()
}

/// Whether the source is this check, whose unit tests name terms that are none.
fn own(source: &Source) -> bool {
    source.path.ends_with("tidy/glossary.rs")
}

/// `node index` as the name of a type.
fn type_name(term: &str) -> String {
    let capital = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    };
    term.split(' ').map(capital).collect()
}

/// Whether the word stands in the text, alone or in the plural.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let rest = &text[at + word.len()..];
        let rest = rest.strip_prefix('s').unwrap_or(rest);
        let ends = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        ends(text[..at].chars().next_back()) && ends(rest.chars().next())
    })
}

/// Words of public types that no term has.
fn unexplained(terms: &[String], sources: &[Source]) -> Vec<String> {
    let known: BTreeSet<&str> =
        terms.iter().flat_map(|term| term.split(' ')).map(singular).collect();
    let mut problems = Vec::new();
    for source in sources {
        let is_machine = source.krate().is_some_and(|name| MACHINES.contains(&name));
        if !is_machine || !source.is("rs") || source.is_test() {
            continue;
        }
        for (number, line) in source.code() {
            let Some(name) = public_type(line) else { continue };
            for word in words(name).iter().filter(|word| !known.contains(singular(word))) {
                problems.push(format!(
                    "{}:{number}: {name}: \"{word}\" is not in GLOSSARY.md: explain it there, or name the \
                     type with words that are",
                    source.path
                ));
            }
        }
    }
    problems
}

fn public_type(line: &str) -> Option<&str> {
    let kinds = ["pub struct ", "pub enum ", "pub trait "];
    let rest = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_alphanumeric()).next()
}

fn singular(word: &str) -> &str {
    word.strip_suffix('s').unwrap_or(word)
}

/// `NodeIndex` is "node" and "index".
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for letter in name.chars() {
        if letter.is_uppercase() || words.is_empty() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.extend(letter.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::{source, sources};
    use super::*;

    const PAGE: &str =
        "| word | meaning |\n|---|---|\n| **lease** | a right |\n| **warm pool** | ready |\n";

    fn problems(code: &str) -> Vec<String> {
        check(&[source("GLOSSARY.md", PAGE), source("crates/helio-node-state/src/a.rs", code)])
    }

    #[test]
    fn the_repository_and_its_glossary_use_the_same_words() {
        let sources = sources().expect("the repository can be read");
        assert_eq!(check(&sources), Vec::<String>::new());
    }

    #[test]
    fn a_term_that_nothing_speaks_of_is_found() {
        assert_eq!(problems("/// The leases of the warm pool.\npub struct Lease;\n").len(), 0);
        assert_eq!(problems("pub struct Lease; // warm_pool\n").len(), 0);
        assert_eq!(problems("/// A lease.\npub struct WarmPool;\n").len(), 0);
        assert_eq!(problems("pub struct Lease; // swarm pools, warm pooling\n").len(), 1);
    }

    #[test]
    fn a_type_that_no_term_explains_is_found() {
        let spoken = "/// A lease from the warm pool.\n";
        assert_eq!(
            problems(&format!("{spoken}pub struct LeasePool;\npub enum Pools {{}}\n")).len(),
            0
        );
        assert_eq!(problems(&format!("{spoken}pub struct LeaseBroker;\n")).len(), 1);
        assert_eq!(problems(&format!("{spoken}struct Broker;\n")).len(), 0);
    }
}
