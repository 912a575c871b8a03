//! `tidy`: what no off-the-shelf linter knows about this repository.
//!
//! Each file here is one check. A check is a function from what it reads to a list of problems, so that
//! its unit tests can show it failing; one problem is one line that says where and what to do.

mod assertions;
mod deadlines;
mod generated;
mod glossary;
mod invariants;
mod layers;
mod lock;
mod machines;
mod modules;
mod mutants;
mod package;
pub(crate) mod settings;
mod words;

use crate::sh::{self, Outcome, root};
use std::path::Path;

/// A source file, as the checks see it.
pub(crate) struct Source {
    /// Below the repository, with forward slashes.
    path: String,
    text: String,
}

/// Runs every check and reports all that they find.
pub(crate) fn run() -> Outcome {
    let sources = sources()?;
    for warning in words::long_files(&sources) {
        eprintln!("warning: {warning}");
    }
    let mut problems = words::check(&sources);
    problems.extend(assertions::check(&sources));
    problems.extend(deadlines::check(&sources));
    problems.extend(generated::check(&sources));
    problems.extend(glossary::check(&sources));
    problems.extend(layers::check(&sources));
    problems.extend(invariants::check(&sources));
    problems.extend(machines::check(&sources));
    problems.extend(mutants::check(&sources));
    problems.extend(settings::check(&sources));
    problems.extend(modules::run()?);
    problems.extend(lock::run()?);
    problems.extend(package::run().unwrap_or_else(|error| vec![error]));
    if problems.is_empty() {
        eprintln!("tidy: {} files, nothing to mend", sources.len());
        return Ok(());
    }
    Err(format!("{}\ntidy: {} to mend", problems.join("\n"), problems.len()))
}

/// Every text file that belongs to the repository.
fn sources() -> Outcome<Vec<Source>> {
    const ENDINGS: &[&str] = &["rs", "py", "pyi", "toml", "md", "proto", "sh", "ts"];
    const BUILT: &[&str] = &["target", "dist", "__pycache__", "node_modules"];
    let mut found = Vec::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|e| format!("{folder:?}: {e}"))?;
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                if !name.starts_with('.') && !BUILT.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|e| ENDINGS.iter().any(|known| e == *known)) {
                found.push(Source { path: sh::relative(&path), text: sh::text(&path)? });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

impl Source {
    /// The crate this file belongs to, if it is below `crates/`.
    fn krate(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    fn is(&self, ending: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|known| known == ending)
    }

    /// Whether the whole file is a test: below a folder `tests`.
    fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs")
    }

    /// (the code, its unit tests): cut where a Rust file's test module begins.
    fn parts(&self) -> (&str, &str) {
        if self.is_test() {
            return ("", &self.text);
        }
        match self.unit_tests_at().filter(|_| self.is("rs")) {
            Some(at) => self.text.split_at(at),
            None => (&self.text, ""),
        }
    }

    /// The place at which the module of unit tests begins, with its attributes.
    fn unit_tests_at(&self) -> Option<usize> {
        let marks = self.text.match_indices("#[cfg(test)]\n");
        marks.map(|(at, _)| at).find(|at| {
            let mut below = self.text[*at..].lines().skip_while(|line| line.starts_with("#["));
            below.next().is_some_and(|line| line.starts_with("mod "))
        })
    }

    /// (line number, line) of the code without comments and unit tests.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.parts().0.lines().zip(1..);
        lines.map(|(line, number)| (number, line)).filter(|(_, line)| {
            let line = line.trim_start();
            !line.starts_with("//") && !line.starts_with('#')
        })
    }
}

#[cfg(test)]
pub(crate) fn source(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}
