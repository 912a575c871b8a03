//! `TaskID`.

use helio_types::TaskId;
use pyo3::prelude::*;

use super::actor::ActorID;
use super::base::id_class;
use super::job::JobID;

id_class! {
    /// A call of a task or of an actor's method, through all its attempts.
    ///
    /// Examples:
    ///     >>> import ray
    ///     >>> @ray.remote
    ///     ... def me():
    ///     ...     return ray.get_runtime_context().get_task_id()
    ///     >>> ref = me.remote()
    ///     >>> ref.task_id() == ray.TaskID.from_hex(ray.get(ref))
    ///     True
    ///     >>> ref.task_id().job_id() == ray.JobID.from_hex(ray.get_runtime_context().get_job_id())
    ///     True
    TaskID, TaskId {
        /// The actor that the call is made to; for tasks, an id that names their job and no actor.
        fn actor_id<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, ActorID>> {
            ActorID::of(slf.py(), Self::id(slf).actor())
        }

        /// The job that the call belongs to.
        fn job_id<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, JobID>> {
            JobID::of(slf.py(), Self::id(slf).job())
        }
    }
}
