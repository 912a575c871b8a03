//! Operations on the key-value table of the control service, and on its list of jobs.

use std::collections::BTreeMap;

use helio_process_state::{Answer, Event as ProcessEvent};
use helio_proto::control::{
    ControlRequest, ControlResponse, JobInfo, KvDel, KvEntries, KvGet, KvKeys, KvPut, ListJobs,
    ListNodes,
};
use helio_types::{ResourceSet, WorkerId};

use super::Process;
use super::frames::{Frame, Step, Wait};
use crate::core::Core;

/// Microseconds that the user waits before a write for which the head had no room is tried again.
const WRITE_AGAIN_US: u64 = 100_000;
/// Microseconds after which everybody knows of a driver that it has ended, at the latest.
const JOB_END_US_MAX: u64 = 20_000_000;
/// The namespace of all keys.
const SPACE: &str = "sim";

fn put(key: &[u8], value: u64, overwrite: bool) -> KvPut {
    let value = value.to_le_bytes().to_vec();
    KvPut { namespace: SPACE.to_owned(), key: key.to_vec(), value, overwrite }
}

impl Process {
    /// Asks the control service and waits for its answer.
    pub(super) fn control(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        message: impl Into<ControlRequest>,
    ) -> Option<ControlResponse> {
        let machine = self.machine.as_mut()?;
        if let Wait::Answer(request) = frame.wait {
            return match machine.take_answer(request)? {
                Answer::Control(response) => Some(response),
                _ => None,
            };
        }
        let request = machine.mint_request();
        self.apply(core, ProcessEvent::Ask { request, message: Box::new(message.into()) });
        frame.wait = Wait::Answer(request);
        None
    }

    /// Asks for a change, again and again while the head's disk has no room for it; whether the key was there.
    fn change(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        key: &[u8],
        message: impl Into<ControlRequest>,
    ) -> Option<bool> {
        match self.control(core, frame, message)? {
            ControlResponse::KvValue(before) => {
                core.facts.refusable_keys.remove(key);
                Some(before.found)
            }
            ControlResponse::Failed(_) if core.facts.refusable_keys.contains(key) => {
                core.facts.count("writes refused by the head");
                self.pause(core, frame, core.now + WRITE_AGAIN_US);
                None
            }
            other => {
                core.violation(format!("a change of the table was answered with {other:?}"));
                Some(false)
            }
        }
    }

    pub(super) fn kv_put(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        key: u64,
        value: u64,
    ) -> Step {
        let key = key.to_le_bytes().to_vec();
        core.facts.kv_sent.insert(key.clone(), Some(value));
        if self.change(core, frame, &key, put(&key, value, true)).is_none() {
            return Step::Stay;
        }
        core.facts.kv.insert(key, Some(value));
        Step::Next
    }

    /// A write that changes nothing where there is a value.
    pub(super) fn kv_put_new(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        key: u64,
        value: u64,
    ) -> Step {
        let key = key.to_le_bytes().to_vec();
        let before = core.facts.kv.get(&key).copied().flatten();
        if before.is_none() {
            core.facts.kv_sent.insert(key.clone(), Some(value));
        }
        let Some(was_there) = self.change(core, frame, &key, put(&key, value, false)) else {
            return Step::Stay;
        };
        core.facts.count("keys put once");
        if before.is_some() && !was_there {
            core.violation("STATE-2: a put found no value where one was acknowledged".to_owned());
        }
        // A request that was sent twice, because an answer was lost, finds the value that it wrote itself.
        core.facts.kv.insert(key, before.or(Some(value)));
        Step::Next
    }

    pub(super) fn kv_del(&mut self, core: &mut Core, frame: &mut Frame, key: u64) -> Step {
        let key = key.to_le_bytes().to_vec();
        core.facts.kv_sent.insert(key.clone(), None);
        let del = KvDel { namespace: SPACE.to_owned(), key: key.clone() };
        if self.change(core, frame, &key, del).is_none() {
            return Step::Stay;
        }
        core.facts.count("keys deleted");
        core.facts.kv.insert(key, None);
        Step::Next
    }

