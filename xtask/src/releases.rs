//! `test-extras`, `newest` and `oldest`: tests with other packages than `.venv` has, in environments of their own.
//!
//! Each environment is kept between checkouts and has the Heliostat of this one.

use std::path::PathBuf;
use std::process::Command;

use crate::bench;
use crate::python::{self, Venv};
use crate::sh::{self, Outcome, cache, command, root};

/// The tests that `make test` skips where their library or their program is not installed, and those of which it
/// runs a part.
const OF_EXTRAS: &[&str] = &[
    "tests/cli/test_control_store.py",
    "tests/cli/test_metrics_command.py",
    "tests/cli/test_takeover.py",
    "tests/dashboard/test_history.py",
    "tests/dashboard/test_page.py",
    "tests/dashboard/test_page_parts.py",
    "tests/dashboard/test_rays_own_client.py",
    "tests/data/test_jax_batches.py",
    "tests/data/test_lakes.py",
    "tests/data/test_lerobot.py",
    "tests/data/test_media.py",
    "tests/data/test_record_files.py",
    "tests/docs/test_tutorial.py",
    "tests/frameworks/test_table.py",
    "tests/gpu/test_check.py",
    "tests/machines/test_launcher.py",
    "tests/machines/test_slurm.py",
    "tests/machines/test_stores.py",
    "tests/serve/test_task_queues.py",
    "tests/train/test_examples.py",
    "tests/train/test_legacy.py",
    "tests/train/test_replicas.py",
    "tests/tune/test_hyperband.py",
    "tests/tune/test_libraries.py",
    "tests/tune/test_loggers.py",
    "tests/tune/test_tracking.py",
    "tests/util/test_dashboards.py",
    "tests/util/test_metrics.py",
];
/// Tests that import TensorFlow, in a process of their own: with it triton, which torch imports, ends the process.
const OF_TENSORFLOW: [&str; 2] =
    ["tests/data/test_tf_batches.py", "tests/train/test_tensorflow.py"];
/// The tests of stores with the servers that operators run.
const OF_STORES: [&str; 8] =
    ["test", "--quiet", "-p", "helio-storage", "--test", "outside", "--", "--ignored"];
/// The browser, as distributions name it; Debian's package is `chromium`.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// The other programs that these tests start, and Debian's packages that have them.
const PROGRAMS: [(&str, &str); 8] = [
    ("etcd", "etcd-server"),
    ("munged", "munge"),
    ("prometheus", "prometheus"),
    ("redis-server", "redis-server"),
    ("rsync", "rsync"),
    ("slurmctld", "slurmctld"),
    ("slurmd", "slurmd"),
    ("sshd", "openssh-server"),
];

/// Installs the libraries of all extras and runs the tests that need one; arguments go to pytest. None is skipped.
pub(crate) fn extras(arguments: &[String]) -> Outcome {
    let browser = std::env::var_os("HELIOSTAT_BROWSER")
        .map(PathBuf::from)
        .or_else(|| BROWSERS.iter().find_map(|name| installed(name)));
    let mut packages: Vec<&str> =
        PROGRAMS.iter().filter(|(name, _)| installed(name).is_none()).map(|&(_, of)| of).collect();
    if browser.is_none() {
        packages.push("chromium");
    }
    // All that is missing is named at once, before anything of 11 GB is installed.
    let (Some(browser), true) = (browser, packages.is_empty()) else {
        return Err(format!("not installed: `apt-get install {}`", packages.join(" ")));
    };
    sh::run(command("cargo").args(OF_STORES))?;
    let venv = environment("extras")?;
    venv.locked("extras")?;
    python::install(&venv)?;
    let ray = bench::client_of_ray()?.program("python");
    let run = |files: &[&str]| {
        let mut test = pytest(&venv);
        test.env("HELIOSTAT_EXTRAS", "1"); // the whole table of tests/frameworks; a skipped test fails
        test.env("HELIOSTAT_BROWSER", &browser);
        test.env("HELIOSTAT_RAY_PYTHON", &ray);
        sh::run(test.args(files).args(arguments))
    };
    run(&OF_TENSORFLOW).and(run(OF_EXTRAS))
}

/// Returns the path of a program, which may be a daemon's.
fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let daemons = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        // Users other than root do not have the folders of daemons on their path.
        .chain(daemons)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// The releases that an environment gets, of those that pyproject.toml allows.
#[derive(Clone, Copy)]
pub(crate) enum Releases {
    Newest,
    Oldest,
}

/// Runs all tests of Python and some random programs with these releases; arguments go to pytest, which then
/// runs alone.
pub(crate) fn with(releases: Releases, arguments: &[String]) -> Outcome {
    let (name, resolution) = match releases {
        Releases::Newest => ("newest", "highest"),
        Releases::Oldest => ("oldest", "lowest-direct"),
    };
    let venv = environment(name)?;
    venv.locked("lock")?; // uv, which pip cannot do this without
    let python = venv.program("python");
    let asked = sh::read(command(&python).args(["xtask/lock.py", "asks", "test"]))?;
    let list = root().join("target").join(format!("{name}.in"));
    std::fs::write(&list, asked).map_err(|error| format!("{}: {error}", list.display()))?;
    let mut install = command(venv.program("uv"));
    install.args(["pip", "install", "--upgrade", "--resolution", resolution, "--python"]);
    sh::run(install.arg(&python).arg("--requirement").arg(&list))?;
    python::install(&venv)?;
    sh::run(command(venv.program("uv")).args(["pip", "list", "--python"]).arg(&python))?;
    if !arguments.is_empty() {
        return sh::run(pytest(&venv).args(arguments));
    }
    // Both run whatever the first one finds: each run costs an environment of its own.
    let tests = sh::run(pytest(&venv).args(["--dist", "loadfile", "--numprocesses", "auto"]));
    let mut programs = command(&python);
    programs.current_dir(root()).args(["-m", "tests.programs", "--minutes", "5"]);
    tests.and(sh::run(&mut programs))
}

fn environment(name: &str) -> Outcome<Venv> {
    Venv::at(&cache()?.join(name))
}

fn pytest(venv: &Venv) -> Command {
    let mut test = command(venv.program("python"));
    if python::is_in_place(venv) {
        // Of two checkouts that use the environment at once each tests its own.
        test.env("PYTHONPATH", root().join("python"));
    }
    test.args(["-m", "pytest"]);
    test
}
