//! A history that was read: it answers what the cluster would have answered at its end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, RwLock};

use helio_env::clock::unix_ms;
use helio_proto::control::{
    ActorInfo, Actors, ControlRequest, ControlResponse, JobInfo, Jobs, KvList, KvPair, KvPairs,
    KvValue, NodeInfo, Nodes,
};
use helio_proto::group::{GroupInfo, Groups};
use helio_proto::history::Batch;
use helio_proto::inspect::{Answer, Answers, Question, Topic, WorkerRow};
use helio_report::calls::Calls;
use helio_types::{ActorId, JobId, NodeId, PlacementGroupId, WorkerId};

use super::file::{self, About};
use crate::Table;

/// A history that was read.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The cluster that the history is of.
    pub about: About,
    /// The time at which the first batch was written, in milliseconds since 1970; `ended_ms` is
    /// that of the last one.
    pub begun_ms: u64,
    /// See `begun_ms`.
    pub ended_ms: u64,
    /// Sentences about the parts that could not be read, or were not written.
    pub notes: Vec<String>,
    calls: Table,
    actors: BTreeMap<ActorId, ActorInfo>,
    jobs: BTreeMap<JobId, JobInfo>,
    nodes: BTreeMap<NodeId, NodeInfo>,
    groups: BTreeMap<PlacementGroupId, GroupInfo>,
    entries: BTreeMap<(String, Vec<u8>), Vec<u8>>,
    /// The workers, each with the daemon that told of it and the time, in milliseconds since 1970.
    workers: BTreeMap<WorkerId, (WorkerRow, Daemon, u64)>,
}

/// The daemon that told of a worker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Daemon {
    node_id: NodeId,
    host: String,
    pid: u32,
}

/// The refusal of requests that only a living cluster can answer.
const GONE: &str = "This cluster is gone: what is left of it can only be looked at.";

impl Recorded {
    /// Reads the history in a folder.
    ///
    /// # Errors
    /// A sentence: the folder cannot be read, has no history, or none that this release knows.
    pub fn open(folder: &Path) -> Result<Self, String> {
        let shown = folder.display();
        let files =
            file::files(folder).map_err(|error| format!("{shown} cannot be read: {error}"))?;
        if files.is_empty() {
            return Err(format!(
                "There is no history in {shown}: it would have files such as 00000001.history. `heliostat history list` \
                 shows those of this machine."
            ));
        }
        let mut read = Self::default();
        let mut calls = Calls::default();
        let mut gaps = 0;
        let mut is_any = false;
        for (_, path) in &files {
            let found = file::read(path, |batch| {
                gaps += u64::from(batch.gaps);
                read.add(batch, &mut calls);
            });
            match found {
                Ok((about, note)) => {
                    is_any = true;
                    read.about = about;
                    read.notes.extend(note);
                }
                Err(note) => read.notes.push(note),
            }
        }
        if !is_any {
            return Err(read.notes.join(" "));
        }
        if files[0].0 > 1 {
            read.notes.push(format!(
                "The oldest {} files were removed, as a history takes no more than {} MB: calls that ended before are \
                 missing.",
                files[0].0 - 1,
                file::BYTES_MAX >> 20
            ));
        }
        if gaps > 0 {
            read.notes.push(format!(
                "At {gaps} moments more calls ended in a process than could be asked for: of these calls some are missing."
            ));
        }
        if read.about.release != env!("CARGO_PKG_VERSION") {
            let (theirs, ours) = (&read.about.release, env!("CARGO_PKG_VERSION"));
            read.notes.push(format!(
                "It was written by Heliostat {theirs}, and this is {ours}: what only one of them knows is left out."
            ));
        }
        read.calls = Arc::new(RwLock::new(calls));
        Ok(read)
    }

