//! The functions and methods that templates call: loaded once, found again by the template's address.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use helio_proto::template::Template;
use helio_types::Recent;
use parking_lot::Mutex;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFunction, PyString};

use crate::codec::{self, Source};
use crate::worker::title::Title;

/// Number of templates and functions that are surely kept; one that was not used for long is forgotten,
/// and loaded again when it is called.
const KEPT_MAX: usize = 1024;
/// Bytes of the pickles that are surely kept.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// A template, ready to be called.
pub(super) struct Entry {
    /// Keeps the address, by which the entry is found, from being used again.
    pub(super) template: Arc<Template>,
    pub(super) target: Target,
    /// The tuple of exception classes that are retried.
    pub(super) retry: Option<Py<PyAny>>,
    /// The title of the process while the call runs.
    pub(super) title: Title,
}

/// The function or method that a template calls.
pub(super) enum Target {
    Function(Arc<Py<PyAny>>),
    /// A method of the actor.
    Method(Method),
}

/// A method as the actor's class has it: an attribute of the instance that has its name changes nothing.
pub(super) struct Method {
    name: Py<PyString>,
    /// Whether the class has a plain function of that name; known after the first call.
    is_function: OnceLock<bool>,
}

/// A method that was found.
pub(super) enum Callable<'py> {
    /// Takes the instance as its first argument.
    Function(Bound<'py, PyAny>),
    Bound(Bound<'py, PyAny>),
}

impl Method {
    /// The method of that instance. What the class does not have is asked of the instance.
    pub(super) fn of<'py>(&self, instance: &Bound<'py, PyAny>) -> PyResult<Callable<'py>> {
        let (py, class) = (instance.py(), instance.get_type());
        let name = self.name.bind(py);
        if self.is_function.get() == Some(&true) {
            return class.getattr(name).map(Callable::Function);
        }
        let missing = py.None();
        let find = py.import("inspect")?.getattr("getattr_static")?;
        let found = find.call1((&class, name, &missing))?;
        if found.is(&missing) {
            return instance.getattr(name).map(Callable::Bound);
        }
        if *self.is_function.get_or_init(|| found.is_exact_instance_of::<PyFunction>()) {
            return Ok(Callable::Function(found));
        }
        match found.getattr_opt(intern!(py, "__get__"))? {
            Some(bind) => bind.call1((instance, class)).map(Callable::Bound),
            None => Ok(Callable::Bound(found)),
        }
    }
}

struct Cache {
    entries: Recent<usize, Arc<Entry>>,
    /// The loaded functions, by their ids.
    functions: Recent<Vec<u8>, Arc<Py<PyAny>>>,
    /// Number of runs of each function with a bound on its calls.
    calls: HashMap<Vec<u8>, u32>,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            entries: Recent::new(KEPT_MAX, KEPT_BYTES_MAX),
            functions: Recent::new(KEPT_MAX, KEPT_BYTES_MAX),
            calls: HashMap::new(),
        }
    }
}

impl Cache {
    /// A function that is not remembered by its id any more, because calls find it by their template.
    fn in_use(&self, function_id: &[u8]) -> Option<Arc<Py<PyAny>>> {
        self.entries.values().find_map(|entry| match &entry.target {
            Target::Function(known) if entry.template.function_id == function_id => {
                Some(Arc::clone(known))
            }
            _ => None,
        })
    }
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
        let module = py.import("heliostat.core.worker.main_loop")?;
        module.getattr("name_output")?.call1((&template.name,))?;
        Ok(Target::Function(function))
    };
    find(template, load, py)
}

/// The entry of a method's template.
pub(super) fn method(py: Python<'_>, template: &Arc<Template>) -> PyResult<Arc<Entry>> {
    let load = || {
        let name = PyString::intern(py, &template.name).unbind();
        Ok(Target::Method(Method { name, is_function: OnceLock::new() }))
    };
    find(template, load, py)
}

fn find(
    template: &Arc<Template>,
    load: impl FnOnce() -> PyResult<Target>,
    py: Python<'_>,
) -> PyResult<Arc<Entry>> {
    let address = Arc::as_ptr(template) as usize;
    if let (Some(entry), _forgotten) = with(|cache| cache.entries.find(&address)) {
        return Ok(entry);
    }
    let target = load()?;
    let front = &template.front;
    let retry = if front.retried.is_empty() {
        None
    } else {
        Some(codec::decode(py, Source::copied(&front.retried))?.unbind())
    };
    let title = Title::new(match &target {
        Target::Method(_) if !front.function_name.is_empty() => &front.function_name,
        Target::Method(_) | Target::Function(_) => &template.name,
    });
    let template = Arc::clone(template);
    let entry = Arc::new(Entry { template, target, retry, title });
    let bytes = entry.template.function.len();
    drop(with(|cache| cache.entries.add(address, Arc::clone(&entry), bytes)));
    Ok(entry)
}

/// The function or class of a template. Equal pickles give the same object, whoever sent them.
pub(super) fn function(py: Python<'_>, template: &Template) -> PyResult<Arc<Py<PyAny>>> {
    if let (Some(known), _forgotten) = with(|cache| cache.functions.find(&template.function_id)) {
        return Ok(known);
    }
    let loaded = match with(|cache| cache.in_use(&template.function_id)) {
        Some(known) => known,
        None => {
            let loads = py.import("pickle")?.getattr("loads")?;
            Arc::new(loads.call1((PyBytes::new(py, &template.function),))?.unbind())
        }
    };
    let (id, kept) = (template.function_id.clone(), Arc::clone(&loaded));
    drop(with(|cache| cache.functions.add(id, kept, template.function.len())));
    Ok(loaded)
}

/// Counts a call of a function that ends its process after `max_calls`; whether this was the last.
pub(super) fn is_last(template: &Template) -> bool {
    if template.max_calls == 0 {
        return false;
    }
    with(|cache| {
        if cache.calls.len() >= KEPT_MAX && !cache.calls.contains_key(&template.function_id) {
            // The counts begin anew: the process lives a little longer.
            cache.calls.clear();
        }
        let calls = cache.calls.entry(template.function_id.clone()).or_default();
        *calls += 1;
        *calls >= template.max_calls
    })
}
