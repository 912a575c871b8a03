//! The doors to the outside: clock, randomness, descriptors, the machine and its processes.

pub mod clock;
pub mod descriptor;
pub mod detour;
pub mod draft;
pub mod inherited;
pub mod link;
pub mod logs;
pub mod machine;
pub mod memory;
pub mod nvml;
pub mod process;
pub mod random;
pub mod recount;
pub mod settings;
pub mod token;
pub mod usage;
pub mod views;
