//! `PlacementGroupID`.

use helio_types::PlacementGroupId;
use pyo3::prelude::*;

use super::base::{id_class, random};
use super::job::JobID;

id_class! {
    /// A placement group.
    ///
    /// Examples:
    ///     >>> import ray
    ///     >>> from ray.util import placement_group, remove_placement_group
    ///     >>> group = placement_group([{"CPU": 0.5}])
    ///     >>> isinstance(group.id, ray.PlacementGroupID), group.id.is_nil()
    ///     (True, False)
    ///     >>> remove_placement_group(group)
    PlacementGroupID, PlacementGroupId {
        /// A fresh one of that job.
        ///
        /// Args:
        ///     job_id: The job.
        #[staticmethod]
        #[pyo3(name = "of")]
        fn of_job<'py>(job_id: &Bound<'py, JobID>) -> PyResult<Bound<'py, Self>> {
            let mut id = PlacementGroupId::default();
            random(&mut id.0[..14])?;
            id.0[14..].copy_from_slice(&JobID::id(job_id).0);
            Self::of(job_id.py(), id)
        }
    }
}
