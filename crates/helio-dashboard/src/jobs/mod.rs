//! Jobs: commands that run as processes of the head, and what is known of them.
//!
//! Reading order: [`request`] (what is asked for), [`record`] (what is known), [`shelf`] (where it is kept),
//! [`environment`] (what a command finds around it), [`entry`] (the process that waits for it), [`publish`] (how
//! others see it), and here the
//! table of all jobs, with a task for each that is under way.
//!
//! A job is acknowledged when its record is on disk. After a restart of the head each record that is not
//! at its end is taken up: one that had not begun begins, one that runs is watched again, and of one that has
//! ended meanwhile the file of its watcher tells how.
//!
//! **LIMIT-1** [`RUNNING_MAX`] jobs are under way at a time, and [`KEPT_MAX`] are remembered: beyond that the
//! one that ended first is forgotten.

pub(crate) mod entry;
mod environment;
mod marked;
mod publish;
pub(crate) mod record;
pub(crate) mod request;
pub(crate) mod shelf;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helio_env::clock::unix_ms;
use helio_env::descriptor::register;
use helio_env::process;
use helio_storage::outside::Copies;
use serde_json::Value;
use tokio::sync::watch;

pub(crate) use environment::{Surroundings, usual_folder};
use marked::Marked;
use record::{End, Job, Status};
use request::Request;
use shelf::Shelf;

const RUNNING_MAX: usize = 2000;
const KEPT_MAX: usize = 10_000;

/// Time that a watcher that was started may take until it says so.
const BEGIN_MAX: Duration = Duration::from_secs(60);
const BEGIN_LOOK: Duration = Duration::from_millis(2);

/// Time between two looks for the reason why an entry point has not begun.
const WAIT_LOOK: Duration = Duration::from_millis(200);

/// Time that killed processes may take to be gone.
const KILL_MAX: Duration = Duration::from_secs(30);

/// Letters of made-up ids: none that looks like another.
const LETTERS: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789";

/// The table of jobs.
#[derive(Debug)]
pub(crate) struct Jobs {
    pub(crate) shelf: Shelf,
    /// The session's folder is new: what is listed of jobs is of a head before this one.
    is_new: bool,
    around: Surroundings,
    table: Mutex<BTreeMap<String, Entry>>,
    /// Jobs whose change is not published yet.
    marked: Marked,
}

#[derive(Debug)]
struct Entry {
    job: Job,
    /// Followers of the log hear of its end.
    status: watch::Sender<Status>,
    stop: watch::Sender<bool>,
}

impl Entry {
    fn new(job: Job) -> Self {
        let (status, stop) = (watch::Sender::new(job.status), watch::Sender::new(false));
        Self { job, status, stop }
    }
}

/// The reason why a job was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// A job of that id exists already.
    Exists,
    /// [`RUNNING_MAX`] are under way.
    Full,
    /// The disk.
    NotKept(String),
}

/// The reason why a job was not deleted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotDeleted {
    Missing,
    Running,
    NotForgotten(String),
}

impl Jobs {
    /// The jobs of the session, those of before included.
    pub(crate) fn open(
        session_dir: &Path,
        copies: Option<Copies>,
        around: Surroundings,
    ) -> io::Result<Self> {
        let (shelf, is_new) = Shelf::open(session_dir, copies)?;
        let all = shelf.load()?.into_iter().map(|job| (job.id.clone(), Entry::new(job)));
        let table = Mutex::new(all.collect());
        Ok(Self { table, shelf, is_new, around, marked: Marked::default() })
    }

    /// Goes on with what was under way when the head ended.
    pub(crate) fn resume(self: &Arc<Self>) {
        let open: Vec<Job> = self
            .table()
            .values()
            .map(|entry| &entry.job)
            .filter(|job| !job.status.is_terminal())
            .cloned()
            .collect();
        for job in open {
            // A watcher of the head before may make the file yet: of two watchers, the first alone runs the command
            // (`entry`).
            let has_begun = self.shelf.run_file(&job.id).exists();
            let jobs = Arc::clone(self);
            tokio::spawn(async move {
                if has_begun { jobs.watch(&job.id).await } else { jobs.run(&job).await }
            });
        }
    }

