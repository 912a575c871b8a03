//! `lint`, `test`, `docs` and `demo`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;

use crate::python::{self, Venv};
use crate::sh::{self, Outcome, command, have};
use crate::stamp::{self, Inputs};

/// The formatters and the linters, cheapest first; all of them run, whatever the first one finds.
pub(crate) fn lint() -> Outcome {
    let venv = python::tools()?;
    let mut outcomes = lint_python(&venv);
    outcomes.extend(lint_rust());
    outcomes.push(crate::tidy::run());
    all(outcomes)
}

fn lint_python(venv: &Venv) -> Vec<Outcome> {
    let ruff = || command(venv.program("ruff"));
    vec![
        sh::run(ruff().args(["format", "--quiet", "--check", "."])),
        sh::run(ruff().args(["check", "--quiet", "."])),
        sh::run(command(venv.program("mypy")).arg("--no-error-summary")),
    ]
}

fn lint_rust() -> Vec<Outcome> {
    let mut outcomes = vec![
        sh::run(cargo().args(["fmt", "--all", "--check"])),
        sh::run(cargo().args(["clippy", "--quiet", "--workspace", "--all-targets"]).args(DENY)),
    ];
    // Its advisories come over the network, and are looked up by hand: `cargo deny check advisories`.
    if have("cargo", &["deny", "--version"]) {
        let checks = ["deny", "check", "bans", "licenses", "sources"];
        outcomes.push(sh::run(cargo().args(checks)));
    } else {
        eprintln!("cargo deny is not installed: licences and bans go unchecked");
    }
    outcomes
}

/// An error that has those of all outcomes.
pub(crate) fn all(outcomes: Vec<Outcome>) -> Outcome {
    let errors: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
}

pub(crate) const DENY: [&str; 3] = ["--", "-D", "warnings"];

/// Number of failed tests (of Rust: test programs), run side by side, up to which they are run once more, alone: of a few the
/// machine may be the cause.
const REPEATED_MAX: usize = 10;
const PASSED_ALONE: &str = "\nFailed beside others and passed alone, so look for what they race with (their reports are above):";

/// Runs every check.
///
/// Two rows of work side by side, for none keeps the cores busy from its begin to its end: the linters and the tests
/// of Rust, which compile most of the time, and those of Python, which wait a third of theirs.
pub(crate) fn test(arguments: &[String]) -> Outcome {
    let venv = python::tools()?;
    let cancelled = AtomicBool::new(false);
    let (of_rust, of_python) = std::thread::scope(|scope| {
        let of_rust = scope.spawn(|| lint_and_test_rust(&cancelled));
        let built = lint_and_build(&venv);
        // Nobody waits half an hour for what a linter said in the first minute.
        cancelled.store(built.is_err(), Ordering::Relaxed);
        let of_python = built.and_then(|venv| test_python(&venv, arguments));
        (of_rust.join(), of_python)
    });
    let of_rust = of_rust.unwrap_or_else(|_| Err(ENDED.into()));
    all(vec![of_python, of_rust.and_then(|failed| rust_alone(&failed))])
}

fn test_python(venv: &Venv, arguments: &[String]) -> Outcome {
    let pytest = || {
        let mut pytest = command(venv.program("python"));
        pytest.args(["-m", "pytest"]);
        pytest
    };
    if !arguments.is_empty() {
        return sh::run(pytest().args(arguments));
    }
    let failures = sh::root().join(".pytest_cache/v/cache/lastfailed");
    let _ = std::fs::remove_file(&failures); // of an earlier run
    // Two more than there are cores, for tests wait much of their time. Those of a file share a
    // cluster and stay in one process; tests/helpers/longest.py says which files begin.
    let processes = (2 + available_parallelism().map_or(1, usize::from).min(4)).to_string();
    let side_by_side = ["--dist", "loadfile", "--numprocesses", &processes];
    let outcome = sh::run(pytest().args(side_by_side));
    let failed = std::fs::read_to_string(&failures).unwrap_or_default();
    let failed: Vec<&str> = failed.lines().filter_map(|line| line.split('"').nth(1)).collect();
    // Without a list of failed tests pytest itself failed, which a second run does not mend.
    if outcome.is_ok() || failed.is_empty() || failed.len() > REPEATED_MAX {
        return outcome;
    }
    eprintln!("{} failed beside others; whether they fail alone, too:", failed.len());
    sh::run(pytest().args(["--last-failed", "--numprocesses", "0"]))?;
    eprintln!("{PASSED_ALONE}");
    failed.iter().for_each(|test| eprintln!("  {test}"));
    Ok(())
}

