//! `ActorHandleBase`: what `ActorHandle` derives from.

use std::hash::{DefaultHasher, Hash, Hasher};

use helio_types::ActorId;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::exceptions;
use crate::ids::ActorID;
use crate::object_ref::ObjectRef;
use crate::session::{self, Session};

/// An actor's id, and the reference that keeps it alive.
#[pyclass(subclass, frozen, weakref, module = "heliostat._heliostat")]
pub(crate) struct ActorHandleBase {
    id: ActorId,
    reference: Option<Py<ObjectRef>>,
    /// The session that it was made in.
    epoch: u32,
}

impl ActorHandleBase {
    /// The actor's id, if its session is this one.
    pub(crate) fn id_in(&self, py: Python<'_>, session: &Session) -> PyResult<ActorId> {
        if self.epoch == session.epoch {
            return Ok(self.id);
        }
        let message = format!(
            "The handle of actor {} belongs to another session, or to one that is over. Make the actor again, \
             or look it up by name, in the present session.",
            self.id.hex()
        );
        Err(exceptions::named(py, "ActorHandleNotFoundError", &message))
    }
}

#[pymethods]
impl ActorHandleBase {
    #[new]
    #[pyo3(signature = (actor_id, r#ref = None, *_args, **_kwargs))]
    fn new(
        actor_id: &Bound<'_, ActorID>,
        r#ref: Option<Py<ObjectRef>>,
        _args: &Bound<'_, PyTuple>,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> Self {
        Self { id: ActorID::id(actor_id), reference: r#ref, epoch: session::session_epoch() }
    }

    #[getter]
    fn _actor_id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, ActorID>> {
        ActorID::of(py, self.id)
    }

    #[getter]
    fn _ref(&self, py: Python<'_>) -> Option<Py<ObjectRef>> {
        self.reference.as_ref().map(|held| held.clone_ref(py))
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.id.hash(&mut hasher);
        hasher.finish()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().id == self.id)
    }
}
