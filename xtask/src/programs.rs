//! Tests that run longer than `make test` lets them, each a Python program of `tests/`: random plans and programs,
//! chaos, learning, and the API as drivers outside the cluster see it.

use crate::python;
use crate::sh::{self, Outcome, command, root};

/// A package of `tests/` that is a program: `python -m tests.NAME`, in the root of the repository.
pub(crate) fn module(name: &str, arguments: &[String]) -> Outcome {
    let venv = python::tested()?;
    let mut program = command(venv.program("python"));
    program.current_dir(root());
    sh::run(program.arg("-m").arg(format!("tests.{name}")).args(arguments))
}

/// The lines of the Python package that tests reach, in drivers: a table, and pages in `target/coverage`.
pub(crate) fn coverage(arguments: &[String]) -> Outcome {
    python::tools()?; // pytest-cov is one
    let venv = python::tested()?;
    let mut pytest = command(venv.program("python"));
    pytest.env("COVERAGE_FILE", root().join("target/.coverage"));
    pytest.args(["-m", "pytest"]).args(SIDE_BY_SIDE);
    pytest.args(["--cov=heliostat", "--cov-report=term", "--cov-report=html:target/coverage"]);
    sh::run(pytest.args(arguments))
}

const SIDE_BY_SIDE: [&str; 4] = ["--dist", "loadfile", "--numprocesses", "auto"];

/// Tests of the API that a driver outside the cluster can run. Left out: what looks at the store of the driver's own
/// node, and at what `init` returns on a machine of the cluster.
const AFAR: [&str; 16] = [
    "tasks",
    "generators",
    "actor_names",
    "placement_groups",
    "actors",
    "cancelling",
    "objects",
    "errors",
    "actor_order",
    "actor_concurrency",
    "actor_lifetime",
    "actor_classes",
    "async_groups",
    "scheduling",
    "runtime_env",
    "logs",
];

/// Runs the tests of [`AFAR`], or those named, as drivers outside the cluster.
pub(crate) fn afar(arguments: &[String]) -> Outcome {
    let venv = python::tested()?;
    let mut pytest = command(venv.program("python"));
    pytest.env("TESTS_AFAR", "1").args(["-m", "pytest"]).args(SIDE_BY_SIDE);
    if arguments.is_empty() {
        pytest.args(AFAR.map(|name| format!("tests/api/test_{name}.py")));
    }
    sh::run(pytest.args(arguments))
}
