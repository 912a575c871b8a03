//! `libraries`: packages from PyPI that run on Ray, unmodified, on the Heliostat of this checkout.
//!
//! They live in an environment of their own, kept between checkouts, so that what they pin decides nothing
//! elsewhere. What is large, torch above all, they take from `.venv`, which comes last on their path.

use crate::python::{self, Venv};
use crate::sh::{self, Outcome, cache, command, root};
use crate::stamp::Inputs;

/// What is installed, and what is installed without what it requires.
const LISTS: [(&str, &[&str]); 2] = [("requirements.txt", &[]), ("alone.txt", &["--no-deps"])];

/// Installs what is missing and runs the tests; arguments go to pytest.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let venv = Venv::at(&cache()?.join("libraries"))?;
    python::install(&venv)?;
    for (name, options) in LISTS {
        let list = root().join("tests/libraries").join(name);
        let digest = Inputs::new().words(&[sh::text(&list)?]).digest();
        crate::stamp::step(&venv.stamp(name), &digest, || {
            let list = list.display().to_string();
            venv.pip(&[options, &["-r", &list]].concat())
        })?;
    }
    let own = python::tested()?;
    let torch = own.packages()?;
    let path = venv.packages()?.join("zz-checkout.pth");
    std::fs::write(&path, format!("{}\n", torch.display()))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let mut test = command(venv.program("python"));
    test.env("HELIOSTAT_LIBRARIES", "1");
    if python::is_in_place(&own) {
        // Of two checkouts that use the environment at once each tests its own.
        test.env("PYTHONPATH", root().join("python"));
    }
    sh::run(
        test.args(["-m", "pytest", "tests/libraries", "tests/data/test_lakes.py"]).args(arguments),
    )
}
