//! The installed package: its import is cheap, and its stub says what the binary has.

use crate::python::{self, Venv};
use crate::sh::{self, Outcome, command, root};

/// The budget of `import heliostat` in milliseconds of a core, and how often to try: the best run counts, the others
/// are noise.
const BUDGET_MS: f64 = 100.0;
const TRIES: usize = 7;

/// Too heavy to load before they are asked for.
const HEAVY: &[&str] = &["numpy", "torch", "pyarrow", "pandas", "asyncio"];

pub(super) fn run() -> Outcome<Vec<String>> {
    let venv = python::built()?;
    let mut problems: Vec<String> = stub(&venv)?.lines().map(str::to_owned).collect();
    let mut runs = Vec::new();
    for _ in 0..TRIES {
        runs.push(import(&venv)?);
    }
    problems.extend(judge(&runs));
    Ok(problems)
}

fn stub(venv: &Venv) -> Outcome<String> {
    sh::read(command(venv.program("python")).arg(root().join("xtask/stub.py")))
}

/// Runs an import in a fresh interpreter. Returns "milliseconds module module …", the modules being
/// heavy ones.
fn import(venv: &Venv) -> Outcome<String> {
    let program = format!(
        "import sys, time; t = time.process_time(); import heliostat; \
         print((time.process_time() - t) * 1e3, *[m for m in {HEAVY:?} if m in sys.modules])"
    );
    sh::read(command(venv.program("python")).args(["-c", &program]))
}

fn judge(runs: &[String]) -> Vec<String> {
    let mut best = f64::INFINITY;
    let mut problems = Vec::new();
    for run in runs {
        let mut words = run.split_whitespace();
        let took = words.next().and_then(|word| word.parse().ok()).unwrap_or(f64::INFINITY);
        best = best.min(took);
        problems.extend(words.map(|heavy| format!("import heliostat: loads {heavy} unasked")));
    }
    if best > BUDGET_MS {
        problems.push(format!("import heliostat: {best:.0} ms, the budget is {BUDGET_MS:.0} ms"));
    }
    problems.dedup();
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(runs: &[&str]) -> Vec<String> {
        judge(&runs.iter().map(|run| (*run).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_best_run_counts() {
        assert_eq!(problems(&["250.1\n", "31.5\n"]), Vec::<String>::new());
        assert_eq!(problems(&["250.1\n", "101.2\n"]).len(), 1);
        assert_eq!(problems(&["what"]).len(), 1);
    }

    #[test]
    fn heavy_modules_are_named_once() {
        let said = problems(&["20 numpy\n", "20 numpy\n"]);
        assert_eq!(said, ["import heliostat: loads numpy unasked"]);
    }
}
