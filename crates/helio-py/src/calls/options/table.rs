//! The options, each with its type and its default. No default of an option stands anywhere else.
//!
//! An option whose default depends on other options, or on the environment, is `None` in its table, and
//! a function beside the table says what it is then.

use helio_config::table::TASK_MAX_RETRIES;
use helio_env::settings;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};

use super::value::{self, Group, Groups, Object, Quantities, Retried, Value};
use crate::calls::returns::Returns;

/// A generator that nothing holds back.
const UNBOUNDED: i64 = -1;
/// The index that stands for any bundle of a placement group.
pub(super) const ANY_BUNDLE: i64 = -1;
/// The quantity of `accelerator_type:X` that one call takes, so that a thousand calls fit a node.
const ACCELERATOR_SHARE: f64 = 0.001;

/// A struct with a field an option: `"keyword" => field: type = default`.
macro_rules! options {
    ($($(#[$about:meta])* $kind:ident {
        $($(#[$meaning:meta])* $keyword:literal => $field:ident: $type:ty = $default:expr,)*
    })*) => {$(
        $(#[$about])*
        pub(crate) struct $kind { $($(#[$meaning])* pub(crate) $field: $type,)* }

        impl $kind {
            pub(super) const KEYWORDS: &[&str] = &[$($keyword),*];

            pub(super) fn read(given: &Bound<'_, PyDict>) -> PyResult<Self> {
                let py = given.py();
                Ok(Self {
                    $($field: match value::read(given, intern!(py, $keyword))? {
                        Some(value) => value,
                        None => $default,
                    },)*
                })
            }

            /// The value of an option, `None` where there is no such one.
            pub(super) fn show<'py>(
                &self,
                py: Python<'py>,
                keyword: &str,
            ) -> PyResult<Option<Bound<'py, PyAny>>> {
                match keyword {
                    $($keyword => self.$field.show(py).map(Some),)*
                    _ => Ok(None),
                }
            }

            pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
                $(self.$field.traverse(visit)?;)*
                Ok(())
            }
        }
    )*};
}

options! {
    /// Options of tasks and of actors.
    Shared {
        "label_selector" => label_selector: Option<Object> = None,
        "fallback_strategy" => fallback_strategy: Option<Object> = None,
        "accelerator_type" => accelerator_type: Option<String> = None,
        "memory" => memory: f64 = 0.0,
        /// The name of a task: the function's, unless one is given.
        "name" => name: Option<String> = None,
        "num_gpus" => num_gpus: f64 = 0.0,
        "object_store_memory" => object_store_memory: Option<Object> = None,
        "placement_group" => placement_group: Group = Group::Callers,
        "placement_group_bundle_index" => bundle: i64 = ANY_BUNDLE,
        "placement_group_capture_child_tasks" => capture_children: bool = false,
        "resources" => resources: Quantities = Quantities::default(),
        /// Within the environment that the caller runs in.
        "runtime_env" => runtime_env: Option<Object> = None,
        "scheduling_strategy" => scheduling_strategy: Option<Object> = None,
        "enable_task_events" => enable_task_events: bool = true,
        "_labels" => labels: Option<Object> = None,
    }

    /// Options of tasks only.
    Task {
        /// The number of calls that a worker runs before it ends, 0 for no end; see [`Task::max_calls`].
        "max_calls" => max_calls: Option<u32> = None,
        /// -1 for no end; see [`Task::max_retries`].
        "max_retries" => max_retries: Option<i32> = None,
        "num_cpus" => num_cpus: f64 = 1.0,
        /// See [`returns`].
        "num_returns" => num_returns: Option<Returns> = None,
        "retry_exceptions" => retry_exceptions: Retried = Retried::All(false),
        "_generator_backpressure_num_objects" => backpressure: i64 = UNBOUNDED,
        /// The number of items in a value that the generator yields.
        "_num_objects_per_yield" => per_yield: u32 = 1,
    }

    /// Options of actors only.
    Actor {
        /// Calls of actors that run one at a time are in order, of others not.
        "allow_out_of_order_execution" => out_of_order: Option<bool> = None,
        "concurrency_groups" => concurrency_groups: Groups = Groups::default(),
        "enable_tensor_transport" => enable_tensor_transport: Option<bool> = None,
        "get_if_exists" => get_if_exists: bool = false,
        /// `None`: as the job says.
        "lifetime" => lifetime: Option<String> = None,
        /// See [`Actor::max_concurrency`].
        "max_concurrency" => max_concurrency: Option<u32> = None,
        /// -1 for no bound.
        "max_pending_calls" => max_pending_calls: i64 = -1,
        /// -1 for no end.
        "max_restarts" => max_restarts: i64 = 0,
        /// The retries of its methods, where these do not say; -1 for no end.
        "max_task_retries" => max_task_retries: i32 = 0,
        /// The session's.
        "namespace" => namespace: Option<String> = None,
        /// See [`Actor::cpus`].
        "num_cpus" => num_cpus: Option<f64> = None,
        "_actor_generator_backpressure_num_objects" => backpressure: i64 = UNBOUNDED,
        /// Names of modules that the actor's class mentions.
        "_preload" => preload: Option<Vec<String>> = None,
    }

    /// Options of actors' methods.
    Method {
        /// `Class.method`.
        "name" => name: Option<String> = None,
        /// See [`returns`].
        "num_returns" => num_returns: Option<Returns> = None,
        /// The group of those that name none.
        "concurrency_group" => concurrency_group: String = String::new(),
        /// `None`: the actor's.
        "max_task_retries" => max_task_retries: Option<i32> = None,
        "retry_exceptions" => retry_exceptions: Retried = Retried::All(false),
        /// `None`: the actor's.
        "_generator_backpressure_num_objects" => backpressure: Option<i64> = None,
        "_num_objects_per_yield" => per_yield: u32 = 1,
        /// `None`: the actor's.
        "enable_task_events" => enable_task_events: Option<bool> = None,
        "tensor_transport" => tensor_transport: String = "object_store".to_owned(),
    }
}

/// Returns the number of values that a call gives back.
pub(crate) fn returns(given: Option<Returns>, is_generator: bool) -> Returns {
    given.unwrap_or(if is_generator { Returns::Streaming } else { Returns::Count(1) })
}

/// Returns the number of items that a generator may be ahead of its reader; 0: no bound.
pub(crate) fn items_ahead(backpressure: i64) -> u32 {
    u32::try_from(backpressure.max(0)).unwrap_or(u32::MAX)
}

impl Task {
    /// A process that ends gives its device's memory back.
    pub(crate) fn max_calls(&self, shared: &Shared) -> u32 {
        self.max_calls.unwrap_or(u32::from(shared.num_gpus > 0.0))
    }

    /// The retries that the options say, else the environment; read when a call is made.
    pub(crate) fn max_retries(&self) -> PyResult<i32> {
        if let Some(given) = self.max_retries {
            return Ok(given);
        }
        let retries = settings::read(&TASK_MAX_RETRIES).map_err(PyValueError::new_err)?;
        Ok(i32::try_from(retries).unwrap_or(i32::MAX))
    }
}

impl Actor {
    /// Returns the number of calls that run at once; an event loop runs many.
    pub(crate) fn max_concurrency(&self, is_async: bool) -> u32 {
        let given = self.max_concurrency.filter(|&given| given > 0);
        given.unwrap_or(if is_async { 1000 } else { 1 })
    }

    /// (those that have to be free to place it, those that it holds while it lives): an actor that names
    /// no resource holds none.
    pub(crate) fn cpus(&self, names_resources: bool) -> (f64, f64) {
        let placing = self.num_cpus.unwrap_or(1.0);
        (placing, if names_resources { placing } else { 0.0 })
    }
}

impl Shared {
    /// Returns the resources that a call with so many CPUs needs; those of quantity 0 are left out.
    pub(crate) fn needs(&self, cpus: f64) -> Vec<(String, f64)> {
        let mut needs = self.resources.0.clone();
        needs.push(("CPU".to_owned(), cpus));
        needs.push(("GPU".to_owned(), self.num_gpus));
        needs.push(("memory".to_owned(), self.memory.trunc()));
        if let Some(kind) = self.accelerator_type.as_ref().filter(|kind| !kind.is_empty()) {
            needs.push((format!("accelerator_type:{kind}"), ACCELERATOR_SHARE));
        }
        needs.retain(|(_, quantity)| *quantity != 0.0);
        needs
    }
}