const ENDED: &str = "a thread has ended";

/// Lints Python, and makes what its tests run on: their packages and Heliostat.
fn lint_and_build(venv: &Venv) -> Outcome<Venv> {
    let (of_packages, compiled) = std::thread::scope(|scope| {
        let of_packages = scope.spawn(|| {
            let mut outcomes = lint_python(venv); // mypy reads packages: before there are others
            outcomes.push(venv.locked_for_tests());
            outcomes
        });
        let compiled = python::compile(venv);
        (of_packages.join().unwrap_or_else(|_| vec![Err(ENDED.into())]), compiled)
    });
    all([of_packages, vec![compiled]].concat())?;
    let venv = python::tested()?;
    crate::tidy::run()?; // looks at the package that is installed
    Ok(venv)
}

/// Lints Rust and runs its tests, until they are cancelled; a step that has begun comes to its end.
///
/// Returns the test programs that failed, as arguments of cargo.
fn lint_and_test_rust(cancelled: &AtomicBool) -> Outcome<Vec<String>> {
    let lint = || all(lint_rust());
    let compile = || sh::run(tests_of_rust(cargo()).arg("--no-run"));
    let steps: [&dyn Fn() -> Outcome; 2] = [&lint, &compile];
    for step in steps {
        step()?;
        if cancelled.load(Ordering::Relaxed) {
            return Ok(Vec::new());
        }
    }
    test_rust()
}

/// The one test of Rust that takes minutes: two thousand simulated clusters.
const OF_SEEDS: &str = "seeds_pass";

/// Cargo for what nobody waits for: the rest of the machine's work comes first.
fn cargo() -> Command {
    let mut cargo = command("nice");
    cargo.args(["-n", "19", "cargo"]);
    cargo
}

/// The crates whose documentation has examples: asking each of the others for theirs takes a minute.
const WITH_EXAMPLES: [&str; 4] = ["helio-types", "helio-turns", "helio-returns", "helio-scheduler"];

/// The examples in the documentation of Rust.
fn examples_of_rust() -> Command {
    let mut cargo = cargo();
    cargo.args(["test", "--quiet", "--doc"]);
    for name in WITH_EXAMPLES {
        cargo.args(["-p", name]);
    }
    cargo
}

/// All tests of Rust but the examples.
fn tests_of_rust(mut cargo: Command) -> Command {
    cargo.args(["test", "--workspace", "--lib", "--bins", "--tests"]);
    cargo
}

/// Runs the tests of Rust, and the simulated clusters behind them, which compute and wait for nothing: they take
/// what others leave of the machine. What the tests print is shown where one fails.
///
/// Returns the test programs that failed, as arguments of cargo.
fn test_rust() -> Outcome<Vec<String>> {
    let error = |error| format!("`cargo test`: {error}");
    let report = sh::root().join("target/rust-tests.txt");
    let mut tests = tests_of_rust(command("cargo"));
    tests.args(["--quiet", "--no-fail-fast", "--", "--skip", OF_SEEDS]);
    tests.stdout(File::create(&report).map_err(error)?).stderr(Stdio::piped());
    let mut running = tests.spawn().map_err(error)?;
    let mut failed = Vec::new();
    for line in running.stderr.take().into_iter().flat_map(|stderr| BufReader::new(stderr).lines())
    {
        let line = line.map_err(error)?;
        eprintln!("{line}");
        failed.extend(failed_program(&line).map(str::to_owned));
    }
    let passed = running.wait().map_err(error)?.success();
    if !passed {
        eprintln!("{}", sh::text(&report)?);
        // None at all: they did not run.
        if failed.is_empty() || failed.len() > REPEATED_MAX {
            return Err("`cargo test --workspace` failed".into());
        }
    }
    let seeds = ["test", "--workspace", "--quiet", "--test", "seeds", OF_SEEDS];
    sh::run(cargo().args(seeds))?;
    sh::run(&mut examples_of_rust())?;
    Ok(failed)
}

