//! The places in the code that made references, for those who look for the code behind a lost object or a full
//! store. Whoever makes references notes it here, and only when `RAY_record_ref_creation_sites=1`: it costs a
//! look at the stack for each.
//!
//! **LIMIT-1** The newest [`SITES_MAX`] are kept.

use std::collections::{HashMap, VecDeque};

use helio_types::ObjectId;
use parking_lot::Mutex;

const SITES_MAX: usize = 100_000;

#[derive(Default)]
struct Sites {
    all: HashMap<ObjectId, String>,
    order: VecDeque<ObjectId>,
}

static SITES: Mutex<Option<Sites>> = Mutex::new(None);

/// The references were made at that place in the user's code.
pub fn note(ids: &[ObjectId], site: &str) {
    let mut sites = SITES.lock();
    let sites = sites.get_or_insert_default();
    for id in ids {
        if sites.all.insert(*id, site.to_owned()).is_none() {
            sites.order.push_back(*id);
        }
        if sites.order.len() > SITES_MAX
            && let Some(oldest) = sites.order.pop_front()
        {
            sites.all.remove(&oldest);
        }
    }
}

/// Returns the place at which this process made the reference; empty when that was not recorded.
#[must_use]
pub fn of(id: &ObjectId) -> String {
    let sites = SITES.lock();
    sites.as_ref().and_then(|sites| sites.all.get(id)).cloned().unwrap_or_default()
}