    /// Has the log of a job fetched that another head ran, or a sentence of where it is.
    pub(crate) async fn fetch_log(&self, id: &str) {
        let is_over = |job: &Job| job.status.is_terminal() && !job.ran_on(&self.around.node_id);
        let Some(job) = self.get(id).filter(is_over) else { return };
        let shelf = self.shelf.clone();
        // `find_log` logs its failures itself.
        let _ = tokio::task::spawn_blocking(move || shelf.find_log(&job)).await;
    }

    /// Takes over what is listed of a job of another head's.
    fn adopt(&self, job: Job) -> io::Result<()> {
        let mut table = self.table();
        if !table.contains_key(&job.id) {
            self.shelf.keep(&job)?;
            self.marked.add(&job.id);
            table.insert(job.id.clone(), Entry::new(job));
        }
        Ok(())
    }

    /// Takes a job: its record is on disk when this returns its id.
    pub(crate) fn submit(self: &Arc<Self>, request: Request) -> Result<String, NotTaken> {
        let id = request.submission_id.clone().unwrap_or_else(made_up);
        let job = Job::new(id.clone(), request, unix_ms());
        {
            let mut table = self.table();
            if table.contains_key(&id) {
                return Err(NotTaken::Exists);
            }
            let open = table.values().filter(|entry| !entry.job.status.is_terminal()).count();
            if open >= RUNNING_MAX {
                return Err(NotTaken::Full);
            }
            // Under the table's lock and before the answer: an id that was given out survives the head.
            self.shelf.keep(&job).map_err(|error| NotTaken::NotKept(error.to_string()))?;
            tracing::info!(job = id, "job submitted");
            table.insert(id.clone(), Entry::new(job.clone()));
            self.marked.add(&id);
            self.make_room(&mut table);
        }
        let jobs = Arc::clone(self);
        tokio::spawn(async move { jobs.run(&job).await });
        Ok(id)
    }

    fn make_room(&self, table: &mut BTreeMap<String, Entry>) {
        while table.len() > KEPT_MAX {
            let ended =
                table.values().filter_map(|entry| Some((entry.job.end_ms()?, &entry.job.id)));
            let Some((_, id)) = ended.min().map(|(when, id)| (when, id.clone())) else { return };
            table.remove(&id);
            self.marked.add(&id);
            // A record that cannot be removed is read again after a restart, and goes then.
            let _ = self.shelf.forget(&id);
        }
    }

    /// Stops a job; `None`: there is none, `false`: it had ended.
    pub(crate) fn stop(&self, id: &str) -> Option<bool> {
        let table = self.table();
        let entry = table.get(id)?;
        let is_open = !entry.job.status.is_terminal();
        entry.stop.send_replace(true);
        Some(is_open)
    }

    /// Forgets a job that has ended.
    pub(crate) fn delete(&self, id: &str) -> Result<(), NotDeleted> {
        let mut table = self.table();
        let entry = table.get(id).ok_or(NotDeleted::Missing)?;
        if !entry.job.status.is_terminal() {
            return Err(NotDeleted::Running);
        }
        // The disk first: a record that stays there is read again after a restart.
        self.shelf.forget(id).map_err(|error| NotDeleted::NotForgotten(error.to_string()))?;
        table.remove(id);
        self.marked.add(id);
        Ok(())
    }

    /// Returns the job of that id.
    pub(crate) fn get(&self, id: &str) -> Option<Job> {
        self.table().get(id).map(|entry| entry.job.clone())
    }

    /// Returns all jobs.
    pub(crate) fn all(&self) -> Vec<Job> {
        self.table().values().map(|entry| entry.job.clone()).collect()
    }

    /// Hears of each change of a job's status.
    pub(crate) fn follow(&self, id: &str) -> Option<watch::Receiver<Status>> {
        self.table().get(id).map(|entry| entry.status.subscribe())
    }

