//! The places in the code that make references, looked up on the stack for [`helio_worker::sites`].

use helio_config::table::RECORD_REF_CREATION_SITES;
use helio_types::ObjectId;
use helio_worker::sites;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

fn are_recorded(py: Python<'_>) -> bool {
    static ARE_RECORDED: PyOnceLock<bool> = PyOnceLock::new();
    // `init` has refused a value that is no flag.
    *ARE_RECORDED.get_or_init(py, || {
        helio_env::settings::read(&RECORD_REF_CREATION_SITES).unwrap_or_default()
    })
}

/// Notes that references were made by what runs now; `what` is the kind of call.
pub(crate) fn note(py: Python<'_>, ids: &[ObjectId], what: &str) {
    if !are_recorded(py) {
        return;
    }
    let site = py.import(intern!(py, "heliostat.core.call_site")).and_then(|module| {
        module.getattr(intern!(py, "here"))?.call1((what,))?.extract::<String>()
    });
    if let Ok(site) = site {
        sites::note(ids, &site);
    }
}
