//! Whether a call's arguments fit the signature.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// A signature, as far as it takes to see that a call without keywords fits; the Python side checks
/// everything else.
pub(super) struct Arity {
    check: Option<Py<PyAny>>,
    min: usize,
    max: Option<usize>,
}

impl Arity {
    pub(super) fn new(check: Option<Py<PyAny>>, min_args: usize, max_args: i64) -> Self {
        Self { check, min: min_args, max: usize::try_from(max_args).ok() }
    }

    /// Raises `TypeError` when the arguments do not fit.
    pub(super) fn check(
        &self,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let fits = args.len() >= self.min && self.max.is_none_or(|max| args.len() <= max);
        let Some(check) = &self.check else { return Ok(()) };
        if fits && kwargs.is_none_or(|kwargs| kwargs.is_empty()) {
            return Ok(());
        }
        let py = args.py();
        let kwargs = kwargs.cloned().unwrap_or_else(|| PyDict::new(py));
        check.bind(py).call1((args, kwargs)).map(drop)
    }

    pub(super) fn traverse(&self, visit: &pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.check)
    }
}
