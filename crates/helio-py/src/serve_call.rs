//! Calls of Serve's handles: the way that most of them take, which is to a deployment's only replica while it has room.
//! Everything else, `serve/handle.py` and `serve/router.py` do.
//!
//! What happens here between two calls of Python's code happens at once, under the GIL: it needs no lock of the router.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PySet, PyString, PyTuple, PyType};

use crate::calls::ActorMethod;
use crate::{objects, session};

/// The ids of a process's requests begin alike, and end with a count.
static IDS: Mutex<(String, u64)> = Mutex::new((String::new(), 0));
const LAST: u64 = 0xFFFF_FFFF_FFFF;

/// Whether spans are written: each call has one.
static TRACED: AtomicBool = AtomicBool::new(false);

/// The ids of requests begin so from now on, and go on from that number.
#[pyfunction]
pub(crate) fn _serve_seed(begin: String, number: u64) {
    *IDS.lock() = (begin, number);
}

/// An id that no other request has, as a UUID is written.
#[pyfunction]
pub(crate) fn _serve_request_id() -> String {
    let mut ids = IDS.lock();
    ids.1 = (ids.1 + 1) & LAST;
    format!("{}{:012x}", ids.0, ids.1)
}

/// From now on each call has a span.
#[pyfunction]
pub(crate) fn _serve_traced() {
    TRACED.store(true, Ordering::Relaxed);
}

/// A replica, as a process's router knows it.
#[pyclass(subclass, module = "heliostat._heliostat")]
pub(crate) struct _ServeLoad {
    #[pyo3(get)]
    calls: Py<PySet>,
    #[pyo3(get, set)]
    is_leaving: bool,
    /// `handle_request` of its actor.
    #[pyo3(get, set)]
    request: Option<Py<ActorMethod>>,
}

#[pymethods]
impl _ServeLoad {
    #[new]
    #[pyo3(signature = (*_args))]
    fn new(py: Python<'_>, _args: &Bound<'_, PyTuple>) -> PyResult<Self> {
        Ok(Self { calls: PySet::empty(py)?.unbind(), is_leaving: false, request: None })
    }
}

/// The parts of a router that most calls need.
#[pyclass(subclass, module = "heliostat._heliostat")]
pub(crate) struct _ServeRouter {
    /// The replica, where there is one and no choice.
    #[pyo3(get, set)]
    only: Option<Py<_ServeLoad>>,
    /// Calls of this process that it has at most.
    #[pyo3(get, set)]
    most: usize,
    #[pyo3(get, set)]
    waiting: Py<PyAny>,
    /// The user's own choice of replicas.
    #[pyo3(get, set)]
    routing: Option<Py<PyAny>>,
    #[pyo3(get, set)]
    epoch: i64,
}

#[pymethods]
impl _ServeRouter {
    #[new]
    #[pyo3(signature = (*_args))]
    fn new(py: Python<'_>, _args: &Bound<'_, PyTuple>) -> Self {
        Self { only: None, most: 0, waiting: py.None(), routing: None, epoch: -1 }
    }
}

/// The part that all calls of a handle share.
#[pyclass(frozen, module = "heliostat._heliostat")]
pub(crate) struct _ServeRoute {
    method: Py<PyString>,
    model: Py<PyString>,
    session: Py<PyString>,
    app: Py<PyString>,
    stays_here: bool,
    /// The variable that has the context of the request which is processed.
    variable: Py<PyAny>,
    call: Py<PyType>,
    response: Py<PyType>,
}

#[pymethods]
impl _ServeRoute {
    #[new]
    #[allow(clippy::too_many_arguments, reason = "each is a field")]
    fn new(
        method: Py<PyString>,
        model: Py<PyString>,
        session: Py<PyString>,
        app: Py<PyString>,
        stays_here: bool,
        variable: Py<PyAny>,
        call: Py<PyType>,
        response: Py<PyType>,
    ) -> Self {
        Self { method, model, session, app, stays_here, variable, call, response }
    }

