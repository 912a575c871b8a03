//! A store that keeps nothing.

use std::collections::BTreeMap;

use crate::{Change, Entry, Error, Storage};

/// Lives and ends with the process: for clusters that end with their driver, and for tests.
#[derive(Debug, Default)]
pub struct Memory {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Whether anybody will read it again.
    kept: bool,
}

impl Memory {
    /// Forgets everything at once: nobody reads the state of a cluster that ends with this process.
    #[must_use]
    pub fn forgetful() -> Self {
        Self::default()
    }

    /// Keeps entries, as a stand-in for a durable store.
    #[must_use]
    pub fn keeping() -> Self {
        Self { kept: true, ..Self::default() }
    }
}

impl Storage for Memory {
    fn load(&mut self) -> Result<Vec<Entry>, Error> {
        Ok(self.entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), Error> {
        for change in changes.iter().filter(|_| self.kept) {
            match &change.value {
                Some(value) => self.entries.insert(change.key.clone(), value.clone()),
                None => self.entries.remove(&change.key),
            };
        }
        Ok(())
    }
}
