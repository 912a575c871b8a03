//! The files of jobs on disk, by which they outlive a restart of the head.
//!
//! ```text
//! <session>/jobs/job-<id>.json        the record
//!                job-<id>.run         what watches the entry point, once it runs
//!                job-<id>.wait        what it waits for before it begins
//!                job-<id>.end         how the entry point ended
//! <session>/logs/job-driver-<id>.log  what it printed
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use helio_storage::outside::Copies;
use serde_json::Value;

use super::record::Job;

/// Number of lines of a log's end that go into a job's message.
const MESSAGE_LINES: usize = 10;
const MESSAGE_BYTES: u64 = 20_000;

#[derive(Debug, Clone)]
pub(crate) struct Shelf {
    jobs: PathBuf,
    logs: PathBuf,
    /// Copies of the logs where another head finds them; `None`: it is not to.
    copies: Option<Copies>,
}

impl Shelf {
    pub(crate) fn of(session_dir: &Path) -> Self {
        Self { jobs: session_dir.join("jobs"), logs: session_dir.join("logs"), copies: None }
    }

    /// Opens the shelf of a session and makes its folder. Returns also whether that was not there before.
    pub(crate) fn open(session_dir: &Path, copies: Option<Copies>) -> io::Result<(Self, bool)> {
        let shelf = Self { copies, ..Self::of(session_dir) };
        let is_new = !shelf.jobs.exists();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&shelf.jobs)?;
        Ok((shelf, is_new))
    }

    pub(crate) fn log(&self, id: &str) -> PathBuf {
        self.logs.join(log_name(id))
    }

    /// Puts a copy of an ended job's log where another head finds it. It may wait for the store.
    pub(crate) fn copy_log(&self, id: &str) {
        if let Some(copies) = &self.copies
            && self.log(id).is_file()
            && let Err(error) = copies.keep(&log_name(id))
        {
            tracing::warn!(job = id, %error, "a job's log is on this head's disk alone");
        }
    }

    /// Fetches the log of a job that another head ran; where there is no copy a sentence says where it was.
    pub(super) fn find_log(&self, job: &Job) {
        let (path, name) = (self.log(&job.id), log_name(&job.id));
        if path.is_file() {
            return;
        }
        match self.copies.as_ref().map_or(Ok(false), |copies| copies.find(&name)) {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(name, %error, "a job's log cannot be looked for in the store");
                return;
            }
        }
        let node = job.node_id().unwrap_or_default();
        let text = format!(
            "What this job printed is not here: it ran on the machine of another head, node {node}. If that machine's \
             disk is still there, it is {name} in the logs of its session.\n"
        );
        let new = OpenOptions::new().create_new(true).append(true).mode(0o600).open(path);
        // A writer that was quicker has written the same text.
        if let Ok(mut log) = new
            && let Err(error) = log.write_all(text.as_bytes())
        {
            tracing::warn!(name, %error, "a log cannot be written");
        }
    }

    pub(crate) fn run_file(&self, id: &str) -> PathBuf {
        self.jobs.join(format!("job-{id}.run"))
    }

    pub(crate) fn end_file(&self, id: &str) -> PathBuf {
        self.jobs.join(format!("job-{id}.end"))
    }

    /// The file that says what an entry point waits for, if the entry point needs more than a shell.
    pub(crate) fn wait_file(&self, id: &str) -> PathBuf {
        self.jobs.join(format!("job-{id}.wait"))
    }

    /// The files of the watchers of all jobs that have begun.
    pub(crate) fn run_files(&self) -> Vec<PathBuf> {
        let all =
            fs::read_dir(&self.jobs).into_iter().flatten().flatten().map(|entry| entry.path());
        all.filter(|path| path.extension().is_some_and(|ending| ending == "run")).collect()
    }

    fn record(&self, id: &str) -> PathBuf {
        self.jobs.join(format!("job-{id}.json"))
    }

    /// Keeps a record; once this returns, it survives the process.
    pub(crate) fn keep(&self, job: &Job) -> io::Result<()> {
        write_whole(&self.record(&job.id), job.to_file().to_string().as_bytes())
    }

    /// All records, in the order of their files' names.
    pub(crate) fn load(&self) -> io::Result<Vec<Job>> {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(&self.jobs)?.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
        paths.sort();
        let read = |path: &PathBuf| {
            let job = read_json(path).as_ref().and_then(Job::from_file);
            if job.is_none() {
                tracing::warn!(path = %path.display(), "a file among the jobs is not the record of a job");
            }
            job
        };
        Ok(paths.iter().filter_map(read).collect())
    }

    /// Forgets a job; its log stays.
    pub(crate) fn forget(&self, id: &str) -> io::Result<()> {
        for path in [self.run_file(id), self.end_file(id), self.wait_file(id)] {
            // The file may never have been written.
            let _ = fs::remove_file(path);
        }
        fs::remove_file(self.record(id))
    }

    /// The log, to be appended to.
    pub(crate) fn open_log(&self, id: &str) -> io::Result<File> {
        OpenOptions::new().create(true).append(true).mode(0o600).open(self.log(id))
    }

    /// The last lines of the log.
    pub(crate) fn log_end(&self, id: &str) -> String {
        let text = read_end(&self.log(id), MESSAGE_BYTES).unwrap_or_default();
        let lines: Vec<&str> = text.trim_end().lines().collect();
        lines[lines.len().saturating_sub(MESSAGE_LINES)..].join("\n")
    }
}

fn log_name(id: &str) -> String {
    format!("job-driver-{id}.log")
}

/// Returns the end of a file as text, at most `bytes_max` bytes.
pub(crate) fn read_end(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(bytes_max)))?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) fn read_json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Writes a file that others see whole or not at all, and that is on disk when this returns.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = helio_env::draft::beside(path);
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&draft)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(draft, path)
}

#[cfg(test)]
mod tests {
    use super::super::record::End;
    use super::super::request::Request;
    use super::*;

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn records_are_kept_and_a_torn_one_is_passed_over() {
        let folder = Folder(
            std::env::temp_dir().join(format!("helio-dashboard-shelf-{}", std::process::id())),
        );
        fs::create_dir_all(folder.0.join("logs")).unwrap();
        let (shelf, is_new) = Shelf::open(&folder.0, None).unwrap();
        assert!(is_new);
        let mut job = Job::new("a b".into(), Request::default(), 1);
        job.request.submission_id = Some("a b".into());
        shelf.keep(&job).unwrap();
        writeln!(shelf.open_log("a b").unwrap(), "first\n{}last", "more\n".repeat(20)).unwrap();
        job.ended(&End::Exit(1), &shelf.log_end("a b"), 2);
        shelf.keep(&job).unwrap();
        fs::write(folder.0.join("jobs/job-torn.json"), "{\"submission_id\": \"torn\"").unwrap();
        let (again, is_new) = Shelf::open(&folder.0, None).unwrap();
        assert!(!is_new);
        assert_eq!(again.load().unwrap(), [job]);
        assert_eq!(shelf.log_end("a b"), format!("{}last", "more\n".repeat(9)));
        assert_eq!(shelf.log_end("nothing"), "");
        shelf.forget("a b").unwrap();
        assert!(shelf.log("a b").exists() && shelf.forget("a b").is_err());
    }
}
