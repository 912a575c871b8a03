//! `libraries`: packages from PyPI that run on Ray, unmodified, on the Heliostat of this checkout.
//!
//! Most live in one environment, kept between checkouts, so that what they pin decides nothing
//! elsewhere; those of `tests/libraries/environments` in one each. What is large, torch above all, they
//! take from `.venv`, which comes last on their path.

use std::path::{Path, PathBuf};

use crate::python::{self, Venv};
use crate::sh::{self, Outcome, cache, command, root};
use crate::stamp::{self, Inputs};

/// The lists of packages to install, and pip's options for each: those of the second list without their requirements.
const LISTS: [(&str, &[&str]); 2] = [("requirements.txt", &[]), ("alone.txt", &["--no-deps"])];
const ALONE: &str = ".alone";

/// Installs what is missing and runs the tests; arguments go to pytest.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let venv = Venv::at(&cache()?.join("libraries"))?;
    python::install(&venv)?;
    let lists = root().join("tests/libraries");
    for (name, options) in LISTS {
        install(&venv, &lists.join(name), options)?;
    }
    let own = python::tested()?;
    let checkout = own.packages()?;
    borrow(&venv, &checkout)?;
    let environments = cache()?.join("environments");
    for list in files(&lists.join("environments"))? {
        let stem = list.file_stem().unwrap_or_default().to_string_lossy();
        let venv = Venv::at(&environments.join(stem.trim_end_matches(ALONE)))?;
        borrow(&venv, &checkout)?;
        let options: &[&str] = if stem.ends_with(ALONE) { &["--no-deps"] } else { &[] };
        install(&venv, &list, options)?;
    }
    let mut test = command(venv.program("python"));
    test.env("HELIOSTAT_LIBRARIES", environments);
    if python::is_in_place(&own) {
        // Of two checkouts that use the environment at once each tests its own.
        test.env("PYTHONPATH", root().join("python"));
    }
    sh::run(
        test.args(["-m", "pytest", "tests/libraries", "tests/data/test_lakes.py"]).args(arguments),
    )
}

fn install(venv: &Venv, list: &Path, options: &[&str]) -> Outcome {
    let name = list.file_name().unwrap_or_default().to_string_lossy();
    let digest = Inputs::new().words(&[sh::text(list)?]).digest();
    stamp::step(&venv.stamp(&name), &digest, || {
        let list = list.display().to_string();
        venv.pip(&[options, &["-r", &list]].concat())
    })
}

/// Puts the packages of another environment last on the path of this one, with what they put there.
fn borrow(venv: &Venv, packages: &Path) -> Outcome {
    let path = venv.packages()?.join("zz-checkout.pth");
    // `addsitedir` reads the other folder's .pth files as well, by which editable installs are found.
    std::fs::write(
        &path,
        format!("import site; site.addsitedir({:?})\n", packages.display().to_string()),
    )
    .map_err(|error| format!("{}: {error}", path.display()))
}

/// The files of a folder, in order.
fn files(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.sort();
    Ok(found)
}
