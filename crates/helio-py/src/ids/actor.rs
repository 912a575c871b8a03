//! `ActorID`.

use helio_types::ActorId;
use pyo3::prelude::*;

use super::base::id_class;
use super::job::JobID;

id_class! {
    /// An actor, through all its restarts.
    ///
    /// Examples:
    ///     >>> import ray
    ///     >>> @ray.remote
    ///     ... class Worker:
    ///     ...     def me(self):
    ///     ...         return ray.get_runtime_context().get_actor_id()
    ///     >>> worker = Worker.remote()
    ///     >>> actor_id = ray.ActorID.from_hex(ray.get(worker.me.remote()))
    ///     >>> actor_id.job_id.hex() == ray.get_runtime_context().get_job_id()
    ///     True
    ActorID, ActorId {
        /// The job that made the actor.
        #[getter]
        fn job_id<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, JobID>> {
            JobID::of(slf.py(), Self::id(slf).job())
        }
    }
}
