//! `JobID`.

use helio_types::JobId;
use pyo3::prelude::*;

use super::base::id_class;

id_class! {
    /// A driver's run.
    JobID, JobId {
        #[classmethod]
        fn from_int<'py>(cls: &Bound<'py, pyo3::types::PyType>, value: u32) -> PyResult<Bound<'py, PyAny>> {
            cls.call1((pyo3::types::PyBytes::new(cls.py(), &value.to_be_bytes()),))
        }

        fn int(slf: &Bound<'_, Self>) -> u32 {
            u32::from_be_bytes(Self::id(slf).0)
        }
    }
}
