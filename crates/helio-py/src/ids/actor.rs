//! `ActorID`.

use helio_types::ActorId;
use pyo3::prelude::*;

use super::base::id_class;
use super::job::JobID;

id_class! {
    /// An actor, through all its restarts.
    ActorID, ActorId {
        /// The job that made the actor.
        #[getter]
        fn job_id<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, JobID>> {
            JobID::of(slf.py(), Self::id(slf).job())
        }
    }
}