    /// **STATE-2** A list has every acknowledged key that begins so, and no other.
    pub(super) fn kv_list(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        prefix: u8,
        is_whole: bool,
    ) -> Step {
        let (namespace, prefix) = (SPACE.to_owned(), vec![prefix]);
        let answer = match is_whole {
            true => self.control(core, frame, KvEntries { namespace, prefix: prefix.clone() }),
            false => self.control(core, frame, KvKeys { namespace, prefix: prefix.clone() }),
        };
        let found: BTreeMap<Vec<u8>, Option<Vec<u8>>> = match answer {
            None => return Step::Stay,
            Some(ControlResponse::KvList(list)) => {
                list.keys.into_iter().map(|key| (key.value, None)).collect()
            }
            Some(ControlResponse::KvPairs(list)) => {
                list.pairs.into_iter().map(|pair| (pair.key, Some(pair.value))).collect()
            }
            Some(other) => {
                core.violation(format!("a list of keys was answered with {other:?}"));
                return Step::Next;
            }
        };
        core.facts.count("lists of keys");
        let bytes = |value: Option<&Option<u64>>| value.copied().flatten().map(u64::to_le_bytes);
        let known = core.facts.kv_sent.keys().filter(|key| key.starts_with(&prefix));
        let is_right = |key: &&Vec<u8>| {
            let all = [&core.facts.kv, &core.facts.kv_sent].map(|table| bytes(table.get(*key)));
            all.iter().any(|wanted| match (found.get(*key), wanted) {
                (Some(Some(value)), Some(wanted)) => value[..] == wanted[..],
                (Some(None), Some(_)) | (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            })
        };
        let wrong = known.clone().find(|key| !is_right(key)).cloned();
        let wrong = wrong.or_else(|| {
            found.keys().find(|key| !known.clone().any(|other| other == *key)).cloned()
        });
        if let Some(key) = wrong {
            core.violation(format!("STATE-2: a list of keys is wrong about {key:?}: {found:?}"));
        }
        Step::Next
    }

    /// **STATE-2** An acknowledged write is there, whatever happened to the control service since.
    pub(super) fn kv_get(&mut self, core: &mut Core, frame: &mut Frame, key: u64) -> Step {
        let key = key.to_le_bytes().to_vec();
        let get = KvGet { namespace: SPACE.to_owned(), key: key.clone() };
        let Some(answer) = self.control(core, frame, get) else { return Step::Stay };
        let found = match answer {
            ControlResponse::KvValue(value) if value.found => Some(value.value),
            _ => None,
        };
        let bytes = |value: Option<&Option<u64>>| {
            value.copied().flatten().map(|value| value.to_le_bytes().to_vec())
        };
        let (wanted, sent) = (core.facts.kv.get(&key), core.facts.kv_sent.get(&key));
        let (wanted, sent) = (bytes(wanted), bytes(sent));
        if found != wanted && found != sent {
            core.violation(format!(
                "STATE-2: an acknowledged write is lost: {found:?} instead of {wanted:?}"
            ));
        }
        Step::Next
    }

    /// Checks the demand for nodes, which an autoscaler reads: calls and groups that no node can hold.
    pub(super) fn demand(
        &mut self,
        core: &mut Core,
        frame: &mut Frame,
        wanted: &[(&'static str, u32)],
    ) -> Step {
        let found = match self.control(core, frame, ListNodes {}) {
            None => return Step::Stay,
            Some(ControlResponse::Nodes(found)) => found,
            Some(other) => {
                core.violation(format!("a list of nodes was answered with {other:?}"));
                return Step::Next;
            }
        };
        core.facts.count("looks at the demand");
        let of_nodes = found.nodes.iter().flat_map(|node| &node.pending);
        let all: Vec<&ResourceSet> =
            found.pending.iter().chain(of_nodes).map(|demand| &demand.resources).collect();
        for (resource, amount) in wanted {
            let is_it = |one: &&ResourceSet| one.get(resource).to_f64() >= f64::from(*amount);
            if !all.iter().any(is_it) {
                core.violation(format!(
                    "{amount} {resource} are waited for, and are no demand: {all:?}"
                ));
            }
        }
        Step::Next
    }

    /// The list of jobs has each driver once: the reader's own job runs, and those do not whose drivers ended long ago.
    pub(super) fn list_jobs(&mut self, core: &mut Core, frame: &mut Frame) -> Step {
        let jobs = match self.control(core, frame, ListJobs {}) {
            None => return Step::Stay,
            Some(ControlResponse::Jobs(found)) => found.jobs,
            Some(other) => {
                core.violation(format!("a list of jobs was answered with {other:?}"));
                return Step::Next;
            }
        };
        core.facts.count("lists of jobs");
        let of_driver = |driver: WorkerId| jobs.iter().filter(move |job| job.driver == driver);
        // The jobs of a node that is taken for dead are over, and its drivers live on for a while.
        let is_exempt = !self.is_driver || core.facts.history.is_lost(&self.id);
        if !is_exempt && of_driver(self.id).filter(|job| job.alive).count() != 1 {
            core.violation(format!("STATE-2: p{} does not find its own job: {jobs:?}", self.pid));
        }
        let is_over = |job: &&JobInfo| {
            let ended = core.facts.drivers_ended.get(&job.driver);
            ended.is_some_and(|ended| core.now.saturating_sub(*ended) > JOB_END_US_MAX)
        };
        let is_listed = |driver: &WorkerId| of_driver(*driver).count() == 1;
        let mut ended = core.facts.drivers_ended.iter().filter(|(driver, at)| {
            core.facts.drivers_with_jobs.contains(driver)
                && core.now.saturating_sub(**at) > JOB_END_US_MAX
        });
        let unlisted = ended.find(|(driver, _)| !is_listed(driver)).map(|one| *one.0);
        let wrong = jobs.iter().filter(is_over).find(|job| job.alive || job.ended_ms == 0).cloned();
        if let Some(driver) = unlisted {
            let text = format!("STATE-2: the job of {driver}, which has ended, is not listed once");
            core.violation(format!("{text}: {jobs:?}"));
        }
        if let Some(job) = wrong {
            core.violation(format!("STATE-2: a job runs whose driver has ended: {job:?}"));
        }
        Step::Next
    }
}
