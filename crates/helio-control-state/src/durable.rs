//! What survives a restart of the service, as entries of a durable map.
//!
//! | key | value | written |
//! |---|---|---|
//! | `session` | the session's name | at the first start |
//! | `a/` actor id | its `ActorSpec` | when it is created; deleted when it is dead |
//! | `g/` group id | its `GroupSpec` | when it is created; deleted when it is removed |
//! | `h/` group id | its `GroupInfo`, for the nodes of its bundles | when they are placed or lost; deleted likewise |
//! | `t/` group id | its `GroupInfo`, for the nodes that were asked last and how often some were | before they are asked; deleted when it is removed |
//! | `i/` actor id | its `ActorInfo`, for incarnation and node | when it is created, restarted or sent to a node; deleted likewise |
//! | `j/` job id | its `JobInfo` | when it begins and ends; deleted when it is forgotten |
//! | `k/` namespace length (4 bytes, big-endian), namespace, key | the value | at each put; deleted at each delete |
//!
//! Nodes are not here: they say themselves that they are there.

use helio_proto::control::{ActorInfo, ActorSpec, JobInfo};
use helio_proto::group::{GroupInfo, GroupSpec, Place};
use helio_proto::{decode, encode};
use helio_types::{ActorId, DeathCause, DeathKind, JobId, NodeId, PlacementGroupId};

use crate::actors::{Actor, State};
use crate::bundles::Asked;
use crate::groups::Group;
use crate::{Action, Control};

/// An entry to write (`Some`) or delete (`None`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The entry's key.
    pub key: Vec<u8>,
    /// Its new value.
    pub value: Option<Vec<u8>>,
}

const SESSION: &[u8] = b"session";

fn key(table: &[u8; 2], rest: &[u8]) -> Vec<u8> {
    [table.as_slice(), rest].concat()
}

fn kv_key(namespace: &str, rest: &[u8]) -> Vec<u8> {
    let length = (namespace.len() as u32).to_be_bytes();
    [b"k/".as_slice(), &length, namespace.as_bytes(), rest].concat()
}

pub(crate) fn incarnation(actor: &Actor) -> Change {
    let state = ActorInfo {
        actor_id: actor.spec.actor_id,
        incarnation: actor.incarnation,
        node_id: actor.home,
        ..ActorInfo::default()
    };
    Change { key: key(b"i/", &actor.spec.actor_id.0), value: Some(encode(&state)) }
}

impl Control {
    pub(crate) fn persist(&mut self, change: Change) {
        self.persist_soon();
        self.out.push(Action::Persist(change));
    }

    pub(crate) fn persist_soon(&mut self) {
        self.out.extend(self.soon.drain(..).map(Action::Persist));
    }

    pub(crate) fn persist_spec(&mut self, actor: &Actor) {
        self.persist(Change {
            key: key(b"a/", &actor.spec.actor_id.0),
            value: Some(encode(&actor.spec)),
        });
    }

    pub(crate) fn persist_incarnation(&mut self, actor: &Actor) {
        self.persist(incarnation(actor));
    }

    pub(crate) fn forget_actor(&mut self, actor_id: ActorId) {
        self.persist(Change { key: key(b"a/", &actor_id.0), value: None });
        self.persist(Change { key: key(b"i/", &actor_id.0), value: None });
    }

    pub(crate) fn persist_group(&mut self, spec: &GroupSpec) {
        self.persist(Change { key: key(b"g/", &spec.group_id.0), value: Some(encode(spec)) });
    }

    pub(crate) fn persist_places(&mut self, group_id: PlacementGroupId) {
        if let Some(change) = self.places_of(group_id) {
            self.persist(change);
        }
    }

    /// The node that holds the bundles says so when it registers ([`Control::adopt`]): no send waits for
    /// this, which saves a write to disk for each group.
    pub(crate) fn persist_places_soon(&mut self, group_id: PlacementGroupId) {
        let change = self.places_of(group_id);
        self.soon.extend(change);
    }

    /// Before the nodes are asked: after a restart they are waited for, and answers of before are known as
    /// such.
    pub(crate) fn persist_asked(&mut self, group_id: PlacementGroupId, asked: &Asked) {
        let place = |(bundle, id): (&u32, &NodeId)| Place { bundle: *bundle, node_id: *id };
        let info = GroupInfo {
            spec: GroupSpec { group_id, ..GroupSpec::default() },
            attempts: asked.number,
            places: asked.plan.iter().map(place).collect(),
            ..GroupInfo::default()
        };
        self.persist(Change { key: key(b"t/", &group_id.0), value: Some(encode(&info)) });
    }

    fn places_of(&self, group_id: PlacementGroupId) -> Option<Change> {
        let group = self.group(group_id)?;
        let places =
            group.places.iter().map(|(bundle, id)| Place { bundle: *bundle, node_id: *id });
        let spec = GroupSpec { group_id, ..GroupSpec::default() };
        let info = GroupInfo { spec, places: places.collect(), ..GroupInfo::default() };
        Some(Change { key: key(b"h/", &group_id.0), value: Some(encode(&info)) })
    }

