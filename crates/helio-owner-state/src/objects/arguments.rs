//! Objects as arguments of calls: whether they are known, where they lie, and which of them a finished call keeps.

use std::cmp::Reverse;
use std::sync::Arc;

use helio_proto::error::{ErrorKind, SystemError};
use helio_proto::frame::INLINE_MAX;
use helio_proto::peer::{self, Returned, Value, ValueRef};
use helio_proto::reader::put_bytes;
use helio_types::{NodeAddress, NodeId, ObjectId, TaskId, WorkerAddress};

use super::{Final, Kept, Object, Objects};
use crate::context::Context;
use crate::spec::{CallArgs, TaskSpec};
use crate::value::Stored;

/// Bytes of arguments for which a call goes to their node, even if that takes a worker there: values of this
/// size lie in object stores.
const LARGE_BYTES: u64 = INLINE_MAX as u64;

/// An argument that is a reference takes about so many bytes in a call, beside its value.
const ARGUMENT_BYTES: usize = 128;

impl Objects {
    /// Registers a call with those of its arguments that are not known; how many they are.
    pub(crate) fn await_args(
        &mut self,
        task: TaskId,
        awaited: impl Iterator<Item = ObjectId>,
        ctx: &mut Context,
    ) -> u32 {
        let mut missing = 0;
        for dep in awaited {
            if let Some(object) = self.all.get_mut(&dep)
                && !object.is_ready()
            {
                object.relations.dependents.push(task);
                missing += 1;
                // The owner of a borrowed argument tells of its value only when it is asked.
                self.on_watch(dep, ctx);
            }
        }
        missing
    }

    /// The first error among the arguments of a call; or, if there is none, whether some of them lie in object stores.
    pub(crate) fn error_among(&self, spec: &TaskSpec) -> Result<bool, Arc<Vec<u8>>> {
        let mut is_stored = false;
        for dep in spec.awaited() {
            match self.all.get(&dep).map(|object| &object.value) {
                Some(Stored::Error(bytes)) => return Err(bytes.clone()),
                value => is_stored |= matches!(value, Some(Stored::Stores { .. })),
            }
        }
        Ok(is_stored)
    }

    /// The arguments in wire form: [`peer::Args::put`] without the copies. Returns also whether some of them lie in
    /// object stores. `me` is this process.
    pub(crate) fn encode_args(&self, args: &CallArgs, me: &Arc<WorkerAddress>) -> (Vec<u8>, bool) {
        let n = args.deps.len() + usize::from(args.stored_body.is_some());
        let mut bytes = Vec::with_capacity(16 + args.body.len() + n * ARGUMENT_BYTES);
        bytes.push(u8::from(args.stored_body.is_some()));
        put_bytes(&mut bytes, &args.body);
        bytes.extend_from_slice(&(n as u32).to_le_bytes());
        let mut is_stored = false;
        for dep in args.stored_body.iter().chain(&args.deps) {
            let object = self.all.get(dep);
            let owner = object.and_then(Object::owner).unwrap_or(me);
            if let Some(value) = object.and_then(|object| object.value.as_wire()) {
                is_stored |= matches!(value, ValueRef::Stored { .. });
                peer::put_dependency(&mut bytes, *dep, owner, value);
                continue;
            }
            // The call is sent all the same: its worker raises the error, as for an argument that is lost on the way.
            let text = "an argument was lost before its call was sent";
            let error =
                SystemError { object: *dep, ..SystemError::new(ErrorKind::ObjectLost, text) };
            peer::put_dependency(&mut bytes, *dep, owner, ValueRef::Error(&error.to_payload()));
        }
        (bytes, is_stored)
    }

    /// The nodes that hold a call's stored arguments, with how many bytes of them, most first.
    fn holders(&self, spec: &TaskSpec, own: NodeId) -> Vec<(NodeAddress, u64)> {
        let mut holders: Vec<(NodeAddress, u64)> = Vec::new();
        for dep in spec.awaited() {
            let value = self.all.get(&dep).map(|object| &object.value);
            let Some(Stored::Stores { size, locations }) = value else { continue };
            for location in locations {
                match holders.iter_mut().find(|(node, _)| node.node_id == location.node_id) {
                    Some((_, bytes)) => *bytes += size,
                    None => holders.push((location.clone(), *size)),
                }
            }
        }
        // Of equal ones this node comes first.
        holders.sort_by_key(|(node, bytes)| (Reverse(*bytes), node.node_id != own));
        holders
    }

    /// Returns the nodes that hold a call's stored arguments, those with most bytes first; `own` is this node.
    pub(crate) fn locality(&self, spec: &TaskSpec, own: NodeId) -> Vec<NodeId> {
        self.holders(spec, own).into_iter().map(|(node, _)| node.node_id).collect()
    }

    /// The node that holds most bytes of a call's arguments, if they are large; `own` is this node.
    pub(crate) fn holder_of_most(&self, spec: &TaskSpec, own: NodeId) -> Option<NodeAddress> {
        let (node, bytes) = self.holders(spec, own).into_iter().next()?;
        (bytes >= LARGE_BYTES).then_some(node)
    }

    /// Returns the bytes of a call's stored arguments that the node holds.
    pub(crate) fn bytes_on(&self, spec: &TaskSpec, node: NodeId) -> u64 {
        let mut holders = self.holders(spec, node).into_iter();
        holders.find(|(holder, _)| holder.node_id == node).map_or(0, |(_, bytes)| bytes)
    }

    /// Returns the number of objects of a call that lie in object stores and are held: its items, and the
    /// returns that are about to be set.
    pub(crate) fn count_live(&self, spec: &TaskSpec, items: u32, returns: &[Returned]) -> u32 {
        let of_returns = spec.return_ids().zip(returns).filter(|(id, returned)| {
            matches!(returned.value, Value::Stored { .. }) && self.all.contains_key(id)
        });
        let is_stored =
            |id: &ObjectId| matches!(self.all.get(id), Some(object) if object.is_in_stores());
        let of_items = spec.made(items).skip(spec.return_count() as usize).filter(is_stored);
        (of_returns.count() + of_items.count()) as u32
    }

    /// A finished call that took the object is remembered.
    pub(crate) fn remember(&mut self, id: ObjectId) -> Kept {
        let Some(object) = self.all.get_mut(&id) else { return Kept::Unknown };
        if object.owner.is_none() {
            // It may go without its bytes: it can be made again, or is kept because it cannot.
            object.remembered += 1;
            Kept::Own
        } else {
            // Only its owner could make it again, and does so for borrowers alone.
            object.uses += 1;
            Kept::Used
        }
    }

    /// A call that took the object is not remembered any more.
    pub(crate) fn not_remembered(&mut self, id: ObjectId) {
        if let Some(object) = self.all.get_mut(&id)
            && object.owner.is_none()
        {
            assert!(object.remembered > 0, "a remembered call is forgotten once");
            object.remembered -= 1;
        }
    }

    /// Notes why the object cannot be made again.
    pub(crate) fn mark_final(&mut self, id: ObjectId, why: Final) {
        if let Some(object) = self.all.get_mut(&id) {
            object.is_final = why;
        }
    }

    /// Returns the recorded reason why the object cannot be made again.
    pub(crate) fn final_of(&self, id: ObjectId) -> Final {
        self.all.get(&id).map_or(Final::Unknown, |object| object.is_final)
    }
}
