//! The return values of a call: their number and their ids.

use helio_proto::peer::STREAMING;
use helio_types::ObjectId;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::generator::ObjectRefGenerator;
use crate::object_ref::ObjectRef;
use crate::sites;

/// The number of returns, in all its forms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Returns {
    Count(u32),
    Streaming,
    /// A single return: the list of the items.
    Dynamic,
}

impl Returns {
    pub(crate) fn from_python(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(word) = value.cast::<PyString>() {
            return match word.to_str()? {
                "streaming" => Ok(Self::Streaming),
                "dynamic" => Ok(Self::Dynamic),
                other => Err(PyValueError::new_err(format!("num_returns cannot be {other:?}"))),
            };
        }
        let count: i64 = value.extract()?;
        match u32::try_from(count) {
            Ok(count) if count < STREAMING => Ok(Self::Count(count)),
            _ => Err(PyValueError::new_err(format!("num_returns must be >= 0, but got {count}."))),
        }
    }

    /// The number that goes over the wire.
    pub(crate) fn on_wire(self) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Streaming => STREAMING,
            Self::Dynamic => 1,
        }
    }

    /// `ObjectRef`, list, `None` or generator; takes over the references in `ids`.
    pub(crate) fn to_python<'py>(
        self,
        py: Python<'py>,
        ids: &[ObjectId],
        epoch: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        sites::note(py, ids, "(task call)");
        match (self, ids) {
            (Self::Streaming, [id]) => Ok(ObjectRefGenerator::make(py, *id, epoch)?.into_any()),
            (_, [id]) => Ok(ObjectRef::counted(py, *id, epoch)?.into_any()),
            (_, []) => Ok(py.None().into_bound(py)),
            (_, ids) => {
                let refs = ids
                    .iter()
                    .map(|id| ObjectRef::counted(py, *id, epoch))
                    .collect::<PyResult<Vec<_>>>()?;
                Ok(PyList::new(py, refs)?.into_any())
            }
        }
    }
}
