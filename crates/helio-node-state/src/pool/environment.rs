//! Runtime environments of workers, as far as the pool reads them.

use std::collections::BTreeMap;

use crate::limits::{WORKER_INSTALL_MS_MAX, WORKER_START_MS_MAX};

/// How long a worker may take to start: longer where it has packages to install first.
pub(super) fn start_ms_max(runtime_env: &str) -> u64 {
    let installs = ["\"pip\":", "\"uv\":"].iter().any(|field| runtime_env.contains(field));
    if installs { WORKER_INSTALL_MS_MAX } else { WORKER_START_MS_MAX }
}

/// The variables and the folder of a runtime environment.
pub(super) fn read_environment(
    json: &str,
) -> Result<(BTreeMap<String, String>, Option<String>), String> {
    if json.is_empty() {
        return Ok((BTreeMap::new(), None));
    }
    let value: serde_json::Value = serde_json::from_str(json)
        .map_err(|e| format!("the runtime environment is not JSON: {e}"))?;
    let mut env = BTreeMap::new();
    for (name, value) in value.get("env_vars").and_then(|v| v.as_object()).into_iter().flatten() {
        let Some(value) = value.as_str() else {
            return Err(format!(
                "the runtime environment's env_vars must be strings; {name} is not"
            ));
        };
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(format!(
                "the runtime environment's variable {name:?} is no environment variable"
            ));
        }
        env.insert(name.clone(), value.to_owned());
    }
    let cwd = value
        .get("working_dir")
        .and_then(|v| v.as_str())
        .filter(|dir| !dir.is_empty())
        .map(str::to_owned);
    Ok((env, cwd))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_that_are_installed_first_take_longer() {
        assert_eq!(start_ms_max(""), WORKER_START_MS_MAX);
        assert_eq!(start_ms_max(r#"{"pip": ["numpy"]}"#), WORKER_INSTALL_MS_MAX);
    }

    #[test]
    fn variables_and_the_folder_are_read() {
        let json = r#"{"env_vars": {"A": "1"}, "working_dir": "/tmp"}"#;
        let variables = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        assert_eq!(read_environment(json), Ok((variables, Some("/tmp".to_owned()))));
        assert_eq!(read_environment(""), Ok((BTreeMap::new(), None)));
        for broken in ["{", r#"{"env_vars": {"A": 1}}"#, r#"{"env_vars": {"A=B": "1"}}"#] {
            assert!(read_environment(broken).is_err(), "{broken}");
        }
    }
}
