//! Durable state: a map that keeps what it acknowledged.
//!
//! [`Storage`] is the contract. [`Embedded`] keeps it in one file beside the session, with no service to start;
//! [`Memory`] keeps nothing, for clusters that end with their driver; [`outside`] has the stores that operators run
//! already, in which the state outlives the head's machine. `tests/conformance.rs` is what each must pass.

#![forbid(unsafe_code)]

mod embedded;
mod memory;
pub mod outside;

pub use embedded::Embedded;
pub use memory::Memory;

/// An entry to write (`Some`) or delete (`None`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The entry's key.
    pub key: Vec<u8>,
    /// The new value; `None`: the key is deleted.
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
/// 3. After [`Error::Full`] and [`Error::Away`] the same changes may be committed again, before or with others, as
///    often as it takes: what became of the first try does not matter then. After any other `Err` it is unknown whether
///    the commit happened; the caller ends and starts anew.
/// 4. There is one writer: a second one on the same state is refused by `open`, or waits there; and where it takes over
///    from one that is silent, every later commit of that one fails with [`Error::Lost`] and changes nothing.
pub trait Storage: Send {
    /// All entries, by key.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn load(&mut self) -> Result<Vec<Entry>, Error>;

    /// Makes the changes durable. Many changes in one commit cost little more than one.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn commit(&mut self, changes: &[Change]) -> Result<(), Error>;

    /// Returns the number of bytes that the medium still takes; `None`: no limit is known.
    fn room(&self) -> Option<u64> {
        None
    }

    /// Returns the clause that says which medium is full, for a message while it takes nothing more.
    fn full(&self) -> String {
        "there is no memory left".to_owned()
    }

    /// Whether this process may answer for the state, or another one may have taken it over.
    fn standing(&self) -> Standing {
        Standing::Certain
    }

    /// Tries to be the one writer again after [`Standing::Doubtful`]. With `true` the state is to be loaded anew: another
    /// process may have had it meanwhile.
    ///
    /// # Errors
    /// [`Error::Lost`] when another process has it.
    fn regain(&mut self) -> Result<bool, Error> {
        Ok(true)
    }

    /// Returns the number of this writer of the state: each later writer has a higher one. 0: there is no other.
    fn epoch(&self) -> u64 {
        0
    }
}

/// Whether a writer may answer for what it wrote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The writer is certainly the only one.
    Certain,
    /// The store was not reached for so long that another process may write; the text says why it was not reached.
    Doubtful(String),
    /// Another process, which is named, writes.
    Lost(String),
}

/// The reason why the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process has the file open.
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
        /// The damage.
        reason: String,
    },
    /// The medium has no room left.
    #[error("no space is left for {path}")]
    Full {
        /// The file.
        path: String,
    },
    /// The store does not answer, or cannot write at the moment: it may be tried again.
    #[error("{place}: {reason}")]
    Away {
        /// The store.
        place: String,
        /// The failure that it met.
        reason: String,
    },
    /// Another process writes the state now.
    #[error("{place}: {reason}")]
    Lost {
        /// The store.
        place: String,
        /// The process that writes now.
        reason: String,
    },
    /// The store refuses, whoever asks how often: a wrong password, the state of another cluster.
    #[error("{place}: {reason}")]
    Refused {
        /// The store.
        place: String,
        /// The message of the store, and what to do.
        reason: String,
    },
    /// The operating system said no.
    #[error("{path}: {reason}")]
    Io {
        /// The file.
        path: String,
        /// The message of the operating system.
        reason: String,
    },
}
