//! Pickle: the C pickler first; `cloudpickle` when that fails, or when the pickle names a module whose
//! contents the reader will not have.
//!
//! Once a class has a serializer of the runtime, the pickler is one with a dispatch table of its own:
//! picklers that belong to somebody else never see these serializers.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use memchr::memmem;
use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PySet, PyString};

use super::exported::Exported;
use super::purpose::Purpose;
use super::view::View;
use crate::object_ref::Collected;

/// A pickle and the buffers beside it.
pub(super) struct Pickled<'py> {
    pub(super) data: Bound<'py, PyBytes>,
    pub(super) buffers: Vec<Exported>,
}

thread_local! {
    /// The buffers of each value that this thread is pickling.
    static BUFFERS: RefCell<Vec<Vec<Exported>>> = const { RefCell::new(Vec::new()) };
}

/// The pickler found a buffer: it stays out of the pickle (`False`) if its bytes lie in one piece.
#[pyfunction]
pub(crate) fn _buffer_callback(buffer: &Bound<'_, PyAny>) -> bool {
    let Ok(buffer) = Exported::get(buffer) else { return true };
    BUFFERS.with_borrow_mut(|stack| match stack.last_mut() {
        Some(list) => {
            list.push(buffer);
            false
        }
        None => true,
    })
}

/// Whether `heliostat.core.serialize` has had a reducer registered; until then `pickle.dumps` is enough.
static DISPATCH_TABLE: AtomicBool = AtomicBool::new(false);

#[pyfunction]
pub(crate) fn _use_dispatch_table() {
    DISPATCH_TABLE.store(true, Ordering::Relaxed);
}

/// Whether other threads of this process run Python, or have.
fn has_threads(_: Python<'_>) -> bool {
    // SAFETY: the GIL is held. Threads of Python go out of the list of threads with the GIL, too.
    unsafe {
        let newest = ffi::PyInterpreterState_ThreadHead(ffi::PyInterpreterState_Get());
        !newest.is_null() && !ffi::PyThreadState_Next(newest).is_null()
    }
}

/// Python objects that pickle, looked up once.
struct Tools {
    dumps: Py<PyAny>,
    /// `{"buffer_callback": _buffer_callback}`
    keywords: Py<PyDict>,
    loads: Py<PyAny>,
}

fn tools(py: Python<'_>) -> PyResult<&Tools> {
    static TOOLS: PyOnceLock<Tools> = PyOnceLock::new();
    TOOLS.get_or_try_init(py, || {
        let pickle = py.import("pickle")?;
        let keywords = PyDict::new(py);
        keywords.set_item(
            "buffer_callback",
            py.import("heliostat._heliostat")?.getattr("_buffer_callback")?,
        )?;
        Ok(Tools {
            dumps: pickle.getattr("dumps")?.unbind(),
            keywords: keywords.unbind(),
            loads: pickle.getattr("loads")?.unbind(),
        })
    })
}

/// `heliostat.core.serialize`, where the rarer ways are written in Python.
fn helper<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import(intern!(py, "heliostat.core.serialize"))?.getattr(name)
}

/// Pickles a value.
pub(super) fn dumps<'py>(
    value: &Bound<'py, PyAny>,
    collected: &Collected,
    purpose: Purpose<'_>,
) -> PyResult<Pickled<'py>> {
    let py = value.py();
    let tools = tools(py)?;
    prepare_torch(py)?;
    let mark = collected.mark();
    let plain = with_buffers(|| {
        let keywords = tools.keywords.bind(py);
        let data = if DISPATCH_TABLE.load(Ordering::Relaxed) {
            helper(py, "table_dumps")?.call1((value, keywords))?
        } else {
            tools.dumps.bind(py).call((value, 5), Some(keywords))?
        };
        Ok(data.cast_into::<PyBytes>()?)
    });
    // Plain pickle names classes and functions by their module, which is of no use where other
    // processes do not have it.
    if let Ok(pickled) = &plain
        && !names_unshared_code(py, pickled.data.as_bytes())?
    {
        return plain;
    }
    drop(plain);
    // The second attempt collects the same references again.
    collected.back_to(mark);
    with_buffers(|| {
        let data = helper(py, "cloud_dumps")?.call1((value, tools.keywords.bind(py)))?;
        Ok(data.cast_into::<PyBytes>()?)
    })
    .map_err(|error| explain(value, error, purpose))
}

