//! Calls of handles in a replica of Serve: their bound and their counts. A short call costs little more than this, so
//! none of it is Python's; what is rare, `replica/actor.py` does.

use std::time::Instant;

use pyo3::exceptions::PyStopIteration;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

// `inspect.CO_COROUTINE`.
const COROUTINE: i64 = 0x80;

/// A bound of how many requests run at a time.
#[pyclass(subclass, module = "heliostat._heliostat")]
pub(crate) struct _ServeGate {
    #[pyo3(get, set)]
    most: usize,
    /// Requests that are here, of handles and of an ingress.
    #[pyo3(get, set)]
    ongoing: usize,
    /// Calls that `begin` has begun.
    #[pyo3(get)]
    running: usize,
    /// Whether `begin` may begin calls: nobody has to be told of each.
    #[pyo3(get, set)]
    is_plain: bool,
    /// Whether somebody takes `ended` before long.
    #[pyo3(get, set)]
    is_told: bool,
    /// The requests that wait.
    #[pyo3(get)]
    waiting: Py<PyAny>,
    /// The user's instance, once there is one that has methods.
    #[pyo3(get, set)]
    servable: Option<Py<PyAny>>,
    /// Makes the request's context of a row, and the variable that has it.
    context: Option<(Py<PyAny>, Py<PyAny>)>,
    /// Route, milliseconds, and whether it has failed, of each call since they were taken.
    ended: Vec<(Py<PyString>, f64, bool)>,
}

#[pymethods]
impl _ServeGate {
    #[new]
    fn new(most: usize, waiting: Py<PyAny>) -> Self {
        Self {
            most,
            ongoing: 0,
            running: 0,
            is_plain: false,
            is_told: false,
            waiting,
            servable: None,
            context: None,
            ended: Vec::new(),
        }
    }

    /// Takes what makes a request's context, and the variable that has it.
    fn set_context(&mut self, make: Py<PyAny>, variable: Py<PyAny>) {
        self.context = Some((make, variable));
    }

    /// The calls that have ended: route, milliseconds, whether it has failed. They are forgotten.
    fn take_ended<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, std::mem::take(&mut self.ended))
    }

    /// Something to await for the result of a call; `None`: it is another kind of call, or there is no room.
    fn begin<'py>(
        slf: &Bound<'py, Self>,
        row: &Bound<'py, PyTuple>,
        method: &Bound<'py, PyString>,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
    ) -> PyResult<Option<_ServeRun>> {
        let py = slf.py();
        // Copied out of the borrow: what follows runs Python code, which may come back to the gate.
        let (target, make, variable, is_told) = {
            let gate = slf.borrow();
            if !gate.is_plain || gate.ongoing >= gate.most {
                return Ok(None);
            }
            let (Some(servable), Some((make, variable))) = (&gate.servable, &gate.context) else {
                return Ok(None);
            };
            let Some(target) = servable.bind(py).getattr_opt(method)? else { return Ok(None) };
            (target, make.clone_ref(py), variable.clone_ref(py), gate.is_told)
        };
        if !is_coroutine_function(&target)? {
            return Ok(None);
        }
        let route = row.get_item(1)?.cast_into::<PyString>()?.unbind();
        let context = make.bind(py).call1((row,))?;
        // SAFETY: both are objects, and the first is a context variable.
        let token = unsafe { ffi::PyContextVar_Set(variable.as_ptr(), context.as_ptr()) };
        // SAFETY: a new reference, or null with an exception set.
        drop(unsafe { Bound::from_owned_ptr_or_err(py, token) }?);
        if !is_told {
            slf.call_method0(intern!(py, "tell_soon"))?;
        }
        {
            let mut gate = slf.borrow_mut();
            // Before the call: `over` takes both back, also when the call raises.
            gate.ongoing += 1;
            gate.running += 1;
        }
        let mut run =
            _ServeRun { gate: slf.clone().unbind(), coroutine: None, route, began: Instant::now() };
        match target.call(args, Some(kwargs)) {
            Ok(coroutine) => run.coroutine = Some(coroutine.unbind()),
            Err(error) => {
                run.over(py, Some(&error))?;
                return Err(error);
            }
        }
        Ok(Some(run))
    }
}

