//! The types that options have: how one is read, shown to Python, and traversed.

use helio_proto::control::ConcurrencyGroup;
use helio_proto::template::FrontOptions;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString, PyTuple};
use pyo3::{IntoPyObjectExt as _, PyTraverseError, PyVisit};

use crate::calls::returns::Returns;
use crate::codec::{self, Purpose};

/// The value of an option.
pub(crate) trait Value: Sized {
    /// Reads the given value; `None` for the default.
    fn read(given: &Bound<'_, PyAny>) -> PyResult<Option<Self>>;

    fn show<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>>;

    fn traverse(&self, _: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        Ok(())
    }
}

/// The option of a keyword, where one is given that is not the default.
pub(super) fn read<T: Value>(
    given: &Bound<'_, PyDict>,
    keyword: &Bound<'_, PyString>,
) -> PyResult<Option<T>> {
    let Some(value) = given.get_item(keyword)? else { return Ok(None) };
    T::read(&value).map_err(|error| {
        if error.is_instance_of::<PyOverflowError>(value.py()) {
            let note =
                format!("The keyword '{keyword}' does not take a number as large as {value}.");
            return PyOverflowError::new_err(note);
        }
        error
    })
}

macro_rules! plain {
    ($($type:ty),*) => {$(
        impl Value for $type {
            fn read(given: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
                if given.is_none() { Ok(None) } else { given.extract().map(Some) }
            }

            fn show<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                self.into_bound_py_any(py)
            }
        }
    )*};
}

plain!(bool, i32, i64, u32, f64, String, Vec<String>);

impl<T: Value> Value for Option<T> {
    fn read(given: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        Ok(T::read(given)?.map(Some))
    }

    fn show<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.as_ref().map_or_else(|| Ok(py.None().into_bound(py)), |value| value.show(py))
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.as_ref().map_or(Ok(()), |value| value.traverse(visit))
    }
}

/// An object that only Python understands.
pub(crate) struct Object(Py<PyAny>);

impl Value for Object {
    fn read(given: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        Ok((!given.is_none()).then(|| Self(given.clone().unbind())))
    }

    fn show<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.0.bind(py).clone())
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0)
    }
}

impl Value for Returns {
    fn read(given: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        if given.is_none() { Ok(None) } else { Self::from_python(given).map(Some) }
    }

    fn show<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Count(count) => count.into_bound_py_any(py),
            Self::Streaming => "streaming".into_bound_py_any(py),
            Self::Dynamic => "dynamic".into_bound_py_any(py),
        }
    }
}

/// The placement group that the options name.
pub(crate) enum Group {
    /// The caller's, where that captures its children: what `"default"` says.
    Callers,
    /// `None` is a value of this option: in no group, wherever the caller runs.
    Nowhere,
    Named(Object),
}

impl Value for Group {
    fn read(given: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        Ok(Some(Object::read(given)?.map_or(Self::Nowhere, Self::Named)))
    }

    fn show<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Callers => "default".into_bound_py_any(py),
            Self::Nowhere => Ok(py.None().into_bound(py)),
            Self::Named(group) => group.show(py),
        }
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Self::Named(group) = self { group.traverse(visit) } else { Ok(()) }
    }
}

/// Quantities of resources by their names.
#[derive(Default)]
pub(crate) struct Quantities(pub(super) Vec<(String, f64)>);

impl Value for Quantities {
    fn read(given: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        if given.is_none() {
            return Ok(None);
        }
        let items = given.call_method0("items")?.try_iter()?.map(|item| {
            let (name, quantity): (Bound<'_, PyAny>, f64) = item?.extract()?;
            Ok((name.str()?.to_string(), quantity))
        });
        items.collect::<PyResult<_>>().map(|items| Some(Self(items)))
    }

    fn show<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let dict = PyDict::new(py);
        for (name, quantity) in &self.0 {
            dict.set_item(name, quantity)?;
        }
        Ok(dict.into_any())
    }
}

/// The number of methods of each group that run at once.
#[derive(Default)]
pub(crate) struct Groups(pub(crate) Vec<ConcurrencyGroup>);

impl Value for Groups {
    fn read(given: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        if given.is_none() {
            return Ok(None);
        }
        let groups: PyResult<_> = if let Ok(list) = given.cast::<PyList>() {
            let group = |one: Bound<'_, PyAny>| {
                Ok(ConcurrencyGroup {
                    name: one.get_item("name")?.extract()?,
                    max_concurrency: one.get_item("max_concurrency")?.extract()?,
                })
            };
            list.iter().map(group).collect()
        } else {
            let group = |item: PyResult<Bound<'_, PyAny>>| {
                let (name, max_concurrency) = item?.extract()?;
                Ok(ConcurrencyGroup { name, max_concurrency })
            };
            given.call_method0("items")?.try_iter()?.map(group).collect()
        };
        Ok(Some(Self(groups?)))
    }

    fn show<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let dict = PyDict::new(py);
        for group in &self.0 {
            dict.set_item(&group.name, group.max_concurrency)?;
        }
        Ok(dict.into_any())
    }
}

/// The exceptions of the called function that are retried.
pub(crate) enum Retried {
    All(bool),
    Classes(Py<PyTuple>),
}

impl Value for Retried {
    fn read(given: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        if given.is_none() {
            return Ok(None);
        }
        if let Ok(all) = given.cast::<PyBool>() {
            return Ok(Some(Self::All(all.is_true())));
        }
        let classes = given.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        Ok(Some(Self::Classes(PyTuple::new(given.py(), classes)?.unbind())))
    }

    fn show<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::All(all) => all.into_bound_py_any(py),
            Self::Classes(classes) => Ok(classes.bind(py).clone().into_any()),
        }
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Self::Classes(classes) = self { visit.call(classes) } else { Ok(()) }
    }
}

impl Retried {
    /// Into the options of the front; whether exceptions are retried at all.
    pub(crate) fn write(&self, py: Python<'_>, front: &mut FrontOptions) -> PyResult<bool> {
        match self {
            Self::All(all) => front.retries_all = *all,
            Self::Classes(classes) if classes.bind(py).is_empty() => return Ok(false),
            Self::Classes(classes) => {
                let classes = classes.bind(py).as_any();
                front.retried = codec::encode(classes, Purpose::Value)?.sink.take();
                return Ok(true);
            }
        }
        Ok(front.retries_all)
    }
}