    /// The response of a call that was sent to the router's only replica; `None`: it has to go another way.
    fn send<'py>(
        &self,
        py: Python<'py>,
        router: &Bound<'py, _ServeRouter>,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(load) = free(router)? else { return Ok(None) };
        if TRACED.load(Ordering::Relaxed) || may_trace(py) || has_responses(args, kwargs) {
            return Ok(None);
        }
        let row = self.row(py)?;
        let (calls, request) = {
            let load = load.borrow();
            let Some(request) = &load.request else { return Ok(None) };
            (load.calls.bind(py).clone(), request.bind(py).clone())
        };
        let call = self.call.bind(py).call1((
            router,
            &row,
            &self.method,
            false,
            args,
            kwargs,
            &self.session,
            self.stays_here,
        ))?;
        let call = call.cast_into::<_ServeCall>()?;
        calls.add(&call)?;
        {
            let mut call = call.borrow_mut();
            call.load = Some(load.clone().into_any().unbind());
            call.sent_to = Some(load.into_any().unbind());
            call.is_shared = true;
        }
        let mut given = Vec::with_capacity(2 + args.len());
        given.extend([row.into_any(), self.method.bind(py).clone().into_any()]);
        given.extend(args.iter());
        let sent = request.get().remote(py, &PyTuple::new(py, given)?, Some(kwargs));
        match sent {
            Ok(sent) => call.borrow_mut().sent = Some(sent.unbind()),
            Err(error) => {
                call.call_method0(intern!(py, "release"))?;
                call.borrow_mut().error = Some(error.into_value(py).into_any());
            }
        }
        self.response.bind(py).call1((call,)).map(Some)
    }
}

impl _ServeRoute {
    /// The context of the request, as it crosses to another process.
    fn row<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let mut found = std::ptr::null_mut();
        // SAFETY: the first is a context variable, and there is a place for its value.
        let code = unsafe {
            ffi::PyContextVar_Get(self.variable.as_ptr(), std::ptr::null_mut(), &raw mut found)
        };
        if code < 0 {
            return Err(PyErr::fetch(py));
        }
        // SAFETY: a new reference; the variable has a default.
        let here = unsafe { Bound::from_owned_ptr_or_err(py, found) }?.cast_into::<PyTuple>()?;
        let id = here.get_item(0)?;
        let id =
            if id.is_truthy()? { id } else { PyString::new(py, &_serve_request_id()).into_any() };
        let app = here.get_item(2)?;
        let app = if app.is_truthy()? { app } else { self.app.bind(py).clone().into_any() };
        let model = self.model.bind(py).clone().into_any();
        PyTuple::new(py, [id, here.get_item(1)?, app, model, here.get_item(4)?])
    }
}

/// The router's only replica, if it has room and nothing is to be asked.
fn free<'py>(router: &Bound<'py, _ServeRouter>) -> PyResult<Option<Bound<'py, _ServeLoad>>> {
    let py = router.py();
    let router = router.borrow();
    let Some(only) = &router.only else { return Ok(None) };
    let only = only.bind(py);
    let load = only.borrow();
    let is_free = router.epoch == i64::from(session::session_epoch())
        && router.routing.is_none()
        && !load.is_leaving
        && load.calls.bind(py).len() < router.most
        && router.waiting.bind(py).len()? == 0;
    Ok(is_free.then(|| only.clone()))
}

/// Whether the program has loaded what makes spans.
fn may_trace(py: Python<'_>) -> bool {
    // SAFETY: a borrowed reference to a dictionary that is there as long as the interpreter.
    let modules = unsafe { ffi::PyImport_GetModuleDict() };
    let name = intern!(py, "opentelemetry.trace");
    // SAFETY: a dictionary and text, which has a hash: no error is set.
    unsafe { ffi::PyDict_Contains(modules, name.as_ptr()) == 1 }
}

fn has_responses(args: &Bound<'_, PyTuple>, kwargs: &Bound<'_, PyDict>) -> bool {
    args.iter().any(|one| one.is_instance_of::<_ServeResponse>())
        || kwargs.iter().any(|(_, one)| one.is_instance_of::<_ServeResponse>())
}

/// A call through a handle, from its queue to its answer.
#[pyclass(subclass, module = "heliostat._heliostat")]
pub(crate) struct _ServeCall {
    #[pyo3(get)]
    router: Option<Py<_ServeRouter>>,
    /// The context of the request, as it crosses to another process.
    #[pyo3(get)]
    row: Option<Py<PyTuple>>,
    #[pyo3(get)]
    method: Option<Py<PyString>>,
    #[pyo3(get)]
    streams: bool,
    #[pyo3(get, set)]
    args: Option<Py<PyAny>>,
    #[pyo3(get, set)]
    kwargs: Option<Py<PyAny>>,
    #[pyo3(get, set)]
    session: Option<Py<PyAny>>,
    /// At replicas of this node, while they have room.
    #[pyo3(get, set)]
    stays_here: bool,
    /// The reference, or the generator.
    #[pyo3(get, set)]
    sent: Option<Py<PyAny>>,
    #[pyo3(get, set)]
    error: Option<Py<PyAny>>,
    /// The replica that has it.
    #[pyo3(get, set)]
    load: Option<Py<PyAny>>,
    /// The same, also when its end was noticed.
    #[pyo3(get, set)]
    sent_to: Option<Py<PyAny>>,
    #[pyo3(get, set)]
    is_watched: bool,
    /// For one replica, not for any.
    #[pyo3(get, set)]
    is_bound: bool,
    /// Others than who makes it may ask for its outcome.
    #[pyo3(get, set)]
    is_shared: bool,
    #[pyo3(get, set)]
    waiters: Option<Py<PyAny>>,
}

