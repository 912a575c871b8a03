//! The runtime environments that workers here were started in: how long the first start took, how many there were,
//! and what the last one failed with. **LIMIT-1** [`ENVIRONMENTS_MAX`] are remembered; the longest unused go.

use std::collections::BTreeMap;

use helio_proto::environment::RuntimeEnv;
use helio_proto::inspect::EnvironmentRow;

use crate::limits::ENVIRONMENTS_MAX;

/// The runtime environments known here, with their starts and the error of the last one.
#[derive(Debug, Default)]
pub(crate) struct Environments {
    /// The environments, by the documents that their users wrote.
    all: BTreeMap<String, Told>,
    /// Number of uses of all environments; orders them by age.
    uses: u64,
}

#[derive(Debug, Default)]
struct Told {
    /// Milliseconds that the first worker took to be ready; `None`: none was.
    made_in: Option<u64>,
    starts: u64,
    /// The largest that a worker told, in bytes: the one that made it knows all parts.
    size: u64,
    /// The reason why the last worker did not start; empty if it did.
    error: String,
    /// Rises with each use.
    used: u64,
}

impl Environments {
    /// Notes that a worker was ready after `took_ms` milliseconds, with the size that it tells.
    pub(crate) fn on_start(&mut self, env: &RuntimeEnv, took_ms: u64, size: u64) {
        if let Some(told) = self.told(env) {
            told.made_in.get_or_insert(took_ms);
            told.size = told.size.max(size);
            told.starts += 1;
            told.error.clear();
        }
    }

    /// Workers do not start, for this reason.
    pub(crate) fn on_failure(&mut self, env: &RuntimeEnv, error: &str) {
        if let Some(told) = self.told(env) {
            error.clone_into(&mut told.error);
        }
    }

    pub(crate) fn rows(&self) -> Vec<EnvironmentRow> {
        let rows = self.all.iter().map(|(document, told)| EnvironmentRow {
            runtime_env: document.clone(),
            made_in_ms: told.made_in.unwrap_or_default(),
            starts: told.starts,
            error: told.error.clone(),
            size: told.size,
        });
        rows.collect()
    }

    fn told(&mut self, env: &RuntimeEnv) -> Option<&mut Told> {
        if env.document.is_empty() {
            return None;
        }
        if self.all.len() >= ENVIRONMENTS_MAX && !self.all.contains_key(&env.document) {
            let oldest = self.all.iter().min_by_key(|(_, told)| told.used)?.0.clone();
            self.all.remove(&oldest);
        }
        self.uses += 1;
        let has_room = self.all.len() < ENVIRONMENTS_MAX || self.all.contains_key(&env.document);
        assert!(has_room, "environments would be remembered without end");
        let told = self.all.entry(env.document.clone()).or_default();
        assert!(told.used < self.uses, "the environment that was used last would be forgotten");
        told.used = self.uses;
        Some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(document: &str) -> RuntimeEnv {
        RuntimeEnv { document: document.to_owned(), ..RuntimeEnv::default() }
    }

    #[test]
    fn the_first_start_says_how_long_it_took_and_a_later_one_clears_an_error() {
        let mut all = Environments::default();
        all.on_failure(&env("a"), "no such package");
        assert_eq!((all.rows()[0].starts, &*all.rows()[0].error), (0, "no such package"));
        all.on_start(&env("a"), 900, 7);
        all.on_start(&env("a"), 30, 0);
        let row = &all.rows()[0];
        assert_eq!((row.starts, row.made_in_ms, row.size, &*row.error), (2, 900, 7, ""));
        all.on_start(&env(""), 1, 0);
        assert_eq!(all.rows().len(), 1, "no environment is none");
    }

    #[test]
    fn the_longest_unused_go() {
        let mut all = Environments::default();
        for number in 0..ENVIRONMENTS_MAX {
            all.on_start(&env(&format!("{number}")), 1, 0);
        }
        all.on_start(&env("0"), 1, 0);
        all.on_start(&env("one more"), 1, 0);
        let names: Vec<String> = all.rows().into_iter().map(|row| row.runtime_env).collect();
        assert_eq!(names.len(), ENVIRONMENTS_MAX);
        assert!(names.contains(&"0".to_owned()) && !names.contains(&"1".to_owned()));
    }
}
