//! The shared memory of a machine.
//!
//! One memory file per daemon, sealed at its full size, reserved lazily and mapped for life by every
//! process of the node. Who may write where is decided by the daemon alone
//! (`helio_node_state::store`); nothing about it lies in the shared memory.
//!
//! **SHM-1** A sealed object's bytes never change; a reader's pin outlives every pointer into it. No
//! locks live in shared memory: a peer that dies in the middle of a write leaves nothing held. Every
//! offset that comes from a peer is bounds-checked ([`Arena::slice`], [`Arena::copy_in`]), and the
//! file cannot shrink under a mapping (`F_SEAL_SHRINK`), so no access inside the bounds can fault.
//! The overflow file is a file like any other: its disk is reserved before it is written or mapped.

mod arena;
mod copy;
pub mod heap;
mod overflow;

pub use arena::{Arena, ArenaSlice, Error};
pub use copy::PARALLEL_COPY_MIN;
