//! What templates call: loaded once, found again by the template's address.

use std::collections::HashMap;
use std::sync::Arc;

use helio_proto::peer::Template;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::calls::Extra;
use crate::codec::{self, Source};

/// How many templates and functions are kept; beyond, all are forgotten and loaded again.
const KEPT_MAX: usize = 4096;

/// A template, ready to be called.
pub(super) struct Entry {
    /// Keeps the address, by which the entry is found, from being used again.
    pub(super) template: Arc<Template>,
    pub(super) extra: Arc<Extra>,
    pub(super) target: Target,
    /// The tuple of exception classes that are retried.
    pub(super) retry: Option<Py<PyAny>>,
}

/// What is called.
pub(super) enum Target {
    Function(Py<PyAny>),
    /// A method of that name of the actor.
    Method(Py<PyString>),
}

#[derive(Default)]
struct Cache {
    entries: HashMap<usize, Arc<Entry>>,
    functions: HashMap<Vec<u8>, Py<PyAny>>,
    /// How often functions with a bound on their calls were run.
    calls: HashMap<Vec<u8>, u32>,
}

/// Used under the GIL; the lock is held for no wait and no Python.
static CACHE: Mutex<Option<Cache>> = Mutex::new(None);

fn with<T>(f: impl FnOnce(&mut Cache) -> T) -> T {
    f(CACHE.lock().get_or_insert_default())
}

/// The entry of a task's template.
pub(super) fn task(py: Python<'_>, template: &Arc<Template>) -> PyResult<Arc<Entry>> {
    let load = || {
        let function = function(py, template)?;
        let module = py.import("heliostat.core.worker_main")?;
        module.getattr("name_output")?.call1((&template.name,))?;
        Ok(Target::Function(function))
    };
    find(template, load, py)
}

/// The entry of a method's template.
pub(super) fn method(py: Python<'_>, template: &Arc<Template>) -> PyResult<Arc<Entry>> {
    find(template, || Ok(Target::Method(PyString::intern(py, &template.name).unbind())), py)
}

fn find(
    template: &Arc<Template>,
    load: impl FnOnce() -> PyResult<Target>,
    py: Python<'_>,
) -> PyResult<Arc<Entry>> {
    let address = Arc::as_ptr(template) as usize;
    if let Some(entry) = with(|cache| cache.entries.get(&address).cloned()) {
        return Ok(entry);
    }
    let target = load()?;
    let extra = Extra::from_bytes(&template.extra);
    let retry = if extra.retry.is_empty() {
        None
    } else {
        Some(codec::decode(py, Source::copied(&extra.retry))?.unbind())
    };
    let entry =
        Arc::new(Entry { template: Arc::clone(template), extra: Arc::new(extra), target, retry });
    let forgotten = with(|cache| {
        let full = cache.entries.len() >= KEPT_MAX;
        let forgotten = if full { std::mem::take(&mut cache.entries) } else { HashMap::new() };
        cache.entries.insert(address, Arc::clone(&entry));
        forgotten
    });
    drop(forgotten);
    Ok(entry)
}

/// The function or class of a template. Equal pickles give the same object, whoever sent them.
pub(super) fn function(py: Python<'_>, template: &Template) -> PyResult<Py<PyAny>> {
    let known =
        with(|cache| cache.functions.get(&template.function_id).map(|known| known.clone_ref(py)));
    if let Some(known) = known {
        return Ok(known);
    }
    let loads = py.import("pickle")?.getattr("loads")?;
    let loaded = loads.call1((PyBytes::new(py, &template.function),))?.unbind();
    let forgotten = with(|cache| {
        let full = cache.functions.len() >= KEPT_MAX;
        let forgotten = if full { std::mem::take(&mut cache.functions) } else { HashMap::new() };
        cache.functions.insert(template.function_id.clone(), loaded.clone_ref(py));
        forgotten
    });
    drop(forgotten);
    Ok(loaded)
}

/// Counts a call of a function that ends its process after `max_calls`; whether this was the last.
pub(super) fn is_last(template: &Template) -> bool {
    if template.max_calls == 0 {
        return false;
    }
    with(|cache| {
        let calls = cache.calls.entry(template.function_id.clone()).or_default();
        *calls += 1;
        *calls >= template.max_calls
    })
}
