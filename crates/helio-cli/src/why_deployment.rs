//! `why` of an application or deployment of Serve: its controller knows, and Python asks it
//! (`serve/explanation.py`).

use std::process::{Command, Stdio};

use helio_report::Resource;
use helio_report::select::shown;

use crate::state::Cluster;

/// The class of the actor that runs what Serve has.
const CONTROLLER: &str = "ServeController";

/// Returns the controller's explanation; `None`: Serve does not run, or has nothing of that name.
pub(crate) fn of(cluster: &Cluster, name: &str) -> Result<Option<String>, String> {
    let is_controller = |row: &helio_report::Row| {
        let is = |column: &str, value: &str| row.get(column).map(shown).as_deref() == Some(value);
        is("class_name", CONTROLLER) && is("state", "ALIVE")
    };
    if !cluster.rows(Resource::Actors)?.iter().any(is_controller) {
        return Ok(None);
    }
    let python = helio_env::settings::read(&helio_config::table::PYTHON)?;
    let failed = |error: &dyn std::fmt::Display| format!("{python}: {error}");
    let told = Command::new(&python)
        .args(["-m", "heliostat.serve.explanation", name])
        .env("HELIOSTAT_ADDRESS", cluster.address())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(&error))?;
    if !told.status.success() {
        return Err(failed(&told.status));
    }
    let text = String::from_utf8_lossy(&told.stdout).trim_end().to_owned();
    Ok((!text.is_empty()).then_some(text))
}
