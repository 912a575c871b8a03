//! Runtime environments of workers, as far as the pool reads them.

use std::collections::BTreeMap;

use helio_proto::environment::{RuntimeEnv, SETUP_UNBOUNDED};

use crate::limits::{WORKER_INSTALL_MS_MAX, WORKER_START_MS_MAX};

/// Returns the milliseconds that a worker may take to start: more where its environment is made first. None:
/// as long as it will.
pub(super) fn start_ms_max(env: &RuntimeEnv) -> Option<u64> {
    match env.setup_ms_max {
        _ if !env.is_made_first() => Some(WORKER_START_MS_MAX),
        SETUP_UNBOUNDED => None,
        0 => Some(WORKER_INSTALL_MS_MAX),
        // The worker keeps to the bound itself and says what took so long; this is for one that hangs.
        setup => Some(setup.saturating_add(WORKER_START_MS_MAX)),
    }
}

/// The variables of a runtime environment. Fails if the operating system would not take one.
pub(super) fn variables(env: &RuntimeEnv) -> Result<BTreeMap<String, String>, String> {
    let mut variables = BTreeMap::new();
    for one in &env.variables {
        if one.name.is_empty() || one.name.contains(['=', '\0']) || one.value.contains('\0') {
            return Err(format!(
                "the runtime environment's variable {:?} is not an environment variable",
                one.name
            ));
        }
        variables.insert(one.name.clone(), one.value.clone());
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use helio_proto::environment::EnvStep;

    use super::*;

    #[test]
    fn packages_that_are_installed_first_take_longer() {
        assert_eq!(start_ms_max(&RuntimeEnv::default()), Some(WORKER_START_MS_MAX));
        let pip = RuntimeEnv { steps: vec![EnvStep::Pip], ..RuntimeEnv::default() };
        assert_eq!(start_ms_max(&pip), Some(WORKER_INSTALL_MS_MAX));
        let bounded = RuntimeEnv { setup_ms_max: 5_000, ..pip.clone() };
        assert_eq!(start_ms_max(&bounded), Some(5_000 + WORKER_START_MS_MAX));
        let unbounded = RuntimeEnv { setup_ms_max: SETUP_UNBOUNDED, ..pip };
        assert_eq!(start_ms_max(&unbounded), None);
        let about = RuntimeEnv::with_variables(&[("pip", "1")]);
        assert_eq!(
            start_ms_max(&about),
            Some(WORKER_START_MS_MAX),
            "a variable of that name installs nothing"
        );
    }

    #[test]
    fn variables_that_no_process_can_have_are_refused() {
        let read = variables(&RuntimeEnv::with_variables(&[("A", "1")]));
        assert_eq!(read, Ok(BTreeMap::from([("A".to_owned(), "1".to_owned())])));
        for (name, value) in [("", "1"), ("A=B", "1"), ("A\0", "1"), ("A", "\0")] {
            let env = RuntimeEnv::with_variables(&[(name, value)]);
            assert!(variables(&env).is_err(), "{name:?} {value:?}");
        }
    }
}
