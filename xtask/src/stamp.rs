//! Stamps: what makes a task quick the second time.
//!
//! A stamp is a file that holds the digest of everything that went into a step. The step runs when
//! the digest differs, and the stamp is written only after it succeeded.

use crate::sh::{Outcome, root};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// The digest of a step's inputs.
pub(crate) struct Inputs(DefaultHasher);

impl Inputs {
    pub(crate) fn new() -> Self {
        Self(DefaultHasher::new())
    }

    /// Adds words: a version, a list of requirements.
    pub(crate) fn words(mut self, words: &[impl AsRef<str>]) -> Self {
        for word in words {
            word.as_ref().hash(&mut self.0);
        }
        self
    }

    /// Adds files, by name and content.
    pub(crate) fn files(mut self, files: &[PathBuf]) -> Outcome<Self> {
        for file in files {
            let data = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
            // The name as well: a file that was renamed is another input.
            file.hash(&mut self.0);
            data.hash(&mut self.0);
        }
        Ok(self)
    }

    pub(crate) fn digest(self) -> String {
        format!("{:016x}", self.0.finish())
    }
}

/// Whether the stamp already says so.
pub(crate) fn is(stamp: &Path, digest: &str) -> bool {
    std::fs::read_to_string(stamp).is_ok_and(|old| old == digest)
}

/// Runs the step unless its stamp is current. Two tasks that want steps at once take turns.
pub(crate) fn step(stamp: &Path, digest: &str, run: impl FnOnce() -> Outcome) -> Outcome {
    if is(stamp, digest) {
        return Ok(());
    }
    let _turn = turn()?;
    // The other task may have done the step while this one waited for its turn.
    if is(stamp, digest) {
        return Ok(());
    }
    run()?;
    let folder = stamp.parent().ok_or("a stamp lies in a folder")?;
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(stamp, digest))
        .map_err(|error| format!("{}: {error}", stamp.display()))
}

/// The right to run a step, for as long as the file that comes back is open.
fn turn() -> Outcome<File> {
    let path = root().join("target/.step.lock");
    let open = || {
        std::fs::create_dir_all(root().join("target"))?;
        let file = File::create(&path)?;
        file.lock()?;
        Ok(file)
    };
    open().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(words: &[&str]) -> String {
        Inputs::new().words(words).digest()
    }

    #[test]
    fn a_digest_tells_its_inputs_apart() {
        assert_eq!(digest(&["a", "b"]), digest(&["a", "b"]));
        assert_ne!(digest(&["a", "b"]), digest(&["ab"]));
        assert_ne!(digest(&["a", "b"]), digest(&["b", "a"]));
    }

    #[test]
    fn a_step_runs_once_for_each_digest_and_again_after_a_failure() {
        let folder = std::env::temp_dir().join(format!("xtask-stamp-{}", std::process::id()));
        let stamp = folder.join("step");
        let mut runs = 0;
        for (digest, outcome) in
            [("1", Err(String::from("no"))), ("1", Ok(())), ("1", Ok(())), ("2", Ok(()))]
        {
            let _ = step(&stamp, digest, || {
                runs += 1;
                outcome
            });
        }
        assert_eq!(runs, 3);
        std::fs::remove_dir_all(folder).expect("the folder was made here");
    }
}
