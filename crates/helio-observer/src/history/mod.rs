//! The history of a cluster, written as things happen ([`Recorder`]) and read again when the cluster is gone
//! ([`Recorded`]).
//!
//! A history is a folder of files ([`file`]), each of batches ([`helio_proto::history::Batch`]) of what has changed.
//! Nothing is reported for it: the recorder asks as any client does, twice a second, for what is new.

mod file;
mod recorded;
mod recorder;

pub use file::{About, BYTES_MAX};
pub use recorded::Recorded;
pub use recorder::{Recorder, keep};