    pub(crate) fn forget_group(&mut self, group_id: PlacementGroupId) {
        self.persist(Change { key: key(b"g/", &group_id.0), value: None });
        self.persist(Change { key: key(b"h/", &group_id.0), value: None });
        self.persist(Change { key: key(b"t/", &group_id.0), value: None });
    }

    pub(crate) fn persist_job(&mut self, job: &JobInfo) {
        self.persist(Change { key: key(b"j/", &job.job_id.0), value: Some(encode(job)) });
    }

    pub(crate) fn forget_job(&mut self, job_id: JobId) {
        self.persist(Change { key: key(b"j/", &job_id.0), value: None });
    }

    pub(crate) fn persist_kv(&mut self, namespace: &str, key: &[u8], value: Option<Vec<u8>>) {
        self.persist(Change { key: kv_key(namespace, key), value });
    }

    /// The state of before, from what was persisted, and what to do first. Actors may still run on
    /// their nodes: these have a while to come back before the actors are made anew, except those in
    /// `gone`, which are known to have ended (the head's own, whose place this process has taken).
    ///
    /// With no entries this is the first start of the session. An entry that cannot be read is left
    /// out and logged: a release that is older than the one that wrote it must still start.
    #[must_use]
    pub fn recover(
        session_name: &str,
        entries: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>,
        gone: &[NodeId],
        now_ms: u64,
    ) -> (Self, Vec<Action>) {
        let mut control = Self { now_ms, ..Self::new(session_name) };
        let mut is_first = true;
        for (key, value) in entries {
            is_first = false;
            if control.restore(&key, value).is_none() {
                control.out.push(Action::Log(format!(
                    "skipped a durable entry that cannot be read: {key:?}"
                )));
            }
        }
        // Keys of jobs are not in the order of time.
        control.jobs.finished.make_contiguous().sort_by_key(|job| job.ended_ms);
        if is_first {
            let name = session_name.as_bytes().to_vec();
            control.persist(Change { key: SESSION.to_vec(), value: Some(name) });
        } else {
            control.begin_recovery();
            control.resume_groups();
            control.resume_actors();
            for node_id in gone {
                let sentence = "the node it ran on is gone: its daemon died and was started again";
                control.node_gone(*node_id, &DeathCause::new(DeathKind::NodeDied, sentence));
            }
        }
        let actions = std::mem::take(&mut control.out);
        (control, actions)
    }

    fn restore(&mut self, key: &[u8], value: Vec<u8>) -> Option<()> {
        if key == SESSION {
            self.session_name = String::from_utf8(value).ok()?;
            return Some(());
        }
        let (table, rest) = key.split_at_checked(2)?;
        match table {
            b"a/" => {
                let spec: ActorSpec = decode(&value).ok()?;
                if !spec.name.is_empty() {
                    self.names.insert((spec.namespace.clone(), spec.name.clone()), spec.actor_id);
                }
                if !spec.detached {
                    self.owned.entry(spec.owner.worker_id).or_default().insert(spec.actor_id);
                }
                self.actors.insert(spec.actor_id, Actor::new(spec, State::Recovering));
            }
            b"g/" => {
                let spec: GroupSpec = decode(&value).ok()?;
                let group_id = spec.group_id;
                if !spec.name.is_empty() {
                    self.groups.names.insert((spec.namespace.clone(), spec.name.clone()), group_id);
                }
                self.groups.all.insert(group_id, Group::new(spec, self.now_ms));
            }
            b"h/" => {
                // In the order of keys every `g/` comes before any `h/`.
                let info: GroupInfo = decode(&value).ok()?;
                let group = self.groups.all.get_mut(&info.spec.group_id)?;
                let n_bundles = group.spec.bundles.len();
                let known = info.places.iter().filter(|place| (place.bundle as usize) < n_bundles);
                group.places = known.map(|place| (place.bundle, place.node_id)).collect();
                group.took_ms = Some(0);
            }
            b"t/" => {
                // In the order of keys every `g/` comes before any `t/`.
                let info: GroupInfo = decode(&value).ok()?;
                let group = self.groups.all.get_mut(&info.spec.group_id)?;
                let n_bundles = group.spec.bundles.len();
                let known = info.places.iter().filter(|place| (place.bundle as usize) < n_bundles);
                let plan = known.map(|place| (place.bundle, place.node_id)).collect();
                group.attempts = info.attempts;
                group.asked = Some(Asked { number: info.attempts, plan });
            }
            b"i/" => {
                // In the order of keys every `a/` comes before any `i/`.
                let info: ActorInfo = decode(&value).ok()?;
                let actor = self.actors.get_mut(&info.actor_id)?;
                (actor.incarnation, actor.home) = (info.incarnation, info.node_id);
            }
            b"j/" => {
                let job: JobInfo = decode(&value).ok()?;
                self.jobs.newest = self.jobs.newest.max(u32::from_le_bytes(job.job_id.0));
                if job.alive {
                    self.jobs.running.insert(job.job_id, job);
                } else {
                    self.jobs.finished.push_back(job);
                }
            }
            b"k/" => {
                let (length, rest) = rest.split_first_chunk::<4>()?;
                let (namespace, key) =
                    rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
                let namespace = String::from_utf8(namespace.to_vec()).ok()?;
                self.kv.insert(namespace, key.to_vec(), value);
            }
            _ => return None,
        }
        Some(())
    }
}