#[pymethods]
impl _ServeCall {
    #[new]
    #[pyo3(signature = (router, row, method, streams, args, kwargs, session = None, stays_here = false))]
    #[allow(clippy::too_many_arguments, reason = "each is a field")]
    fn new(
        router: Py<_ServeRouter>,
        row: Py<PyTuple>,
        method: Py<PyString>,
        streams: bool,
        args: Py<PyAny>,
        kwargs: Py<PyAny>,
        session: Option<Py<PyAny>>,
        stays_here: bool,
    ) -> Self {
        Self {
            router: Some(router),
            row: Some(row),
            method: Some(method),
            streams,
            args: Some(args),
            kwargs: Some(kwargs),
            session,
            stays_here,
            sent: None,
            error: None,
            load: None,
            sent_to: None,
            is_watched: false,
            is_bound: false,
            is_shared: false,
            waiters: None,
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        for one in [&self.args, &self.kwargs, &self.sent, &self.error, &self.load, &self.waiters] {
            visit.call(one)?;
        }
        visit.call(&self.sent_to)?;
        visit.call(&self.router)
    }

    fn __clear__(&mut self) {
        (self.args, self.kwargs, self.sent, self.error) = (None, None, None, None);
        (self.load, self.sent_to, self.waiters, self.router) = (None, None, None, None);
    }
}

/// A call that was made.
#[pyclass(subclass, weakref, dict, module = "heliostat._heliostat")]
pub(crate) struct _ServeResponse {
    /// None of an answer in local testing mode: it sends nothing.
    #[pyo3(get)]
    _call: Option<Py<_ServeCall>>,
}

#[pymethods]
impl _ServeResponse {
    #[new]
    #[pyo3(signature = (first, *_rest))]
    fn new(first: Bound<'_, PyAny>, _rest: &Bound<'_, PyTuple>) -> Self {
        let call = first.cast_into::<_ServeCall>().ok();
        if let Some(call) = &call {
            call.borrow_mut().is_shared = true;
        }
        Self { _call: call.map(Bound::unbind) }
    }

    /// The answer, if the call was sent, nobody's event loop would be held up, and it is not an error; else what `slowly`
    /// returns, which gets the error, too.
    fn _result<'py>(
        slf: &Bound<'py, Self>,
        timeout_s: Option<f64>,
        skips_check: bool,
        slowly: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let call = slf.borrow()._call.as_ref().map(|call| call.bind(py).clone());
        let sent = call.and_then(|call| {
            let sent = call.borrow().sent.as_ref().map(|sent| sent.bind(py).clone());
            sent.map(|sent| (call, sent))
        });
        let Some((call, sent)) = sent.filter(|_| skips_check || !is_on_loop(py)) else {
            return slowly.call1((slf, timeout_s, py.None()));
        };
        match objects::get(py, &sent, timeout_s, false) {
            Ok(value) => {
                release(&call)?;
                Ok(value)
            }
            Err(error) => slowly.call1((slf, timeout_s, error.into_value(py))),
        }
    }
}

/// Takes the call off its replica, which is free for another.
fn release(call: &Bound<'_, _ServeCall>) -> PyResult<()> {
    let py = call.py();
    let (load, router) = {
        let mut call = call.borrow_mut();
        let router = call.router.as_ref().map(|router| router.bind(py).clone());
        let (Some(load), Some(router)) = (call.load.take(), router) else { return Ok(()) };
        (load.into_bound(py), router)
    };
    let calls = load.cast::<_ServeLoad>()?.borrow().calls.bind(py).clone();
    calls.discard(call)?;
    let (routing, waiting) = {
        let router = router.borrow();
        (router.routing.is_some(), router.waiting.clone_ref(py))
    };
    if routing || waiting.bind(py).len()? > 0 {
        call.call_method1(intern!(py, "released"), (load,))?;
    }
    Ok(())
}

/// Whether an event loop runs on this thread.
fn is_on_loop(py: Python<'_>) -> bool {
    static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let running = RUNNING.get_or_try_init(py, || {
        py.import("asyncio")?.getattr("_get_running_loop").map(Bound::unbind)
    });
    running.is_ok_and(|running| running.call0(py).is_ok_and(|found| !found.is_none(py)))
}
