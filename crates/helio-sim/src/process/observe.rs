//! Observations of a run, read off the messages that a process receives and sends.

use helio_proto::control::{ControlRequest, FailureKind};
use helio_proto::node::{ClientToNode, ControlCall, NodeToClient};
use helio_proto::peer::{Frame, STREAMING};
use helio_proto::{decode, frame};
use helio_types::{NodeId, WorkerId};

use crate::core::Core;

/// A daemon's message has arrived.
pub(super) fn received(core: &mut Core, (by, from): (WorkerId, NodeId), bytes: &[u8]) {
    let Ok(message) = decode::<NodeToClient>(bytes) else { return };
    match &message {
        NodeToClient::LesseeGone(gone) => core.facts.history.told_gone(by, gone.worker_id),
        NodeToClient::LeaseRefused(refused) if refused.failure.kind == FailureKind::System => {
            if let Err(text) = core.facts.history.refused(by, from) {
                core.violation(text);
            }
        }
        NodeToClient::ObjectRefused(refused)
            if matches!(refused.failure.kind, FailureKind::StoreFull | FailureKind::OutOfDisk) =>
        {
            core.facts.history.found_no_room(by, refused.request_id, core.now);
        }
        _ => {}
    }
    let what = match message {
        NodeToClient::LeaseSpillback(_) => "spills",
        NodeToClient::RevokeLease(_) => "revocations",
        NodeToClient::NodeDied(_) => "nodes declared dead",
        NodeToClient::RoomWanted(_) => "pins asked for",
        NodeToClient::LesseeGone(_) => "lessees gone",
        NodeToClient::ObjectMissing(_) => "missing",
        NodeToClient::ObjectRefused(_) => "refused",
        _ => return,
    };
    core.facts.count(what);
}

/// Notes the calls that the process was about to send to one that is not there any more.
pub(super) fn missed(core: &mut Core, to: WorkerId, bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((start, end))) = frame::split(rest, frame::FRAME_MAX) {
        if let Ok(Frame::Call { task, .. }) = Frame::get(&rest[start..end]) {
            core.facts.history.missed(task, to);
        }
        rest = &rest[end..];
    }
}

/// A frame of another process has arrived.
pub(super) fn answered(core: &mut Core, bytes: &[u8]) {
    if let Ok(Frame::Reply { task, failed, retryable, .. }) = Frame::get(bytes) {
        core.facts.history.answered(task, failed && retryable);
    }
}

/// Notes the calls that the process was sending when the connection broke.
pub(super) fn unsent(core: &mut Core, to: WorkerId, bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((start, end))) = frame::split(rest, frame::FRAME_MAX) {
        if let Ok(Frame::Call { task, .. }) = Frame::get(&rest[start..end]) {
            core.facts.history.sent(task, to);
        }
        rest = &rest[end..];
    }
}

/// The process has sent a message to a process or, `to` being `None`, to a daemon.
pub(super) fn sent(core: &mut Core, (from, to): (WorkerId, Option<WorkerId>), bytes: &[u8]) {
    let what = if let Some(to) = to {
        let frame = Frame::get(bytes);
        if let Ok(Frame::Call { task, .. }) = &frame {
            core.facts.history.sent(*task, to);
        }
        if let Ok(Frame::Cancel { task, .. }) = &frame
            && !core.facts.history.may_be_stopped(*task)
        {
            core.violation(format!("{task:?} is to be stopped, and nobody cancelled it"));
        }
        match frame {
            Ok(Frame::LocationLost { .. }) => "arguments recovered",
            Ok(Frame::Unstarted { .. }) => "tasks given back",
            Ok(Frame::Call { returns: STREAMING, flags, .. }) if flags.is_retry => {
                "generators run again"
            }
            _ => return,
        }
    } else {
        let message = decode::<ClientToNode>(bytes);
        match &message {
            Ok(ClientToNode::SealObject(seal)) => core.facts.history.written(seal.object_id, from),
            Ok(ClientToNode::FetchObject(fetch)) => {
                core.facts.history.asked(from, fetch.request_id, fetch.object_id);
            }
            Ok(ClientToNode::Control(ControlCall {
                request: ControlRequest::KillActor(kill),
                ..
            })) if kill.out_of_scope => core.facts.history.actor_unheld(kill.actor_id),
            _ => {}
        }
        match message {
            Ok(ClientToNode::Stays(_)) => "workers that stayed",
            Ok(ClientToNode::Blocked(_)) => "blocks",
            _ => return,
        }
    };
    core.facts.count(what);
}
