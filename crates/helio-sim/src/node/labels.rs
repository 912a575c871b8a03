//! The labels, devices and runtime environments of simulated machines.

use std::collections::BTreeMap;

use helio_proto::environment::{EnvStep, RuntimeEnv};

use crate::ops::Env;

/// The label that every node has, and its values: at the head, and where it is another one.
pub(crate) const ZONE: &str = "zone";
pub(crate) const HEAD_ZONE: &str = "a";
pub(crate) const OTHER_ZONE: &str = "b";

/// The name of the GPU resource.
pub(crate) const GPU: &str = "GPU";
/// The variable by which the processes of a runtime environment are known.
const ENV: &str = "SIM_ENV";

/// A runtime environment as a call or an actor names it.
pub(crate) fn runtime_env(env: Env) -> RuntimeEnv {
    match env {
        Env::Job => RuntimeEnv::default(),
        Env::Own => RuntimeEnv::with_variables(&[(ENV, "own")]),
        Env::Broken => RuntimeEnv {
            steps: vec![EnvStep::Pip],
            ..RuntimeEnv::with_variables(&[(ENV, "broken")])
        },
    }
}

/// The runtime environment of a process with these variables.
pub(super) fn env_of(variables: &BTreeMap<String, String>) -> Env {
    match variables.get(ENV).map(String::as_str) {
        None => Env::Job,
        Some("own") => Env::Own,
        Some(_) => Env::Broken,
    }
}

pub(super) fn zone(index: usize, is_head: bool) -> &'static str {
    if is_head || index.is_multiple_of(3) { HEAD_ZONE } else { OTHER_ZONE }
}
