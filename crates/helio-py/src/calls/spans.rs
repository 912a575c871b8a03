//! Spans of calls, where the process traces: Python is asked for one before a call goes out, and hands it to
//! the call as a keyword that the worker takes off again.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// The keyword that a span travels in, as on Ray.
const CARRIER: &str = "_ray_trace_ctx";

static TRACES: AtomicBool = AtomicBool::new(false);
static TRACER: RwLock<Option<Py<PyAny>>> = RwLock::new(None);

/// From here on that function gives each call a span, or with `None` there are none.
#[pyfunction]
pub(crate) fn set_tracer(tracer: Option<Py<PyAny>>) {
    TRACES.store(tracer.is_some(), Ordering::Relaxed);
    *TRACER.write() = tracer;
}

/// The kind of what is called, with its name; of a method also its actor, as hex.
pub(super) enum Called<'a> {
    Function(&'a str),
    Method(&'a str, String),
    Constructor(&'a str),
}

/// A call on its way out, within its span; the span ends with it.
pub(super) struct Spanned<'py> {
    pub(super) kwargs: Bound<'py, PyDict>,
    span: Bound<'py, PyAny>,
}

/// The span of a call that goes out now; `None` where the process does not trace.
pub(super) fn begin<'py, 'a>(
    py: Python<'py>,
    called: impl FnOnce() -> Called<'a>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Option<Spanned<'py>>> {
    if !TRACES.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let Some(tracer) = TRACER.read().as_ref().map(|tracer| tracer.clone_ref(py)) else {
        return Ok(None);
    };
    let begun = match called() {
        Called::Function(name) => tracer.bind(py).call1(("function", name, "")),
        Called::Method(name, actor) => tracer.bind(py).call1(("actor", name, actor)),
        Called::Constructor(class) => {
            tracer.bind(py).call1(("actor", format!("{class}.__init__"), ""))
        }
    };
    let (span, carrier): (Bound<'py, PyAny>, Bound<'py, PyAny>) = begun?.extract()?;
    // A copy: the caller's own dictionary must not carry the span.
    let kwargs = kwargs.map_or_else(|| Ok(PyDict::new(py)), |kwargs| kwargs.copy())?;
    kwargs.set_item(intern!(py, CARRIER), carrier)?;
    Ok(Some(Spanned { kwargs, span }))
}

impl Drop for Spanned<'_> {
    fn drop(&mut self) {
        // A span that cannot end is OpenTelemetry's affair: the call has gone out.
        let _ = self.span.call_method0(intern!(self.span.py(), "end"));
    }
}

/// Calls a function of the user, within the span that came with the call if one did.
pub(crate) fn call<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = function.py();
    let Some(kwargs) = kwargs else { return function.call1(args) };
    let Some(carrier) = kwargs.get_item(intern!(py, CARRIER))? else {
        return function.call(args, Some(kwargs));
    };
    kwargs.del_item(intern!(py, CARRIER))?;
    let run = py.import("heliostat.core.debug.tracing")?.getattr("run")?;
    run.call1((carrier, function, args, kwargs))
}
