//! Where references were made, for those who look for the code behind a lost object. Recorded only when
//! `RAY_record_ref_creation_sites=1`: it costs a look at the stack for each.
//!
//! **LIMIT-1** The newest [`SITES_MAX`] are kept.

use std::collections::{HashMap, VecDeque};

use helio_config::table::RECORD_REF_CREATION_SITES;
use helio_types::ObjectId;
use parking_lot::Mutex;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

const SITES_MAX: usize = 100_000;

#[derive(Default)]
struct Sites {
    all: HashMap<ObjectId, String>,
    order: VecDeque<ObjectId>,
}

static SITES: Mutex<Option<Sites>> = Mutex::new(None);

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
    let site = py.import(intern!(py, "heliostat.core.sites")).and_then(|module| {
        module.getattr(intern!(py, "here"))?.call1((what,))?.extract::<String>()
    });
    let Ok(site) = site else { return };
    let mut sites = SITES.lock();
    let sites = sites.get_or_insert_default();
    for id in ids {
        if sites.all.insert(*id, site.clone()).is_none() {
            sites.order.push_back(*id);
        }
        if sites.order.len() > SITES_MAX
            && let Some(oldest) = sites.order.pop_front()
        {
            sites.all.remove(&oldest);
        }
    }
}

/// Where the reference was made in this process; empty when that was not recorded.
pub(crate) fn of(id: &ObjectId) -> String {
    let sites = SITES.lock();
    sites.as_ref().and_then(|sites| sites.all.get(id)).cloned().unwrap_or_default()
}
