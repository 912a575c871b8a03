//! `TaskID`.

use helio_types::TaskId;
use pyo3::prelude::*;

use super::actor::ActorID;
use super::base::id_class;
use super::job::JobID;

id_class! {
    /// One call of a task or of an actor's method, through all its attempts.
    TaskID, TaskId {
        /// The actor that the call is made to; the id of nothing for tasks.
        fn actor_id<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, ActorID>> {
            ActorID::of(slf.py(), Self::id(slf).actor())
        }

        /// The job that the call belongs to.
        fn job_id<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, JobID>> {
            JobID::of(slf.py(), Self::id(slf).job())
        }
    }
}
