//! Runtime environments: what a worker's process is started with, beyond its job's code.

use crate::wire::{messages, number_list, numbers};

messages! {
    /// A runtime environment. The daemon acts on the typed fields, which the language front fills in; equal
    /// environments share workers. The default: none, or the job's.
    #[derive(Eq, PartialOrd, Ord)]
    pub struct RuntimeEnv {
        /// Environment variables of the process, by name.
        1 variables: Vec<Variable>,
        /// The folder that the process starts in; empty: the job's.
        2 working_dir: String,
        /// The steps that prepare the environment before the process runs code.
        3 steps: Vec<EnvStep>,
        /// The environment as its user wrote it, in the form of the language front (Python: JSON). It is a free
        /// dictionary: the core hands it to processes and to those who list workers, and does not read it.
        4 document: String,
        /// Milliseconds that the environment's steps may take. 0: the default; [`SETUP_UNBOUNDED`]:
        /// no limit.
        5 setup_ms_max: u64,
    }
    /// An environment variable.
    #[derive(Eq, PartialOrd, Ord)]
    pub struct Variable { 1 name: String, 2 value: String }
}

/// The value of [`RuntimeEnv::setup_ms_max`] for no bound.
pub const SETUP_UNBOUNDED: u64 = u64::MAX;

/// The exit code of a worker whose environment was not made in time: others would not do better.
pub const SETUP_TIMED_OUT: i32 = 78;

/// The exit code of a worker whose environment cannot be made: others would fail as it did.
pub const SETUP_FAILED: i32 = 79;

numbers! {
    /// A step that prepares a runtime environment.
    pub enum EnvStep {
        /// Packages are installed by `pip`.
        #[default]
        Pip = 0,
        /// Packages are installed by `uv`.
        Uv = 1,
        /// The process enters a folder.
        WorkingDir = 2,
        /// Modules are made importable.
        PyModules = 3,
        /// An interpreter of conda is found or made.
        Conda = 4,
        /// Plugins make their fields.
        Plugins = 5,
        /// A container is started from an image.
        Container = 6,
        /// A container image, named by its URI alone.
        ImageUri = 7,
    }
}
number_list!(EnvStep);

impl RuntimeEnv {
    /// Returns an environment that sets these variables and does nothing else.
    #[must_use]
    pub fn with_variables(variables: &[(&str, &str)]) -> Self {
        let variable = |&(name, value): &(&str, &str)| Variable {
            name: name.to_owned(),
            value: value.to_owned(),
        };
        Self { variables: variables.iter().map(variable).collect(), ..Self::default() }
    }

    /// Whether there is none, or the job's is meant.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether something is fetched or installed before the process runs code.
    #[must_use]
    pub fn is_made_first(&self) -> bool {
        !self.steps.is_empty()
    }
}

impl EnvStep {
    /// The step's field in an environment that a user writes.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Pip => "pip",
            Self::Uv => "uv",
            Self::WorkingDir => "working_dir",
            Self::PyModules => "py_modules",
            Self::Conda => "conda",
            Self::Plugins => "_plugins",
            Self::Container => "container",
            Self::ImageUri => "image_uri",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_reads_back_with_its_steps() {
        let env = RuntimeEnv {
            working_dir: "/srv".into(),
            steps: EnvStep::ALL.to_vec(),
            document: "{}".into(),
            setup_ms_max: SETUP_UNBOUNDED,
            ..RuntimeEnv::with_variables(&[("A", "")])
        };
        assert_eq!(crate::decode::<RuntimeEnv>(&crate::encode(&env)).as_ref(), Ok(&env));
        assert!(env.is_made_first() && !env.is_empty());
        assert!(crate::encode(&RuntimeEnv::default()).is_empty(), "no environment takes no room");
        let unknown = [3 << 3 | 2, 1, 99];
        let error =
            crate::decode::<RuntimeEnv>(&unknown).expect_err("WIRE-1: there is no such step");
        assert!(error.to_string().contains("EnvStep has no number 99"), "{error}");
    }
}