    fn add(&mut self, batch: Batch, calls: &mut Calls) {
        let at = batch.at_ms;
        if self.begun_ms == 0 {
            self.begun_ms = at;
        }
        self.ended_ms = self.ended_ms.max(at);
        calls.set_actors(&batch.actors);
        calls.add_processes(&batch.workers);
        calls.add(&batch.calls, batch.is_whole);
        self.actors.extend(batch.actors.into_iter().map(|one| (one.actor_id, one)));
        self.jobs.extend(batch.jobs.into_iter().map(|one| (one.job_id, one)));
        self.nodes.extend(batch.nodes.into_iter().map(|one| (one.address.node_id, one)));
        self.groups.extend(batch.groups.into_iter().map(|one| (one.spec.group_id, one)));
        for entry in batch.entries {
            let place = (entry.namespace, entry.key);
            if entry.is_gone {
                self.entries.remove(&place);
            } else {
                self.entries.insert(place, entry.value);
            }
        }
        for answer in batch.workers {
            let Answer { node_id, host, pid, workers, .. } = answer;
            let daemon = Daemon { node_id, host, pid };
            self.workers
                .extend(workers.into_iter().map(|row| (row.worker_id, (row, daemon.clone(), at))));
        }
    }

    /// The calls.
    #[must_use]
    pub fn calls(&self) -> Table {
        Arc::clone(&self.calls)
    }

    /// Answers as the control service would have.
    pub(crate) fn ask(&self, request: &ControlRequest) -> Result<ControlResponse, String> {
        Ok(match request {
            ControlRequest::ListActors(_) => {
                let actors = self.actors.values().cloned().collect();
                ControlResponse::Actors(Actors { actors })
            }
            ControlRequest::ListJobs(_) => {
                let jobs = self.jobs.values().cloned().collect();
                ControlResponse::Jobs(Jobs { jobs })
            }
            ControlRequest::ListNodes(_) => {
                let nodes = self.nodes.values().cloned().collect();
                ControlResponse::Nodes(Nodes { nodes, ..Nodes::default() })
            }
            ControlRequest::ListGroups(_) => {
                let groups = self.groups.values().cloned().collect();
                ControlResponse::Groups(Groups { groups })
            }
            ControlRequest::KvGet(get) => {
                let place = (get.namespace.clone(), get.key.clone());
                let value = self.entries.get(&place).cloned();
                ControlResponse::KvValue(KvValue {
                    found: value.is_some(),
                    value: value.unwrap_or_default(),
                })
            }
            ControlRequest::KvEntries(wanted) => {
                let pairs = self.table(&wanted.namespace, &wanted.prefix);
                let pairs = pairs
                    .map(|(key, value)| KvPair { key: key.clone(), value: value.clone() })
                    .collect();
                ControlResponse::KvPairs(KvPairs { pairs })
            }
            ControlRequest::KvKeys(wanted) => {
                let keys = self.table(&wanted.namespace, &wanted.prefix);
                let keys =
                    keys.map(|(key, _)| KvValue { found: true, value: key.clone() }).collect();
                ControlResponse::KvList(KvList { keys })
            }
            _ => return Err(GONE.to_owned()),
        })
    }