fn with_buffers<'py>(
    pickle: impl FnOnce() -> PyResult<Bound<'py, PyBytes>>,
) -> PyResult<Pickled<'py>> {
    BUFFERS.with_borrow_mut(|stack| stack.push(Vec::new()));
    let data = pickle();
    let buffers = BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default();
    Ok(Pickled { data: data?, buffers })
}

/// Whether the pickle mentions a module that goes by value: the script, or one that the user
/// registered. A string that happens to look like it costs a second pickle, nothing else.
fn names_unshared_code(py: Python<'_>, pickle: &[u8]) -> PyResult<bool> {
    if memmem::find(pickle, b"__main__").is_some() {
        return Ok(true);
    }
    let Some(modules) = by_value_modules(py)? else { return Ok(false) };
    if modules.is_empty() {
        return Ok(false);
    }
    for module in modules {
        let name = module.cast::<PyString>()?.to_str()?;
        if memmem::find(pickle, name.as_bytes()).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The names that `cloudpickle.register_pickle_by_value` was given; `None` while nobody has loaded it.
fn by_value_modules(py: Python<'_>) -> PyResult<Option<&Bound<'_, PySet>>> {
    static MODULES: PyOnceLock<Py<PySet>> = PyOnceLock::new();
    if MODULES.get(py).is_none() {
        let Some(module) = loaded(py, intern!(py, "cloudpickle.cloudpickle"))? else {
            return Ok(None);
        };
        let Some(names) = module.getattr_opt(intern!(py, "_PICKLE_BY_VALUE_MODULES"))? else {
            return Ok(None);
        };
        // Set by another thread meanwhile: it is the same set.
        let _ = MODULES.set(py, names.cast_into::<PySet>()?.unbind());
    }
    Ok(MODULES.get(py).map(|names| names.bind(py)))
}

/// A module, if it has been imported.
pub(super) fn loaded<'py>(
    py: Python<'py>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let modules = MODULES.get_or_try_init(py, || {
        PyResult::Ok(py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?.unbind())
    })?;
    modules.bind(py).get_item(name)
}

/// Once torch is there, its tensors get a quick way to be pickled.
fn prepare_torch(py: Python<'_>) -> PyResult<()> {
    static DONE: PyOnceLock<()> = PyOnceLock::new();
    if DONE.get(py).is_none() && loaded(py, intern!(py, "torch"))?.is_some() {
        match helper(py, "register_torch")?.call0() {
            Ok(true_or_false) if true_or_false.is_truthy()? => {
                let _ = DONE.set(py, ());
            }
            Ok(_) => {}
            // Torch is being imported by another thread; next time then.
            Err(error) if error.is_instance_of::<PyImportError>(py) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The error for a value that cannot be pickled, naming the member that is to blame.
fn explain(value: &Bound<'_, PyAny>, error: PyErr, purpose: Purpose<'_>) -> PyErr {
    let py = value.py();
    let (what, name) = match purpose {
        Purpose::Put => ("put", ""),
        Purpose::Argument(name) => ("argument", name),
        Purpose::Result(name) => ("result", name),
        Purpose::Value => ("value", ""),
    };
    let made = helper(py, "unserializable")
        .and_then(|make| make.call1((value, error.value(py), what, name)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// Loads a pickle that lies at `offset` of the source, with the buffers beside it.
pub(super) fn loads<'py>(
    py: Python<'py>,
    pickle: &Bound<'py, PyAny>,
    buffers: Vec<View>,
) -> PyResult<Bound<'py, PyAny>> {
    // Another thread may be importing what the pickle names.
    let loads = match has_threads(py) {
        true => helper(py, "orderly_loads")?,
        false => tools(py)?.loads.bind(py).clone(),
    };
    if buffers.is_empty() {
        return loads.call1((pickle,));
    }
    let list = PyList::empty(py);
    for buffer in buffers {
        list.append(Bound::new(py, buffer)?)?;
    }
    let keywords = PyDict::new(py);
    keywords.set_item(intern!(py, "buffers"), list)?;
    loads.call((pickle,), Some(&keywords))
}
