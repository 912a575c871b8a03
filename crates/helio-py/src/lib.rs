//! Front: the Python extension module, the only crate that knows PyO3.
//!
//! The crate converts, calls the runtime, and converts back; what is decided, is decided elsewhere. Reading
//! order: [`session`], [`gil`] (**GIL-1**), [`codec`], [`object_ref`], [`objects`], [`calls`],
//! [`worker`].

mod calls;
mod codec;
mod control;
mod current;
mod environment;
mod errors;
mod exceptions;
mod generator;
mod gil;
mod groups;
mod ids;
mod inspect;
mod object_ref;
mod objects;
mod packages;
mod returns;
mod rows;
mod serve;
mod serve_call;
mod serve_gate;
mod session;
mod settings;
mod sites;
mod terminal;
mod timeouts;
mod worker;

use pyo3::prelude::*;

/// The extension module; see `python/heliostat/_heliostat.pyi`.
#[pymodule(gil_used = true)]
mod _heliostat {
    #[pymodule_export]
    use crate::calls::{
        ActorHandleBase, ActorMethod, ActorOptions, Definition, MethodOptions, MethodSlot,
        Placement, TaskCaller, TaskOptions, actor_pending_calls, create_actor, expect, kill_actor,
        know_actor, new_actor_id, set_tracer,
    };
    #[pymodule_export]
    use crate::codec::refs::{_restore_ref, _take_ref};
    #[pymodule_export]
    use crate::codec::{
        _buffer_callback, _use_dispatch_table, _use_numpy_fast_path, View, deserialize, serialize,
    };
    #[pymodule_export]
    use crate::control::{
        await_members, get_named_actor, kv_del, kv_get, kv_keys, kv_put, list_actors, list_jobs,
        list_members, list_named_actors, list_nodes,
    };
    #[pymodule_export]
    use crate::current::{
        _drop_actor, _set_call_variable, Current, current, current_actor, current_actor_handle,
    };
    #[pymodule_export]
    use crate::generator::ObjectRefGenerator;
    #[pymodule_export]
    use crate::gil::{_process_ends, gil_counts};
    #[pymodule_export]
    use crate::groups::{await_group, create_group, get_group, list_groups, remove_group};
    #[pymodule_export]
    use crate::ids::{
        ActorClassID, ActorID, BaseID, ClusterID, FunctionID, JobID, NodeID, PlacementGroupID,
        TaskID, UniqueID, WorkerID,
    };
    #[pymodule_export]
    use crate::inspect::{
        declare_metric, forget_metrics, object_places, record_metric, state_rows, state_summary,
        trace, why,
    };
    #[pymodule_export]
    use crate::object_ref::ObjectRef;
    #[pymodule_export]
    use crate::objects::{
        cancel, clear_notification, get, is_ready, notify_fd, put, take, take_ready, wait, watch,
    };
    #[pymodule_export]
    use crate::packages::{_chunk_name, _cut_file, _give_package, _take_package};
    #[pymodule_export]
    use crate::returns::{_advantages, _draw_places, _following, _n_step, _set_chances, _vtrace};
    #[pymodule_export]
    use crate::serve::{
        _ServeReader, _ServeTurns, _serve_break, _serve_head, _serve_piece, _serve_taken,
        _serve_trailers,
    };
    #[pymodule_export]
    use crate::serve_call::{
        _ServeCall, _ServeLoad, _ServeResponse, _ServeRoute, _ServeRouter, _serve_request_id,
        _serve_seed, _serve_traced,
    };
    #[pymodule_export]
    use crate::serve_gate::{_ServeGate, _ServeRun};
    #[pymodule_export]
    use crate::session::{
        _after_fork, choose_session, connect, is_connected, session, session_epoch, shutdown,
    };
    #[pymodule_export]
    use crate::settings::{check_settings, knobs, read_setting};
    #[pymodule_export]
    use crate::terminal::{flush_logs, take_logs, take_notices, take_unhandled};
    #[pymodule_export]
    use crate::worker::devices::{device_kinds, gpu_counts};
    #[pymodule_export]
    use crate::worker::{
        _ask_to_leave, _asked_to_leave, _display_name, _end_in_time, _line_is_open, _look_again,
        _loop_fd, _loop_passes, _loop_sleeps, _loop_woke, _next_call, _note_error, _prepare_copies,
        _printing_task, _runs_calls, _serve_pool, RunningCall, exit_actor, run_worker,
    };

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        object_ref::refuse_iteration(module.py());
        module.add("OPEN_TOKEN", helio_types::OPEN_TOKEN)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