/// Whether what it returns is a coroutine: a method's function, or a function.
fn is_coroutine_function(target: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = target.py();
    let Some(code) = target.getattr_opt(intern!(py, "__code__"))? else { return Ok(false) };
    Ok(code.getattr(intern!(py, "co_flags"))?.extract::<i64>()? & COROUTINE != 0)
}

/// A call's coroutine, counted until it ends.
#[pyclass(module = "heliostat._heliostat")]
pub(crate) struct _ServeRun {
    gate: Py<_ServeGate>,
    coroutine: Option<Py<PyAny>>,
    route: Py<PyString>,
    began: Instant,
}

#[pymethods]
impl _ServeRun {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let none = slf.py().None();
        Self::send(slf, none.bind(slf.py()))
    }

    fn send(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let coroutine = Self::coroutine(slf)?;
        let mut out = std::ptr::null_mut();
        // SAFETY: two objects, and a place for a third, of which a new reference comes back unless it is null.
        let (step, out) = unsafe {
            let step = ffi::PyIter_Send(coroutine.as_ptr(), value.as_ptr(), &raw mut out);
            (step, Bound::from_owned_ptr_or_opt(py, out))
        };
        match (step, out) {
            (ffi::PySendResult::PYGEN_NEXT, Some(awaited)) => Ok(awaited.unbind()),
            (ffi::PySendResult::PYGEN_RETURN, Some(result)) => Self::returned(slf, &result),
            _ => Self::raised(slf, PyErr::fetch(py)),
        }
    }

    #[pyo3(signature = (*error))]
    fn throw(slf: &Bound<'_, Self>, error: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let coroutine = Self::coroutine(slf)?;
        match coroutine.call_method1(py, intern!(py, "throw"), error) {
            Ok(awaited) => Ok(awaited),
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
                let result = error.value(py).getattr(intern!(py, "value"))?;
                Self::returned(slf, &result)
            }
            Err(error) => Self::raised(slf, error),
        }
    }

    /// Ends it where it has not begun, or in the middle.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let Ok(coroutine) = Self::coroutine(slf) else { return Ok(()) };
        let closed = coroutine.call_method0(py, intern!(py, "close"));
        slf.borrow_mut().over(py, None)?;
        closed.map(drop)
    }
}

impl _ServeRun {
    fn coroutine(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        match &slf.borrow().coroutine {
            Some(coroutine) => Ok(coroutine.clone_ref(py)),
            None => Err(PyStopIteration::new_err(py.None())), // it has ended
        }
    }

    fn returned(slf: &Bound<'_, Self>, result: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let kind = result.get_type_ptr();
        // SAFETY: the types are static.
        if kind == &raw mut ffi::PyGen_Type || kind == &raw mut ffi::PyAsyncGen_Type {
            let error = slf.borrow().gate.call_method0(py, intern!(py, "generator_error"))?;
            return Self::raised(slf, PyErr::from_value(error.into_bound(py)));
        }
        slf.borrow_mut().over(py, None)?;
        Err(PyStopIteration::new_err((result.clone().unbind(),)))
    }

    fn raised(slf: &Bound<'_, Self>, error: PyErr) -> PyResult<Py<PyAny>> {
        slf.borrow_mut().over(slf.py(), Some(&error))?;
        Err(error)
    }

    /// Counts the call as ended, once.
    fn over(&mut self, py: Python<'_>, error: Option<&PyErr>) -> PyResult<()> {
        let coroutine = self.coroutine.take();
        let milliseconds = self.began.elapsed().as_secs_f64() * 1e3;
        let is_cancelled = error.is_some_and(|error| {
            error.get_type(py).name().is_ok_and(|name| name == "CancelledError")
        });
        let gate = self.gate.bind(py);
        let (is_plain, waiting) = {
            let mut gate = gate.borrow_mut();
            gate.ongoing -= 1;
            gate.running -= 1;
            let has_failed = error.is_some() && !is_cancelled;
            gate.ended.push((self.route.clone_ref(py), milliseconds, has_failed));
            (gate.is_plain, gate.waiting.clone_ref(py))
        };
        // After the borrow: the end of a coroutine runs code of the user's.
        drop(coroutine);
        if let Some(error) = error
            && !is_cancelled
        {
            gate.call_method1(intern!(py, "failed"), (error.value(py),))?;
        }
        if !is_plain || waiting.bind(py).len()? > 0 {
            gate.call_method0(intern!(py, "left"))?;
        }
        Ok(())
    }
}
