//! Durable state: a map that keeps what it acknowledged.
//!
//! [`Storage`] is the contract. [`Embedded`] keeps it in one file beside the session, with no service
//! to start; [`Memory`] keeps nothing, for clusters that end with their driver. Stores that operators
//! already run can implement it as well; `tests/conformance.rs` is what each must pass.

#![forbid(unsafe_code)]

mod embedded;
mod memory;

pub use embedded::Embedded;
pub use memory::Memory;

/// An entry to write (`Some`) or delete (`None`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The entry's key.
    pub key: Vec<u8>,
    /// Its new value.
    pub value: Option<Vec<u8>>,
}

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// A durable map with one writer.
///
/// The contract:
/// 1. When [`Storage::commit`] has returned `Ok`, all its changes survive the end of the process and of
///    the machine.
/// 2. A commit happens wholly or not at all, whenever the machine ends; its changes take effect in order.
/// 3. After [`Error::Full`] the same changes may be committed again, before or with others, as often as it takes.
///    After any other `Err` it is unknown whether the commit happened; the caller ends and starts anew.
/// 4. A second writer on the same state is refused by `open`.
pub trait Storage: Send {
    /// All entries, by key.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn load(&self) -> Result<Vec<Entry>, Error>;

    /// Makes the changes durable. Many changes in one commit cost little more than one.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn commit(&mut self, changes: &[Change]) -> Result<(), Error>;

    /// How many bytes the medium still takes; `None`: as many as come.
    fn room(&self) -> Option<u64> {
        None
    }

    /// What the medium is called, for messages.
    fn place(&self) -> String {
        "memory".to_owned()
    }
}

/// Why the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process has it open.
    #[error("{path} is in use by another process")]
    InUse {
        /// The file.
        path: String,
    },
    /// The file is damaged, or no store.
    #[error("{path} is not a readable store: {reason}")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The medium has no room left.
    #[error("no space is left on the disk of {path}")]
    Full {
        /// The file.
        path: String,
    },
    /// The operating system said no.
    #[error("{path}: {reason}")]
    Io {
        /// The file.
        path: String,
        /// What it said.
        reason: String,
    },
}