    /// A panic in a holder leaves a table that is as good as before: each change is one assignment.
    fn table(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a record, keeps it, and tells those who follow.
    fn change(&self, id: &str, change: impl FnOnce(&mut Job)) {
        let mut table = self.table();
        let Some(entry) = table.get_mut(id) else { return };
        change(&mut entry.job);
        if let Err(error) = self.shelf.keep(&entry.job) {
            tracing::error!(job = id, %error, "the record of a job cannot be kept");
        }
        entry.status.send_replace(entry.job.status);
        self.marked.add(id);
    }

    fn end(&self, id: &str, end: &End) {
        tracing::info!(job = id, ?end, "job ended");
        helio_env::views::remove_unused(self.around.packages.view(id));
        let log_end = self.shelf.log_end(id);
        self.change(id, |job| job.ended(end, &log_end, unix_ms()));
    }

    fn is_stopping(&self, id: &str) -> bool {
        self.table().get(id).is_some_and(|entry| *entry.stop.borrow())
    }

    /// From its submission to its end.
    async fn run(self: &Arc<Self>, job: &Job) {
        let id = job.id.as_str();
        let (around, request, name) = (self.around.clone(), job.request.clone(), id.to_owned());
        let file = self.shelf.wait_file(id);
        let prepared =
            tokio::task::spawn_blocking(move || around.prepare(&name, &request, &file)).await;
        let prepared = match prepared {
            Ok(Ok(prepared)) => prepared,
            Ok(Err(why)) => return self.end(id, &End::NoEnvironment(why)),
            Err(error) => return self.end(id, &End::NoEnvironment(error.to_string())),
        };
        // The stop may have come before there was a process that it could end.
        if self.is_stopping(id) {
            return self.end(id, &End::Stopped);
        }
        let log = self.shelf.open_log(id).and_then(|log| Ok((log.try_clone()?, log)));
        let begun = log.and_then(|(out, err)| {
            let (run, end) = (self.shelf.run_file(id), self.shelf.end_file(id));
            let mut command = prepared.command(&run, &end);
            command.stdout(out).stderr(err).spawn()
        });
        let child = match begun {
            Ok(child) => child,
            Err(error) => return self.end(id, &End::NotBegun(error.to_string())),
        };
        // The daemon, not this thread, reaps what has ended.
        let watcher = (child.id(), process::began(child.id()).unwrap_or_default());
        tracing::info!(job = id, pid = watcher.0, "job started");
        self.change(id, |job| {
            if prepared.waits_for.is_empty() {
                job.began(&self.around.node_id, watcher);
            } else {
                job.is_watched_by(&self.around.node_id, watcher);
                job.waits(prepared.waits_for);
            }
        });
        self.watch(id).await;
    }

    /// Watches a job until its entry point has ended.
    async fn watch(&self, id: &str) {
        let Some((watcher, began)) = self.get(id).and_then(|job| self.watcher_of(&job)) else {
            return self.end(id, &self.outcome(id));
        };
        let stop = self.table().get(id).map(|entry| entry.stop.subscribe());
        let Some(mut stop) = stop else { return };
        // The process that has this number now is the watcher only if it began when the watcher did.
        let handle =
            process::watch(watcher).ok().filter(|_| process::began(watcher) == Some(began));
        let Some(handle) = handle.and_then(|handle| register(handle).ok()) else {
            return self.end(id, &self.outcome(id));
        };
        let mut waits = self.get(id).is_some_and(|job| job.status == Status::Pending);
        let was_stopped = loop {
            tokio::select! {
                _ = handle.readable() => break false,
                _ = stop.wait_for(|stop| *stop) => break true,
                () = tokio::time::sleep(WAIT_LOOK), if waits => {
                    waits = self.waits(id, (watcher, began));
                }
            }
        };
        if waits {
            self.waits(id, (watcher, began)); // it may have begun and ended since the last look
        }
        if was_stopped {
            self.signal(id, watcher, process::terminate).await;
            let grace = tokio::time::timeout(self.around.grace, handle.readable());
            if grace.await.is_err() {
                self.signal(id, watcher, process::kill).await;
                if tokio::time::timeout(KILL_MAX, handle.readable()).await.is_err() {
                    process::kill_watched(handle.get_ref());
                }
            }
        }
        // Processes that the command left in its group end with it.
        if let Some((entry, _)) = self.entry_of(id) {
            process::kill_group(entry);
        }
        let end = if was_stopped { End::Stopped } else { self.outcome(id) };
        self.end(id, &end);
    }

    /// Takes over what the entry point says of what it waits for; whether it waits on.
    fn waits(&self, id: &str, watcher: (u32, u64)) -> bool {
        let told = shelf::read_json(&self.shelf.wait_file(id)).unwrap_or_default();
        if told["begun"].as_bool() == Some(true) {
            self.change(id, |job| {
                job.began(&self.around.node_id, watcher);
                if let Some(took_ms) = told["environment_ms"].as_u64() {
                    let size = told["environment_size"].as_u64().unwrap_or_default();
                    job.has_environment(took_ms, size);
                }
            });
            return false;
        }
        // Looked at several times a second: only a new reason is worth a write to disk.
        let known = self.get(id).map(|job| job.message().to_owned());
        if let Some(why) = told["why"].as_str()
            && known.is_some_and(|known| known != why)
        {
            self.change(id, |job| job.waits(why));
        }
        true
    }

    /// Sends a signal to the command's group, and to what it started that left the group.
    async fn signal(&self, id: &str, watcher: u32, send: fn(u32)) {
        let until = tokio::time::Instant::now() + BEGIN_MAX;
        // The watcher may be about to start it.
        while self.entry_of(id).is_none()
            && process::began(watcher).is_some()
            && tokio::time::Instant::now() < until
        {
            tokio::time::sleep(BEGIN_LOOK).await;
        }
        process::descendants(watcher).into_iter().for_each(send);
    }

    fn watcher_of(&self, job: &Job) -> Option<(u32, u64)> {
        let written = shelf::read_json(&self.shelf.run_file(&job.id));
        job.watcher.or_else(|| pair(&written?["watcher"]))
    }

    fn entry_of(&self, id: &str) -> Option<(u32, u64)> {
        pair(&shelf::read_json(&self.shelf.run_file(id))?["entry"])
    }

    /// Returns the end of the job as the watcher wrote it down.
    fn outcome(&self, id: &str) -> End {
        let told = shelf::read_json(&self.shelf.wait_file(id)).unwrap_or_default();
        if let Some(why) = told["no_environment"].as_str() {
            return End::NoEnvironment(why.to_owned());
        }
        let written = shelf::read_json(&self.shelf.end_file(id)).unwrap_or_default();
        match (written["code"].as_i64(), written["error"].as_str()) {
            (Some(code), _) => End::Exit(code.try_into().unwrap_or(i32::MAX)),
            (None, Some(error)) => End::NotBegun(error.to_owned()),
            (None, None) => End::Lost(
                "The process that watched the entry point ended first, so nobody knows how that ended.".to_owned(),
            ),
        }
    }
}

/// Ends the jobs of a session whose daemon was killed: nobody comes back for them.
pub fn end_jobs_of(session_dir: &Path) {
    for path in Shelf::of(session_dir).run_files() {
        let written = shelf::read_json(&path).unwrap_or_default();
        // The number may be another process's by now.
        let is_there = |pid, began| process::began(pid) == Some(began);
        if let Some((entry, began)) = pair(&written["entry"])
            && is_there(entry, began)
        {
            process::descendants(entry).into_iter().for_each(process::kill);
            process::kill_group(entry);
        }
        if let Some((watcher, began)) = pair(&written["watcher"])
            && is_there(watcher, began)
        {
            process::kill(watcher);
        }
    }
}

fn pair(value: &Value) -> Option<(u32, u64)> {
    Some((value.get(0)?.as_u64()?.try_into().ok()?, value.get(1)?.as_u64()?))
}

fn made_up() -> String {
    let bytes: [u8; 16] = helio_env::random::bytes();
    let letter = |byte: &u8| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]);
    format!("raysubmit_{}", bytes.iter().map(letter).collect::<String>())
}