/// Runs test programs once more that failed beside others.
fn rust_alone(failed: &[String]) -> Outcome {
    if failed.is_empty() {
        return Ok(());
    }
    eprintln!("{} failed beside others; whether they fail alone, too:", failed.len());
    for program in failed {
        let alone = ["--", "--test-threads", "1", "--skip", OF_SEEDS];
        sh::run(command("cargo").arg("test").args(program.split(' ')).args(alone))?;
    }
    eprintln!("{PASSED_ALONE}");
    failed.iter().for_each(|program| eprintln!("  {program}"));
    Ok(())
}

/// The arguments with which cargo runs a test program that failed, from a line of its last report.
fn failed_program(line: &str) -> Option<&str> {
    line.strip_prefix("    `")?.strip_suffix('`').filter(|program| program.starts_with("-p "))
}

/// The site of the pages below docs/.
pub(crate) fn docs() -> Outcome {
    let venv = python::documented()?;
    let index = sh::root().join("target/site/index.html");
    let stamp = sh::root().join("target/site.stamp");
    if !index.exists() && stamp.exists() {
        std::fs::remove_file(&stamp).map_err(|error| format!("{}: {error}", stamp.display()))?;
    }
    let build = || {
        let mut build = command(venv.program("mkdocs"));
        // The program advertises its next release, which is another program.
        sh::run(build.args(["build", "--strict", "--quiet"]).env("NO_MKDOCS_2_WARNING", "1"))
    };
    // A source archive has no list of its files: there the site is made each time.
    match inputs_of_site() {
        Ok(inputs) => stamp::step(&stamp, &inputs.digest(), build)?,
        Err(_) => build()?,
    }
    println!("{}", index.display());
    Ok(())
}

/// The pages, the docstrings that they show, the programs that make the site, and what these read of the environment.
fn inputs_of_site() -> Outcome<Inputs> {
    let mut git = command("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let listed = sh::read(git.args([
        "docs",
        "python",
        "xtask",
        "requirements",
        "mkdocs.yml",
        "Cargo.toml",
    ]))?;
    let files: Vec<PathBuf> =
        listed.lines().map(|line| sh::root().join(line)).filter(|path| path.is_file()).collect();
    let addresses = ["SITE_URL", "REPOSITORY_URL", "SITE_VERSION"]
        .map(|name| std::env::var(name).unwrap_or_default());
    Inputs::new().words(&addresses).files(&files)
}

/// Runs the checks that only a GPU can make; returns the program's own exit code, which says whether there is one.
pub(crate) fn gpu(arguments: &[String]) -> ExitCode {
    let run = |venv: Venv| {
        let mut program = command(venv.program("python"));
        program.arg("tests/gpu/check.py").args(arguments);
        program.status().map_err(|error| format!("cannot start tests/gpu/check.py: {error}"))
    };
    match python::tested().and_then(run) {
        Ok(status) => {
            status.code().and_then(|code| code.try_into().ok()).map_or(ExitCode::FAILURE, u8::into)
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The main job, on real input.
pub(crate) fn demo(arguments: &[String]) -> Outcome {
    let venv = python::shown()?;
    sh::run(command(venv.program("python")).arg("examples/vit_digits.py").args(arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_that_failed_are_read_from_cargos_report() {
        let report =
            "error: 2 targets failed:\n    `-p helio-env --lib`\n    `-p helio-node --test node`";
        let failed: Vec<&str> = report.lines().filter_map(failed_program).collect();
        assert_eq!(failed, ["-p helio-env --lib", "-p helio-node --test node"]);
        assert_eq!(failed_program("error: could not compile `helio-env` (lib test)"), None);
    }
}
