//! `quick`: what a contributor runs while working, about three minutes: lint of what changed, unit tests, and a smoke
//! test of each part. `test` is what must pass.

use std::collections::BTreeSet;

use crate::check::{DENY, all};
use crate::python::{self, Venv};
use crate::sh::{self, Outcome, command};

/// A test, or a page's program, of each part: core, objects, Data, Train, Tune, RLlib, Serve, the command line.
const SMOKE: [&str; 8] = [
    "tests/docs/test_pages.py::test_the_programs_of_a_page_print_what_they_say[guide/first-steps]",
    "tests/docs/test_pages.py::test_the_programs_of_a_page_print_what_they_say[guide/objects]",
    "tests/docs/test_pages.py::test_the_programs_of_a_page_print_what_they_say[guide/data]",
    "tests/docs/test_pages.py::test_the_programs_of_a_page_print_what_they_say[guide/training]",
    "tests/docs/test_pages.py::test_the_programs_of_a_page_print_what_they_say[guide/tuning]",
    "tests/docs/test_pages.py::test_the_programs_of_a_page_print_what_they_say[guide/reinforcement-learning]",
    "tests/serve/test_batching.py::test_batches_are_as_large_as_their_measure_says",
    "tests/docs/test_commands.py",
];
/// Tests of units that simulate minutes, or wait for servers.
const SLOW_UNITS: [&str; 2] = ["tests/unit/test_ec2.py", "tests/unit/test_remote_files.py"];
/// Crates whose own tests take minutes.
const SLOW_CRATES: [&str; 2] = ["helio-sim", "helio-fuzz"];

/// Runs it; arguments go to pytest, in the place of the unit tests and the smoke tests.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let changed = changed()?;
    let crates = crates(&changed);
    let venv = python::tools()?;
    let mut outcomes = lint(&venv, &changed, &crates);
    // A fault that a linter names in seconds is not worth the minute of a build.
    all(std::mem::take(&mut outcomes))?;
    let venv = python::tested()?;
    for name in &crates {
        if !SLOW_CRATES.contains(&name.as_str()) {
            outcomes.push(sh::run(command("cargo").args(["test", "--quiet", "--lib", "-p", name])));
        }
    }
    let mut pytest = command(venv.program("python"));
    pytest.args(["-m", "pytest", "--quiet"]);
    if arguments.is_empty() {
        pytest.args(["tests/unit", "tests/unit_codec"]).args(SMOKE);
        SLOW_UNITS.iter().for_each(|path| {
            pytest.args(["--ignore", path]);
        });
    } else {
        pytest.args(arguments);
    }
    outcomes.push(sh::run(&mut pytest));
    all(outcomes)
}

fn lint(venv: &Venv, changed: &BTreeSet<String>, crates: &BTreeSet<String>) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let python: Vec<&String> = changed.iter().filter(|path| path.ends_with(".py")).collect();
    if !python.is_empty() {
        let ruff = || command(venv.program("ruff"));
        // Files that ruff is told to leave alone stay so when they are named.
        let named = ["--quiet", "--force-exclude"];
        outcomes.push(sh::run(ruff().args(["format", "--check"]).args(named).args(&python)));
        outcomes.push(sh::run(ruff().arg("check").args(named).args(&python)));
    }
    if changed.iter().any(|path| path.starts_with("python/heliostat/")) {
        outcomes.push(sh::run(command(venv.program("mypy")).arg("--no-error-summary")));
    }
    if changed.iter().any(|path| path.ends_with(".rs")) {
        outcomes.push(sh::run(command("cargo").args(["fmt", "--all", "--check"])));
    }
    if !crates.is_empty() {
        let mut clippy = command("cargo");
        clippy.args(["clippy", "--quiet", "--all-targets"]);
        crates.iter().for_each(|name| {
            clippy.args(["-p", name]);
        });
        outcomes.push(sh::run(clippy.args(DENY)));
    }
    outcomes
}

/// Files that differ from the branch `main`, and new ones that git does not ignore.
fn changed() -> Outcome<BTreeSet<String>> {
    let git = |arguments: &[&str]| sh::read(command("git").args(arguments));
    let base = ["origin/main", "main"]
        .iter()
        .find_map(|branch| git(&["merge-base", "HEAD", branch]).ok())
        // A source archive, or a clone of one branch, has no `main` to compare with.
        .unwrap_or_else(|| String::from("HEAD"));
    // Removed files cannot be formatted.
    let differ = git(&["diff", "--name-only", "--diff-filter=d", base.trim()])?;
    let fresh = git(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(differ.lines().chain(fresh.lines()).map(str::to_owned).collect())
}

/// The crates whose files these are.
fn crates(changed: &BTreeSet<String>) -> BTreeSet<String> {
    let of = |path: &String| match path.split('/').collect::<Vec<_>>()[..] {
        ["crates", name, .., file] if is_rust(file) => Some(name.to_owned()),
        ["xtask", .., file] if is_rust(file) => Some(String::from("xtask")),
        _ => None,
    };
    changed.iter().filter_map(of).collect()
}

fn is_rust(file: &str) -> bool {
    file.ends_with(".rs") || file == "Cargo.toml"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_crates_of_changed_files() {
        let changed = [
            "crates/helio-node/src/core.rs",
            "crates/helio-cli/Cargo.toml",
            "crates/helio-dashboard/page/src/page.ts",
            "xtask/src/quick.rs",
            "xtask/stub.py",
            "python/heliostat/__init__.py",
        ];
        let found = crates(&changed.map(String::from).into());
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["helio-cli", "helio-node", "xtask"]);
    }

    #[test]
    fn test_smoke_tests_are_there() {
        for test in SMOKE {
            let (file, name) = test.split_once("::").unwrap_or((test, ""));
            let text = sh::text(&sh::root().join(file)).expect("the file is there");
            assert!(text.contains(name.split('[').next().unwrap_or_default()), "{test}");
            if let Some((_, page)) = name.split_once('[') {
                let page = format!("docs/{}.md", page.trim_end_matches(']'));
                assert!(sh::root().join(&page).exists(), "{page}");
            }
        }
    }
}
