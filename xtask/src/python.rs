//! Python environments, and Heliostat in them.
//!
//! `.venv` holds one of two installs, and a stamp says which: `setup` installs the wheel (release
//! build), `dev` installs a path into the checkout with a quick build in place. Tests and the demo take
//! the one that is there, brought up to date; where there is none they set up the wheel.

use crate::sh::{self, Outcome, command, root};
use crate::stamp::{self, Inputs};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const OLDEST: (u32, u32) = (3, 10);

/// A virtual environment.
pub(crate) struct Venv {
    folder: PathBuf,
}

impl Venv {
    /// The environment in this folder, made by the running Python if it is not there.
    pub(crate) fn at(folder: &Path) -> Outcome<Self> {
        let base = std::env::var("PYTHON").unwrap_or_else(|_| String::from("python3"));
        let asked = "import sys; print(*sys.version_info[:3], sys.base_prefix)";
        let said = sh::read(command(&base).args(["-c", asked]))
            .map_err(|error| format!("{error}\nHeliostat needs Python 3.10 or newer"))?;
        let mut words = said.split_whitespace();
        let mut number = || words.next().and_then(|w| w.parse().ok()).unwrap_or(0);
        let version: (u32, u32) = (number(), number());
        if version < OLDEST {
            let (major, minor) = version;
            return Err(format!(
                "`{base}` is Python {major}.{minor}; Heliostat needs 3.10 or newer \
                 (set PYTHON to another interpreter)"
            ));
        }
        let venv = Self { folder: folder.to_owned() };
        let digest = Inputs::new().words(&[said]).digest();
        stamp::step(&venv.stamp("python"), &digest, || {
            let arguments = ["-m", "venv", "--clear"];
            sh::run(command(&base).args(arguments).arg(&venv.folder))
        })?;
        Ok(venv)
    }

    /// Returns the path of its interpreter, or of a program beside it.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    pub(crate) fn stamp(&self, name: &str) -> PathBuf {
        self.folder.join(".stamps").join(name)
    }

    /// Installs requirements, unless this list of this name is what was installed last.
    pub(crate) fn need(&self, name: &str, requirements: &[String]) -> Outcome {
        let digest = Inputs::new().words(requirements).digest();
        stamp::step(&self.stamp(name), &digest, || self.pip(requirements))
    }

    /// Installs what `make lock` wrote down for a task, to the digest; pip says what it fetches.
    pub(crate) fn locked(&self, name: &str) -> Outcome {
        self.locked_with(name, &[])
    }

    /// Installs what tests need. They import a fifth of it: Python compiles that fifth, once, when it is imported,
    /// instead of pip all of it, which takes minutes.
    pub(crate) fn locked_for_tests(&self) -> Outcome {
        self.locked_with("test", &["--no-compile"])
    }

    fn locked_with(&self, name: &str, options: &[&str]) -> Outcome {
        let list = root().join("requirements").join(format!("{name}.txt"));
        let digest = Inputs::new().words(&[sh::text(&list)?]).digest();
        stamp::step(&self.stamp(name), &digest, || {
            let fixed = ["-m", "pip", "--disable-pip-version-check", "install"];
            // All that is required is in the list: pip need not ask each package for what it requires.
            let exact = ["--no-deps", "--require-hashes", "--requirement"];
            sh::run(
                command(self.program("python")).args(fixed).args(options).args(exact).arg(&list),
            )
        })
    }

    pub(crate) fn pip<T: AsRef<std::ffi::OsStr>>(&self, arguments: &[T]) -> Outcome {
        let fixed = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet"];
        sh::run(command(self.program("python")).args(fixed).args(arguments))
    }

    /// Installs this wheel as the environment's Heliostat.
    pub(crate) fn wheel(&self, wheel: &Path) -> Outcome {
        self.put(INSTALL, wheel)
    }

    /// Installs the distribution `ray`, which stands for Ray.
    pub(crate) fn ray(&self) -> Outcome {
        self.put("ray", &ray_wheel()?)
    }

    fn put(&self, name: &str, wheel: &Path) -> Outcome {
        let digest = Inputs::new().files(&[wheel.to_owned()])?.digest();
        stamp::step(&self.stamp(name), &digest, || {
            self.pip(&["--force-reinstall".as_ref(), "--no-deps".as_ref(), wheel.as_os_str()])
        })
    }

    /// Returns the folder of its packages.
    pub(crate) fn packages(&self) -> Outcome<PathBuf> {
        let asked = "import sysconfig; print(sysconfig.get_path('purelib'))";
        let said = sh::read(command(self.program("python")).args(["-c", asked]))?;
        Ok(PathBuf::from(said.trim()))
    }
}

const INSTALL: &str = "heliostat";
const IN_PLACE: &str = "in place";

/// The repository's environment.
fn checkout() -> Outcome<Venv> {
    Venv::at(&root().join(".venv"))
}

/// `.venv` as a user wants it.
pub(crate) fn setup() -> Outcome {
    let venv = checkout()?;
    venv.locked("setup")?;
    venv.wheel(&wheel()?)?;
    venv.ray()
}

