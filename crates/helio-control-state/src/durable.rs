//! The state that survives a restart of the service, as entries of a durable map.
//!
//! | key | value | written |
//! |---|---|---|
//! | `session` | the session's name | at the first start |
//! | `a/` actor id | its `ActorSpec` | when it is created; deleted when it is dead |
//! | `g/` group id | its `GroupSpec` | when it is created; deleted when it is removed |
//! | `h/` group id | its `GroupInfo`, for the nodes of its bundles | when they are placed or lost; deleted likewise |
//! | `t/` group id | its `GroupInfo`, for the nodes of the newest attempt and its number | before they are asked; deleted when it is removed |
//! | `i/` actor id | its `ActorInfo`, for incarnation, node, attempt, and whether it is to start again | when it is restarted, sent to a node, or told to end so that it starts again; deleted likewise |
//! | `j/` job id | its `JobInfo` | when it begins and ends; deleted when it is forgotten |
//! | `n/` node id | a `Peer` with its address | when it registers, where heads take each other's place; deleted when it is dead |
//! | `k/` namespace length (4 bytes, big-endian), namespace, key | the value | at each put; deleted at each delete |
//!
//! Of nodes nothing else is here: they register again. A head in another place than the one before tells them where it is.
//! In the order of keys every `a/` comes before any `i/`, and
//! every `g/` before any `h/` and `t/`.
//!
//! This file knows the encoding alone; who owns the decoded state is for `recovery` to say.

use std::collections::BTreeMap;

use helio_proto::cluster::Peer;
use helio_proto::control::{ActorInfo, ActorSpec, JobInfo};
use helio_proto::group::{GroupInfo, GroupSpec, Place};
use helio_proto::{decode, encode};
use helio_types::{ActorId, JobId, NodeAddress, NodeId, PlacementGroupId};

use crate::actors::Actor;
use crate::event::Change;

const SESSION: &[u8] = b"session";

/// An entry that was read.
pub(crate) enum Entry {
    Session(String),
    Actor(ActorSpec),
    Group(GroupSpec),
    /// The nodes of a group's bundles.
    Places(GroupInfo),
    /// The newest attempt to place a group.
    Attempt(GroupInfo),
    /// An actor's incarnation and node.
    Incarnation(ActorInfo),
    Job(JobInfo),
    /// The address of a node.
    Node(NodeAddress),
    KeyValue {
        namespace: String,
        key: Vec<u8>,
        value: Vec<u8>,
    },
}

/// Reads an entry; `None` when a newer release wrote it in a way that this one does not know.
pub(crate) fn read(key: &[u8], value: Vec<u8>) -> Option<Entry> {
    if key == SESSION {
        return String::from_utf8(value).ok().map(Entry::Session);
    }
    let (table, rest) = key.split_at_checked(2)?;
    let entry = match table {
        b"a/" => Entry::Actor(decode(&value).ok()?),
        b"g/" => Entry::Group(decode(&value).ok()?),
        b"h/" => Entry::Places(decode(&value).ok()?),
        b"t/" => Entry::Attempt(decode(&value).ok()?),
        b"i/" => Entry::Incarnation(decode(&value).ok()?),
        b"j/" => Entry::Job(decode(&value).ok()?),
        b"n/" => Entry::Node(decode::<Peer>(&value).ok()?.address),
        b"k/" => {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            let (namespace, key) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
            let namespace = String::from_utf8(namespace.to_vec()).ok()?;
            Entry::KeyValue { namespace, key: key.to_vec(), value }
        }
        _ => return None,
    };
    Some(entry)
}

fn key(table: &[u8; 2], rest: &[u8]) -> Vec<u8> {
    [table.as_slice(), rest].concat()
}

fn write(table: &[u8; 2], id: &[u8], value: Vec<u8>) -> Change {
    Change { key: key(table, id), value: Some(value) }
}

fn delete(table: &[u8; 2], id: &[u8]) -> Change {
    Change { key: key(table, id), value: None }
}

pub(crate) fn session(name: &str) -> Change {
    Change { key: SESSION.to_vec(), value: Some(name.as_bytes().to_vec()) }
}

pub(crate) fn actor(spec: &ActorSpec) -> Change {
    write(b"a/", &spec.actor_id.0, encode(spec))
}

pub(crate) fn incarnation(actor: &Actor) -> Change {
    let Actor {
        actor_id, incarnation, home, attempt, moves, is_moving, is_reviving, made_ms, ..
    } = *actor;
    let state = ActorInfo {
        actor_id,
        incarnation,
        node_id: home,
        attempt,
        moves,
        is_moving,
        is_reviving,
        made_ms,
        ..ActorInfo::default()
    };
    write(b"i/", &actor_id.0, encode(&state))
}

pub(crate) fn no_actor(actor_id: ActorId) -> [Change; 2] {
    [delete(b"a/", &actor_id.0), delete(b"i/", &actor_id.0)]
}

pub(crate) fn group(spec: &GroupSpec) -> Change {
    write(b"g/", &spec.group_id.0, encode(spec))
}

fn placed(group_id: PlacementGroupId, nodes: &BTreeMap<u32, NodeId>, attempts: u32) -> Vec<u8> {
    let place = |(bundle, id): (&u32, &NodeId)| Place { bundle: *bundle, node_id: *id };
    encode(&GroupInfo {
        spec: GroupSpec { group_id, ..GroupSpec::default() },
        attempts,
        places: nodes.iter().map(place).collect(),
        ..GroupInfo::default()
    })
}

pub(crate) fn places(group_id: PlacementGroupId, nodes: &BTreeMap<u32, NodeId>) -> Change {
    write(b"h/", &group_id.0, placed(group_id, nodes, 0))
}

/// Written before the nodes are asked: after a restart they are waited for, and answers to older
/// attempts are recognized.
pub(crate) fn attempt(
    group_id: PlacementGroupId,
    number: u32,
    plan: &BTreeMap<u32, NodeId>,
) -> Change {
    write(b"t/", &group_id.0, placed(group_id, plan, number))
}

pub(crate) fn no_group(group_id: PlacementGroupId) -> [Change; 3] {
    [delete(b"g/", &group_id.0), delete(b"h/", &group_id.0), delete(b"t/", &group_id.0)]
}

pub(crate) fn job(job: &JobInfo) -> Change {
    write(b"j/", &job.job_id.0, encode(job))
}

pub(crate) fn no_job(job_id: JobId) -> Change {
    delete(b"j/", &job_id.0)
}

pub(crate) fn node(address: &NodeAddress) -> Change {
    let peer = Peer { address: address.clone(), node_id: address.node_id };
    write(b"n/", &address.node_id.0, encode(&peer))
}

pub(crate) fn no_node(node_id: NodeId) -> Change {
    delete(b"n/", &node_id.0)
}

pub(crate) fn key_value(namespace: &str, rest: &[u8], value: Option<Vec<u8>>) -> Change {
    let length = (namespace.len() as u32).to_be_bytes();
    let key = [b"k/".as_slice(), &length, namespace.as_bytes(), rest].concat();
    Change { key, value }
}
