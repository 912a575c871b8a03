//! Names for files that others are to see whole or not at all.

use std::path::{Path, PathBuf};

/// A name beside `path` for what becomes it when it is whole. No other writer has it: the number of a process would
/// not do, since processes of two containers that share the folder may have the same.
///
/// # Panics
/// Where the operating system has no randomness.
#[must_use]
pub fn beside(path: &Path) -> PathBuf {
    let number = u64::from_le_bytes(crate::random::bytes());
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{number:016x}.part"));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_draft_has_a_name_of_its_own_beside_its_file() {
        let path = Path::new("/tmp/ray/ray_current_cluster");
        let (first, second) = (beside(path), beside(path));
        assert_ne!(first, second);
        assert_eq!(first.parent(), path.parent());
        let name = first.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        assert!(name.starts_with(".ray_current_cluster.") && name.ends_with(".part"), "{name}");
    }
}