/// `.venv` as a developer wants it.
pub(crate) fn dev() -> Outcome {
    let venv = tools()?;
    backend(&venv, &["place", "dev-opt"])?;
    in_place(&venv)
}

/// Installs a path into this checkout, and the distribution `ray`.
fn in_place(venv: &Venv) -> Outcome {
    let manifests = Inputs::new().files(&manifests())?.digest();
    // An environment outside of the checkout may have had another one's.
    let digest = format!("{IN_PLACE} {manifests} {}", root().display());
    stamp::step(&venv.stamp(INSTALL), &digest, || {
        venv.pip(&["--no-build-isolation", "--no-deps", "--editable", "."])
    })?;
    venv.ray()
}

/// Installs into another environment the Heliostat that `.venv` has.
pub(crate) fn install(venv: &Venv) -> Outcome {
    if is_in_place(&tested()?) {
        in_place(venv)
    } else {
        venv.wheel(&wheel()?)?;
        venv.ray()
    }
}

/// Whether the Heliostat of an environment is the checkout itself.
pub(crate) fn is_in_place(venv: &Venv) -> bool {
    std::fs::read_to_string(venv.stamp(INSTALL)).is_ok_and(|said| said.starts_with(IN_PLACE))
}

/// `.venv` with the linters, whatever Heliostat is in it.
pub(crate) fn tools() -> Outcome<Venv> {
    let venv = checkout()?;
    venv.locked("dev")?;
    Ok(venv)
}

/// `.venv` with the linters and the Heliostat that is there, up to date.
pub(crate) fn built() -> Outcome<Venv> {
    brought_up_to_date(tools()?)
}

/// `.venv` as tests want it: the install that is there, up to date, and all that tests import.
pub(crate) fn tested() -> Outcome<Venv> {
    let venv = checkout()?;
    venv.locked_for_tests()?;
    brought_up_to_date(venv)
}

/// `.venv` with what the demo imports, and no more than was there.
pub(crate) fn shown() -> Outcome<Venv> {
    let venv = checkout()?;
    venv.locked("demo")?;
    brought_up_to_date(venv)
}

/// `.venv` with what makes the site.
pub(crate) fn documented() -> Outcome<Venv> {
    let venv = checkout()?;
    venv.locked("docs")?;
    Ok(venv)
}

/// Compiles the Heliostat that an environment has, and installs nothing.
pub(crate) fn compile(venv: &Venv) -> Outcome {
    if is_in_place(venv) { backend(venv, &["place", "dev-opt"]) } else { wheel().map(drop) }
}

/// Builds Heliostat anew where the checkout has changed.
fn brought_up_to_date(venv: Venv) -> Outcome<Venv> {
    if is_in_place(&venv) {
        dev()?;
    } else {
        venv.wheel(&wheel()?)?;
        venv.ray()?;
    }
    Ok(venv)
}

/// Writes requirements/, which says what [`Venv::locked`] installs; arguments go to uv.
pub(crate) fn lock(arguments: &[String]) -> Outcome {
    let venv = Venv::at(&sh::cache()?.join("lock"))?;
    venv.locked("lock")?;
    let mut script = command(venv.program("python"));
    sh::run(script.args(["xtask/lock.py", "write"]).args(arguments))
}

/// The wheel for the running Python.
pub(crate) fn wheel() -> Outcome<PathBuf> {
    wheels(&[])?.pop().ok_or_else(|| String::from("no wheel was made"))
}

/// A wheel for each of the versions that `PYTHON_VERSIONS` names, such as "3.11 3.12", whether or not
/// their interpreters are here; for the running Python where it names none.
pub(crate) fn wheels_asked_for() -> Outcome<Vec<PathBuf>> {
    let versions = std::env::var("PYTHON_VERSIONS").unwrap_or_default();
    wheels(&versions.split([' ', ',']).filter(|word| !word.is_empty()).collect::<Vec<_>>())
}

fn wheels(versions: &[&str]) -> Outcome<Vec<PathBuf>> {
    let script = root().join("xtask/heliostat_build.py");
    let mut backend = command(checkout()?.program("python"));
    backend.arg(script).args(["wheel", "dist"]).args(versions).stderr(Stdio::inherit());
    let names = sh::read(&mut backend)?;
    Ok(names.lines().map(|name| root().join("dist").join(name)).collect())
}

/// The distribution `ray`: metadata alone, so that nothing is built.
pub(crate) fn ray_wheel() -> Outcome<PathBuf> {
    let mut pack = command(checkout()?.program("python"));
    let name = sh::read(pack.arg(root().join("xtask/ray_wheel.py")).arg("dist"))?;
    Ok(root().join("dist").join(name.trim()))
}

fn backend(venv: &Venv, arguments: &[&str]) -> Outcome {
    let script = root().join("xtask/heliostat_build.py");
    sh::run(command(venv.program("python")).arg(script).args(arguments))
}

fn manifests() -> Vec<PathBuf> {
    ["pyproject.toml", "Cargo.toml"].map(|name| root().join(name)).into()
}
