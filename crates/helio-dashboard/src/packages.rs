//! Copies that clients upload (`working_dir`, `py_modules`), and the folders that they become.
//!
//! A client names an archive by a hash of its content and uploads it once. Each job has it unpacked into a folder of
//! its own, its view, for the entry point may write there.
//!
//! **LIMIT-1** An archive has [`ARCHIVE_MAX`] bytes at most, and [`UNPACKED_MAX`] when unpacked.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use helio_config::session::{CODE_FOLDER, PACKAGES_FOLDER};
use helio_env::views::USERS;
use helio_storage::outside::Copies;
use serde_json::Value;
use zip::ZipArchive;

pub(crate) const ARCHIVE_MAX: u64 = 64 << 30;
const UNPACKED_MAX: u64 = 64 << 30;
const NAME_MAX: usize = 200;
/// The begin of the name of a submission's view: those of jobs that nobody submitted have the job's
/// number.
const VIEW: &str = "of-";

#[derive(Debug, Clone)]
pub(crate) struct Packages {
    archives: PathBuf,
    folders: PathBuf,
    /// Copies of the packages where another head finds them; `None`: it is not to.
    copies: Option<Copies>,
}

impl Packages {
    pub(crate) fn of(session_dir: &Path, copies: Option<Copies>) -> Self {
        let (archives, folders) =
            (session_dir.join(PACKAGES_FOLDER), session_dir.join(CODE_FOLDER));
        Self { archives, folders, copies }
    }

    /// Whether the archive is there, if need be from where another head has put it. It may wait for the store.
    pub(crate) fn has(&self, name: &str) -> bool {
        let Some(copies) = &self.copies else { return self.archives.join(name).is_file() };
        copies.find(name).unwrap_or_else(|error| {
            tracing::warn!(name, %error, "a package cannot be looked for in the store");
            false
        })
    }

    /// Puts a copy where another head finds it. Without one the package is there all the same.
    pub(crate) fn copy(&self, name: &str) {
        if let Some(copies) = &self.copies
            && let Err(error) = copies.keep(name)
        {
            tracing::warn!(name, %error, "a package is on this head's disk alone");
        }
    }

    /// Returns the path of the archive of that name, which may be still to come.
    ///
    /// # Errors
    /// A sentence for the user: the name cannot be one.
    pub(crate) fn archive(&self, protocol: &str, name: &str) -> Result<PathBuf, String> {
        if protocol != "gcs" {
            return Err(format!("Packages are kept under the protocol gcs, not {protocol}."));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+');
        let is_fine = name.len() <= NAME_MAX
            && name.chars().all(is_plain)
            && !name.starts_with('.')
            && [".zip", ".whl"].iter().any(|ending| name.ends_with(ending));
        if is_fine {
            Ok(self.archives.join(name))
        } else {
            Err(format!(
                "{name:?} is not the name of a package: letters, digits and `._+-`, {NAME_MAX} at most, and `.zip` or \
                 `.whl` at the end."
            ))
        }
    }

    /// An empty file for an archive that is on its way, and its path.
    pub(crate) fn draft(&self) -> io::Result<(File, PathBuf)> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.archives)?;
        let number = u64::from_le_bytes(helio_env::random::bytes());
        let path = self.archives.join(format!(".{number:x}.part"));
        let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path)?;
        Ok((file, path))
    }

    /// Returns the folder with the code of a submission's entry point, and of its drivers and their workers on
    /// this node.
    pub(crate) fn view(&self, submission_id: &str) -> PathBuf {
        self.folders.join(format!("{VIEW}{submission_id}"))
    }

    /// The folder that a field of the runtime environment of a job means.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn place(&self, view: &Path, field: &str, given: &Value) -> Result<PathBuf, String> {
        let Some(given) = given.as_str() else {
            return Err(format!("`{field}` must name a package or a folder, not {given}."));
        };
        let Some((protocol, name)) = given.split_once("://") else {
            let folder = PathBuf::from(given);
            return if folder.is_absolute() && folder.is_dir() {
                Ok(folder)
            } else {
                Err(format!("`{field}`: there is no folder {given} on the head."))
            };
        };
        if protocol != "gcs" {
            return Err(format!(
                "`{field}`: {given} cannot be fetched by this release; give a local folder, which is uploaded."
            ));
        }
        let archive = self.archive(protocol, name)?;
        if !self.has(name) {
            return Err(format!("`{field}`: the package {given} was not uploaded."));
        }
        if name.ends_with(".whl") {
            return Ok(archive);
        }
        let folder = view.join(name.trim_end_matches(".zip"));
        if !folder.is_dir() {
            unpack_into(view, &archive, &folder)
                .map_err(|why| format!("`{field}`: {given}: {why}"))?;
        }
        match field {
            "py_modules" => module_in(&folder).ok_or_else(|| {
                format!(
                    "`{field}`: {given} must have one folder, the module, and nothing beside it."
                )
            }),
            _ => Ok(folder),
        }
    }
}

