//! Calls: what `.remote(...)` runs.
//!
//! Everything that calls share is settled once, in a template; a call checks its arity, packs its
//! arguments and hands both to the runtime.

mod actor_handle;
mod actor_method;
mod arity;
mod creation;
mod definition;
mod options;
mod plan;
mod returns;
mod spans;
mod task_caller;

pub(crate) use actor_handle::ActorHandleBase;
pub(crate) use actor_method::{ActorMethod, MethodSlot};
pub(crate) use creation::{
    actor_pending_calls, create_actor, expect, kill_actor, know_actor, new_actor_id,
};
pub(crate) use definition::Definition;
pub(crate) use options::{ActorOptions, MethodOptions, Placement, TaskOptions};
pub(crate) use spans::{call, set_tracer};
pub(crate) use task_caller::TaskCaller;
