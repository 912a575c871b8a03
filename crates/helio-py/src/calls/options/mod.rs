//! Every option of tasks, actors and methods, and the only place where their defaults stand: `table`.
//!
//! Python checks what users write and merges `.options()` over the decoration
//! (`heliostat.core.calls.options`); what it hands on is what was given. `None` stands for the default, except for
//! `placement_group`. What Python has to decide or to show it asks the types of this module, by keyword.

mod actor;
mod common;
mod method;
mod placement;
mod table;
mod task;
mod value;

pub(crate) use actor::ActorOptions;
pub(crate) use method::MethodOptions;
pub(crate) use placement::Placement;
pub(crate) use task::TaskOptions;
pub(crate) use value::Value;