/// Unpacks an archive into a draft and renames that to `folder`: a folder of that name is always whole.
fn unpack_into(view: &Path, archive: &Path, folder: &Path) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let number = u64::from_le_bytes(helio_env::random::bytes());
    let draft = view.join(format!(".{number:x}.part"));
    DirBuilder::new().recursive(true).mode(0o755).create(&draft).map_err(text)?;
    File::create(view.join(USERS)).map_err(text)?;
    let outcome = unpack(archive, &draft)
        .and_then(|()| fs::rename(&draft, folder).map_err(|error| error.to_string()));
    if outcome.is_err() {
        let _ = fs::remove_dir_all(draft);
    }
    outcome
}

fn unpack(archive: &Path, folder: &Path) -> Result<(), String> {
    let file = File::open(archive).map_err(|error| error.to_string())?;
    let mut archive = ZipArchive::new(file).map_err(|error| error.to_string())?;
    let size = archive.decompressed_size().unwrap_or(u128::MAX);
    if size > u128::from(UNPACKED_MAX) {
        return Err(format!("it would take more than {} GiB", UNPACKED_MAX >> 30));
    }
    // Names that lead out of the folder are refused.
    archive.extract(folder).map_err(|error| error.to_string())
}

fn module_in(folder: &Path) -> Option<PathBuf> {
    let mut inside = fs::read_dir(folder).ok()?.flatten();
    let only = inside.next()?.path();
    (only.is_dir() && inside.next().is_none()).then_some(only)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let number = std::process::id();
            Self(std::env::temp_dir().join(format!("helio-dashboard-packages-{name}-{number}")))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn upload(packages: &Packages, name: &str, files: &[(&str, &str)]) {
        let (file, draft) = packages.draft().unwrap();
        let mut zip = ZipWriter::new(file);
        for (path, text) in files {
            zip.start_file(*path, SimpleFileOptions::default()).unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        }
        zip.finish().unwrap();
        fs::rename(draft, packages.archive("gcs", name).unwrap()).unwrap();
    }

    #[test]
    fn a_package_becomes_a_folder_of_each_job() {
        let folder = Folder::new("folder");
        let packages = Packages::of(&folder.0, None);
        upload(&packages, "a.zip", &[("x.py", "1"), ("deep/y.py", "2")]);
        let (one, other) = (packages.view("one"), packages.view("other"));
        let place = packages.place(&one, "working_dir", &json!("gcs://a.zip")).unwrap();
        assert_eq!(fs::read_to_string(place.join("deep/y.py")).unwrap(), "2");
        fs::write(place.join("kept"), "").unwrap();
        assert_eq!(packages.place(&one, "working_dir", &json!("gcs://a.zip")).unwrap(), place);
        assert!(place.join("kept").exists());
        let place = packages.place(&other, "working_dir", &json!("gcs://a.zip")).unwrap();
        assert!(place.join("x.py").exists() && !place.join("kept").exists());
        upload(&packages, "m.zip", &[("module/__init__.py", "")]);
        let module = packages.place(&one, "py_modules", &json!("gcs://m.zip")).unwrap();
        assert!(module.ends_with("m/module"));
    }

    #[test]
    fn what_is_no_package_is_refused_with_the_reason() {
        let folder = Folder::new("refused");
        let packages = Packages::of(&folder.0, None);
        upload(&packages, "evil.zip", &[("../../evil", "x")]);
        fs::write(packages.archive("gcs", "torn.zip").unwrap(), "PK").unwrap();
        upload(&packages, "two.zip", &[("a/x", ""), ("b/x", "")]);
        for (field, given, says) in [
            ("working_dir", json!(5), "`working_dir`"),
            ("working_dir", json!("gcs://none.zip"), "not uploaded"),
            ("working_dir", json!("gcs://../x.zip"), "not the name of a package"),
            ("working_dir", json!("https://x/y.zip"), "cannot be fetched"),
            ("working_dir", json!("relative"), "no folder"),
            ("working_dir", json!("gcs://evil.zip"), "evil.zip"),
            ("working_dir", json!("gcs://torn.zip"), "torn.zip"),
            ("py_modules", json!("gcs://two.zip"), "one folder"),
        ] {
            let said = packages.place(&packages.view("one"), field, &given).unwrap_err();
            assert!(said.contains(says), "{given}: {said}");
        }
        assert!(!folder.0.join("../evil").exists() && !folder.0.join("evil").exists());
        for name in ["", "x", ".zip", "a/b.zip", "x.tar", "a\n.zip"] {
            assert!(packages.archive("gcs", name).is_err(), "{name:?}");
        }
        assert!(packages.archive("s3", "x.zip").is_err());
    }
}