    fn table<'a>(
        &'a self,
        namespace: &'a str,
        prefix: &'a [u8],
    ) -> impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)> {
        let from = (namespace.to_owned(), prefix.to_vec());
        self.entries
            .range(from..)
            .take_while(move |((space, key), _)| space == namespace && key.starts_with(prefix))
            .map(|((_, key), value)| (key, value))
    }

    /// Answers as the daemons would have for their workers.
    pub(crate) fn inspect(&self, question: &Question) -> Result<Answers, String> {
        match question.topic {
            Topic::Workers => {}
            // Nobody holds objects any more.
            Topic::Objects => return Ok(Answers::default()),
            _ => return Err(GONE.to_owned()),
        }
        let now = unix_ms();
        let mut answers: BTreeMap<&Daemon, Vec<WorkerRow>> = BTreeMap::new();
        for (row, daemon, at) in self.workers.values() {
            let mut row = row.clone();
            // The row counts from when it was asked for, and is shown later.
            if row.ended_ago_ms > 0 {
                row.ended_ago_ms += now.saturating_sub(*at);
            }
            answers.entry(daemon).or_default().push(row);
        }
        let answer = |(daemon, workers): (&Daemon, Vec<WorkerRow>)| Answer {
            node_id: daemon.node_id,
            host: daemon.host.clone(),
            pid: daemon.pid,
            is_daemon: true,
            total: workers.len() as u64,
            workers,
            ..Answer::default()
        };
        Ok(Answers { answers: answers.into_iter().map(answer).collect(), ..Answers::default() })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use helio_proto::control::KvGet;
    use helio_proto::history::Entry;
    use helio_proto::inspect::{TaskPhase, TaskRow};
    use helio_types::TaskId;

    use super::super::file::Writer;
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("recorded-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn about() -> About {
        let release = env!("CARGO_PKG_VERSION").to_owned();
        About { session_name: "s".to_owned(), release, node_id: "n".to_owned() }
    }

    /// A call as a busy driver has it: an id that nobody could guess, times without a pattern.
    fn call(number: u64) -> TaskRow {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        let at = 1_800_000_000_000_000 + number * 90 + mixed % 900;
        TaskRow {
            task_id: TaskId::new(mixed, ActorId([3; ActorId::LEN])),
            name: format!("stage_{}", number % 7),
            phase: TaskPhase::Finished,
            node_id: NodeId([(number % 5) as u8; NodeId::LEN]),
            worker_id: WorkerId([(mixed % 40) as u8; WorkerId::LEN]),
            created_ms: at / 1000 - mixed % 50,
            started_us: at,
            ended_us: at + 1_000 + mixed % 40_000,
            ..TaskRow::default()
        }
    }

    fn write(folder: &Folder, batches: impl IntoIterator<Item = Batch>) {
        let mut writer = Writer::new(&folder.0, about()).unwrap();
        for batch in batches {
            let begins = writer.begins();
            writer.write(batch, begins).unwrap();
        }
    }

    /// A million tasks take less than 20 MB (13), of which the ids, that are random, take 8: a tenth of it here. A third of them were
    /// told of while they ran, too.
    #[test]
    fn calls_take_less_than_twenty_bytes_each() {
        const CALLS: u64 = 100_000;
        const BATCH: u64 = 1_000;
        let folder = Folder::new("size");
        let ran = |number: u64| TaskRow { phase: TaskPhase::Sent, ended_us: 0, ..call(number) };
        let batch = |from: u64| {
            let running = (from + BATCH..from + BATCH + BATCH / 3).map(ran);
            let tasks = (from..from + BATCH).map(call).chain(running).collect();
            let calls = vec![Answer { tasks, ..Answer::default() }];
            Batch { at_ms: from, calls, ..Batch::default() }
        };
        write(&folder, (0..CALLS / BATCH).map(|n| batch(n * BATCH)));
        let files = file::files(&folder.0).unwrap();
        let bytes: u64 = files.iter().map(|(_, path)| path.metadata().unwrap().len()).sum();
        assert!(bytes < CALLS * 20, "{} bytes a call", bytes / CALLS);
        let read = Recorded::open(&folder.0).unwrap();
        let calls = read.calls();
        let calls = crate::read(&calls);
        assert_eq!(calls.len() as u64, CALLS + BATCH / 3, "the last ones still run");
        let found = calls.of(call(7).task_id).next().map(|found| found.times_us());
        assert_eq!(found, Some((call(7).started_us, call(7).ended_us)));
        assert_eq!(read.notes, Vec::<String>::new());
    }

    #[test]
    fn the_latest_that_was_said_counts() {
        let folder = Folder::new("latest");
        let entry = |value: &str, is_gone| Entry {
            namespace: "_data_runs".to_owned(),
            key: b"a".to_vec(),
            value: value.as_bytes().to_vec(),
            is_gone,
        };
        let job =
            |alive| JobInfo { alive, entrypoint: "python x.py".to_owned(), ..JobInfo::default() };
        let batch = |at_ms, value: &str, alive| Batch {
            at_ms,
            entries: vec![entry(value, false)],
            jobs: vec![job(alive)],
            ..Batch::default()
        };
        write(&folder, [batch(5, "one", true), batch(9, "two", false)]);
        let read = Recorded::open(&folder.0).unwrap();
        assert_eq!((read.begun_ms, read.ended_ms), (5, 9));
        let get = KvGet { namespace: "_data_runs".to_owned(), key: b"a".to_vec() };
        let Ok(ControlResponse::KvValue(found)) = read.ask(&get.into()) else { panic!("no value") };
        assert_eq!((found.found, found.value), (true, b"two".to_vec()));
        let list = helio_proto::control::ListJobs {};
        let Ok(ControlResponse::Jobs(jobs)) = read.ask(&list.into()) else { panic!("no jobs") };
        assert_eq!(jobs.jobs, [job(false)]);
        let kill = helio_proto::control::KillActor::default();
        assert_eq!(read.ask(&kill.into()).unwrap_err(), GONE);
    }
}
