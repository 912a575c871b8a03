//! `JobID`.

use helio_types::JobId;
use pyo3::prelude::*;

use super::base::id_class;

id_class! {
    /// A driver's run.
    ///
    /// Examples:
    ///     >>> import ray
    ///     >>> job_id = ray.JobID.from_int(7)
    ///     >>> job_id.hex(), job_id.int()
    ///     ('00000007', 7)
    ///     >>> ray.JobID.from_hex(ray.get_runtime_context().get_job_id()).is_nil()
    ///     False
    JobID, JobId {
        /// The id of the job with this number.
        ///
        /// Args:
        ///     value: A number from 0 to 4294967295.
        #[classmethod]
        fn from_int<'py>(cls: &Bound<'py, pyo3::types::PyType>, value: u32) -> PyResult<Bound<'py, PyAny>> {
            cls.call1((pyo3::types::PyBytes::new(cls.py(), &value.to_be_bytes()),))
        }

        /// The job's number.
        fn int(slf: &Bound<'_, Self>) -> u32 {
            u32::from_be_bytes(Self::id(slf).0)
        }
    }
}
