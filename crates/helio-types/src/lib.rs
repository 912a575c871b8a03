//! Words: ids, resources, addresses, specs and causes of death. Plain data that every layer shares;
//! nothing here does I/O.
//!
//! Reading order: [`id`], [`resources`], [`devices`], [`address`], [`cause`], [`hash`], [`recent`],
//! [`token`], [`mutants`].

#![forbid(unsafe_code)]

pub mod address;
pub mod base64;
pub mod cause;
pub mod devices;
pub mod hash;
pub mod id;
pub mod mutants;
pub mod recent;
pub mod resources;
pub mod token;

pub use address::{NodeAddress, WorkerAddress};
pub use cause::{DeathCause, DeathKind};
pub use devices::{DEVICE_KINDS, DeviceKind, Devices};
pub use hash::IdMap;
pub use id::{ActorId, JobId, LeaseId, NodeId, ObjectId, PlacementGroupId, TaskId, WorkerId};
pub use recent::Recent;
pub use resources::{Assigned, Quantity, ResourceSet};
pub use token::OPEN_TOKEN;
