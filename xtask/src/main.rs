//! The task runner behind the Makefile: `cargo xtask <task>`.
//!
//! One file per task family: [`python`] (environments and the package in them), [`check`] (lint and
//! tests), [`programs`] (tests that run for long), [`bench`] (speed and results against Ray), [`libraries`] (third-party packages),
//! and [`tidy`] (what no off-the-shelf linter knows about this repository).
//! No dependencies but the table of settings: every task begins by building this crate.

mod bench;
mod check;
// The table itself uses nothing of its crate, whose packages would be built before every task.
#[path = "../../crates/helio-report/src/columns.rs"]
#[allow(unreachable_pub, reason = "the file is public in its crate")]
mod columns;
mod fuzz;
mod libraries;
mod mutants;
mod programs;
mod python;
mod quick;
mod releases;
mod rows;
mod scale;
mod sh;
mod simulate;
mod stamp;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <task>

  setup   .venv with a release build of Heliostat, the `ray` alias and the training extras
  dev     .venv with a quick build used in place: Python edits need no rebuild
  wheel   dist/heliostat-*.whl for the running Python, or for each in PYTHON_VERSIONS=\"3.11 3.12\"
          beside them dist/ray-*.whl, which stands for Ray
  demo    the main example, on real input
  quick   while you work, about three minutes: lint of what differs from main, unit tests, a smoke test of each part
  test    lint, cargo test, pytest
  lock    which releases the tasks install: requirements/, from pyproject.toml; arguments, such as --upgrade, go to uv
  test-extras  the tests that need a library which .venv has not: all extras, and Chromium; arguments go to pytest
  newest  the tests with the newest releases that pyproject.toml allows, and random programs; arguments go to pytest
  oldest  the same with the oldest
  docs    the site of docs/, in target/site
  lint    rustfmt, clippy, ruff, mypy, tidy; cargo deny where it is installed
  settings  writes docs/settings.md from the table in crates/helio-config
  rows    writes the Python classes of the state API's rows, and the types of the head's answers for the page
  tidy    layers, settings, invariants, imports, stub, import time, banned words
  gpu-check  what only a GPU can show; exits 77 where there is none; arguments go to tests/gpu/check.py
  bench   the table against Ray; further arguments go to bench/compare.py
  differential  the same snippets on Ray and here; arguments go to tests/differential/compare.py
  coverage  the lines of the Python package that tests reach, in target/coverage; arguments go to pytest
  programs  random programs with known answers; arguments as `--help` lists them
  plans   random plans of datasets against known answers; the same
  strangers  programs as strangers wrote them, each with its answer; --ray PYTHON runs them on the Ray of that interpreter
  afar    tests of the API a second time, as drivers outside the cluster; arguments go to pytest
  chaos   machines of namespaces under random faults, with known answers (root only); arguments as `--help` lists them
  learning  reinforcement learning, each algorithm from a seed to its return: [ALGORITHM …] --seed N
  libraries  packages from PyPI that run on Ray, each with its quick start; arguments go to pytest
  simulate  many histories of the simulator: --seeds N, --minutes M, --jobs J, --first SEED
  mutants  bugs planted in the machines, and the first seed that shows each: docs/internals/mutants.md
  fuzz    the decoders under a coverage-guided fuzzer: [TARGET …] --runs N, --keep
  scale   thousands of nodes and a million actors in simulated time: docs/scale.md; --measure: its constants";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = match arguments.split_first() {
        Some((task, rest)) => (task.as_str(), rest),
        None => ("", &[][..]),
    };
    let outcome = match task {
        "setup" => python::setup(),
        "dev" => python::dev(),
        "wheel" => python::ray_wheel().and_then(|ray| {
            let wheels = python::wheels_asked_for()?;
            [ray].iter().chain(&wheels).for_each(|path| println!("{}", path.display()));
            Ok(())
        }),
        "demo" => check::demo(rest),
        "quick" => quick::run(rest),
        "test" => check::test(rest),
        "lock" => python::lock(rest),
        "docs" => check::docs(),
        "lint" => check::lint(),
        "settings" => write(tidy::settings::PAGE, &helio_config::page::page()),
        "rows" => write(rows::MODULE, &rows::module())
            .and_then(|()| write(rows::PAGE, &rows::page()))
            .and_then(|()| rows::answers()),
        "tidy" => tidy::run(),
        "test-extras" => releases::extras(rest),
        "newest" => releases::with(releases::Releases::Newest, rest),
        "oldest" => releases::with(releases::Releases::Oldest, rest),
        "gpu-check" => return check::gpu(rest),
        "bench" => bench::run(rest),
        "differential" => bench::differential(rest),
        "coverage" => programs::coverage(rest),
        "afar" => programs::afar(rest),
        name @ ("programs" | "plans" | "strangers" | "chaos" | "learning") => {
            programs::module(name, rest)
        }
        "libraries" => libraries::run(rest),
        "simulate" => simulate::run(rest),
        "mutants" => mutants::run(rest),
        "fuzz" => fuzz::run(rest),
        "scale" => scale::run(rest),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn write(path: &str, text: &str) -> sh::Outcome {
    let path = sh::root().join(path);
    std::fs::write(&path, text).map_err(|error| format!("{path:?}: {error}"))
}
