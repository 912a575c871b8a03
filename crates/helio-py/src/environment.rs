//! From the document of a runtime environment, which `heliostat.core.runtime_env.document` writes, to what the core acts on.

use helio_proto::environment::{EnvStep, RuntimeEnv, SETUP_UNBOUNDED};
use pyo3::PyResult;
use pyo3::exceptions::PyValueError;
use serde_json::{Map, Value};

/// Reads a document; the empty one means no environment, or the job's.
pub(crate) fn read(document: &str) -> PyResult<RuntimeEnv> {
    typed(document).map_err(PyValueError::new_err)
}

fn typed(document: &str) -> Result<RuntimeEnv, String> {
    if document.is_empty() {
        return Ok(RuntimeEnv::default());
    }
    let fields: Map<String, Value> = serde_json::from_str(document)
        .map_err(|error| format!("the runtime environment is not a JSON object: {error}"))?;
    let mut variables = Vec::new();
    for (name, value) in fields.get("env_vars").and_then(Value::as_object).into_iter().flatten() {
        let Some(value) = value.as_str() else {
            return Err(format!(
                "the runtime environment's env_vars must be strings; {name} is not"
            ));
        };
        variables.push((name.as_str(), value));
    }
    let working_dir = fields.get("working_dir").and_then(Value::as_str).unwrap_or_default();
    let seconds = fields.get("config").and_then(|config| config.get("setup_timeout_seconds"));
    let setup_ms_max = match seconds.and_then(Value::as_i64) {
        None => 0,
        Some(seconds) => u64::try_from(seconds).map_or(SETUP_UNBOUNDED, |s| s.saturating_mul(1000)),
    };
    let is_asked = |step: &EnvStep| fields.contains_key(step.field());
    Ok(RuntimeEnv {
        working_dir: working_dir.to_owned(),
        steps: EnvStep::ALL.into_iter().filter(is_asked).collect(),
        document: document.to_owned(),
        setup_ms_max,
        ..RuntimeEnv::with_variables(&variables)
    })
}
