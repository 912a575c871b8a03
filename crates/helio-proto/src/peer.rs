//! Hot frames between drivers and workers: fixed layout, little-endian, first byte the kind.
//!
//! Connections are symmetric: either side may own objects, submit calls and borrow. A process keeps
//! one connection to a peer and sends everything for it there, so that what it sends arrives in
//! order. Two rules rest on that order:
//!
//! - a [`Frame::Function`] precedes the templates that name it, a [`Frame::Template`] the calls, and a
//!   [`Frame::BeginLease`] the tasks of the lease;
//! - a [`Frame::AddBorrow`] precedes the [`Frame::Reply`] of the call in which the reference was
//!   taken over, so that the owner never sees a reference fall to zero while it is being handed on.

use helio_types::{LeaseId, NodeAddress, NodeId, ObjectId, TaskId, WorkerAddress, WorkerId};

use crate::opcode::{Opcode, ValueKind, flags};
use crate::reader::{Malformed, Reader, put_bytes, put_count};

/// A reference in transit: the object and who owns it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reference {
    /// The object.
    pub id: ObjectId,
    /// The owner of the object.
    pub owner: WorkerAddress,
}

/// A value in transit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// The serialized value.
    Inline(Vec<u8>),
    /// The serialized exception that reading it raises.
    Error(Vec<u8>),
    /// In the object store of these nodes.
    Stored {
        /// The size of the value, in bytes.
        size: u64,
        /// The nodes that have the object's bytes.
        locations: Vec<NodeAddress>,
    },
}

/// A [`Value`] that lies somewhere else.
#[derive(Clone, Copy, Debug)]
pub enum ValueRef<'a> {
    /// The serialized value.
    Inline(&'a [u8]),
    /// The serialized exception that reading it raises.
    Error(&'a [u8]),
    /// In the object store of these nodes.
    Stored {
        /// The size of the value, in bytes.
        size: u64,
        /// The nodes that have the object's bytes.
        locations: &'a [NodeAddress],
    },
}

impl Value {
    fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Inline(bytes) => ValueRef::Inline(bytes),
            Self::Error(bytes) => ValueRef::Error(bytes),
            Self::Stored { size, locations } => ValueRef::Stored { size: *size, locations },
        }
    }
}

/// A value and the references inside it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Returned {
    /// The value.
    pub value: Value,
    /// References that the value contains.
    pub contained: Vec<Reference>,
}

/// A call's arguments.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Args {
    /// The serialized arguments, with a placeholder where one is a reference. Empty when
    /// `stored_body`: then the first dependency is the body.
    pub body: Vec<u8>,
    /// Whether the body was too large for a frame and lies in the object store.
    pub stored_body: bool,
    /// The references that the call's own arguments are, with their values: all are known before the
    /// call is sent.
    pub deps: Vec<Dependency>,
}

/// An argument that was a reference, and its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dependency {
    /// The reference to the argument.
    pub reference: Reference,
    /// The value.
    pub value: Value,
}

/// The number of returns that marks a generator.
pub const STREAMING: u32 = u32::MAX;

/// The properties of one call beside its template.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallFlags {
    /// The call is an attempt after a first one.
    pub is_retry: bool,
    /// The call of an actor's method had ended, and is made again: what it made was lost, or it raised an exception
    /// that its options retry.
    pub is_remade: bool,
}

impl CallFlags {
    fn bits(self) -> u32 {
        u32::from(self.is_retry) | u32::from(self.is_remade) << 1
    }

    fn of_bits(bits: u32) -> Result<Self, Malformed> {
        let bits = flags(bits, 2)?;
        Ok(Self { is_retry: bits & 1 != 0, is_remade: bits & 2 != 0 })
    }
}

/// A frame.
#[derive(Clone, PartialEq, Debug)]
pub enum Frame<'a> {
    /// Templates that follow may name this function.
    Function {
        /// The number of the function on this connection.
        number: u32,
        /// [`Template::function`](crate::template::Template::function).
        body: &'a [u8],
    },
    /// Calls that follow may name this template.
    Template {
        /// The number of the template on this connection.
        number: u32,
        /// The number of its function, which `body` leaves out; 0: `body` is whole.
        function: u32,
        /// A [`Template`](crate::template::Template) in its wire form.
        body: &'a [u8],
    },
    /// The receiver is leased to the sender.
    BeginLease {
        /// The lease.
        lease: LeaseId,
        /// A [`crate::node::LeaseGranted`] in its wire form.
        grant: &'a [u8],
        /// A [`crate::node::JobConfig`] in its wire form.
        job: &'a [u8],
    },
    /// A call to run.
    Call {
        /// The call.
        task: TaskId,
        /// The number of the call's template on this link.
        template: u32,
        /// The lease, 0 for methods.
        lease: LeaseId,
        /// Position among the sender's calls to this actor incarnation; of a call that is made again
        /// ([`CallFlags::is_remade`]) among those of the sender that had ended; 0 for tasks.
        sequence: u64,
        /// Number of values that the call returns, or [`STREAMING`].
        returns: u32,
        /// Whether it is made again.
        flags: CallFlags,
        /// An [`Args`] in its wire form.
        args: &'a [u8],
    },
    /// A call's outcome, one value a return; when it raised, each is the error.
    Reply {
        /// The call.
        task: TaskId,
        /// Whether it raised.
        failed: bool,
        /// Whether what it raised is one of the exceptions that its options retry.
        retryable: bool,
        /// The worker is not to be sent more tasks (its `max_calls` are done).
        leaving: bool,
        /// For a generator: the number of its items.
        items: u32,
        /// The values.
        returns: Vec<Returned>,
    },
    /// Calls that were not begun and go back to the sender.
    Unstarted {
        /// The calls, in the order in which they were sent.
        tasks: Vec<TaskId>,
    },
    /// Give back what was not begun: another worker is free.
    Steal {
        /// The most rows to send, the last ones first.
        max: u32,
    },
    /// A generator's next item.
    Item {
        /// The call.
        task: TaskId,
        /// The index of the item, from 0.
        index: u32,
        /// The value.
        returned: Returned,
    },
    /// The caller has read so many items of the generator.
    Consumed {
        /// The call.
        task: TaskId,
        /// The number of items read so far.
        count: u32,
    },
    /// Stop this call.
    Cancel {
        /// The call to be stopped.
        task: TaskId,
        /// End the process if need be.
        force: bool,
        /// Stop the calls that it made, too.
        recursive: bool,
    },
    /// Tell me the value when there is one.
    Resolve {
        /// The object of the receiver that the sender reads.
        object: ObjectId,
    },
    /// The value.
    Resolved {
        /// The object that the sender borrows.
        object: ObjectId,
        /// `None`: the owner does not know the object (any more).
        returned: Option<Returned>,
    },
    /// The sender holds a reference to an object of the receiver.
    AddBorrow {
        /// Echoed in [`Frame::BorrowAdded`].
        number: u64,
        /// The object.
        object: ObjectId,
    },
    /// The borrow is known.
    BorrowAdded {
        /// The borrower's number for the borrow, as in [`Frame::AddBorrow`].
        number: u64,
    },
    /// The sender's last references to these are gone.
    RemoveBorrow {
        /// The objects, each with the number of the announcement that ends.
        objects: Vec<(ObjectId, u64)>,
    },
    /// After a connection broke: everything that the sender borrows was announced again, from this
    /// number on; older announcements are void.
    BorrowsComplete {
        /// The first number of the new announcements.
        since: u64,
    },
    /// The references in these calls' returns are held now: the receiver may let go of them.
    ReturnsHeld {
        /// The calls.
        task: TaskId,
    },
    /// A location of an object turned out to be gone.
    LocationLost {
        /// The object, owned by the receiver.
        object: ObjectId,
        /// The node that has the object no more.
        node: NodeId,
    },
    /// A copy was made on this node.
    LocationAdded {
        /// The object, owned by the receiver.
        object: ObjectId,
        /// The node that has the copy.
        node: NodeAddress,
    },
    /// Asks for the reason why the thing waits (WHY-1).
    Why {
        /// Echoed in [`Frame::Because`].
        number: u64,
        /// An object that the receiver owns, or a return of a call that it runs.
        object: ObjectId,
        /// Whether the question is about the call that the receiver runs.
        is_executor: bool,
        /// Number of further processes that may be asked in turn.
        hops: u8,
    },
    /// The answer.
    Because {
        /// The asker's number for the question, as in [`Frame::Why`].
        number: u64,
        /// The explanation, in whole sentences.
        text: String,
    },
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

/// Appends an address.
pub fn put_worker(out: &mut Vec<u8>, address: &WorkerAddress) {
    out.extend_from_slice(&address.worker_id.0);
    out.extend_from_slice(&address.node_id.0);
    out.extend_from_slice(&address.port.to_le_bytes());
    put_string(out, &address.host);
}

/// Reads an address.
///
/// # Errors
/// When the bytes are not one; so for all readers of this module.
pub fn get_worker(reader: &mut Reader<'_>) -> Result<WorkerAddress, Malformed> {
    Ok(WorkerAddress {
        worker_id: WorkerId(reader.array()?),
        node_id: NodeId(reader.array()?),
        port: reader.u32()?,
        host: reader.str()?.to_owned(),
    })
}

/// Appends a reference.
pub fn put_reference(out: &mut Vec<u8>, reference: &Reference) {
    put_reference_to(out, reference.id, &reference.owner);
}

fn put_reference_to(out: &mut Vec<u8>, id: ObjectId, owner: &WorkerAddress) {
    out.extend_from_slice(&id.0);
    put_worker(out, owner);
}

/// Reads a reference.
pub fn get_reference(reader: &mut Reader<'_>) -> Result<Reference, Malformed> {
    Ok(Reference { id: ObjectId(reader.array()?), owner: get_worker(reader)? })
}

// The ids of object, worker and node, the port, and an empty host.
const REFERENCE_LEAST: usize = 28 + 28 + 28 + 4 + 4;

fn put_node(out: &mut Vec<u8>, address: &NodeAddress) {
    out.extend_from_slice(&address.node_id.0);
    out.extend_from_slice(&address.port.to_le_bytes());
    put_string(out, &address.host);
}

fn get_node(reader: &mut Reader<'_>) -> Result<NodeAddress, Malformed> {
    Ok(NodeAddress {
        node_id: NodeId(reader.array()?),
        port: reader.u32()?,
        host: reader.str()?.to_owned(),
    })
}

fn put_value(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::Inline(bytes) => {
            ValueKind::Inline.put(out);
            put_bytes(out, bytes);
        }
        ValueRef::Error(bytes) => {
            ValueKind::Error.put(out);
            put_bytes(out, bytes);
        }
        ValueRef::Stored { size, locations } => {
            ValueKind::Stored.put(out);
            out.extend_from_slice(&size.to_le_bytes());
            put_count(out, locations.len());
            for location in locations {
                put_node(out, location);
            }
        }
    }
}

fn get_value(reader: &mut Reader<'_>) -> Result<Value, Malformed> {
    match ValueKind::get(reader)? {
        ValueKind::Inline => Ok(Value::Inline(reader.bytes()?.to_vec())),
        ValueKind::Error => Ok(Value::Error(reader.bytes()?.to_vec())),
        ValueKind::Stored => {
            let size = reader.u64()?;
            let n = reader.count(28 + 8)?;
            Ok(Value::Stored {
                size,
                locations: (0..n).map(|_| get_node(reader)).collect::<Result<_, _>>()?,
            })
        }
    }
}

fn put_returned(out: &mut Vec<u8>, returned: &Returned) {
    put_value(out, returned.value.as_ref());
    put_references(out, &returned.contained);
}

fn get_returned(reader: &mut Reader<'_>) -> Result<Returned, Malformed> {
    Ok(Returned { value: get_value(reader)?, contained: get_references(reader)? })
}

/// Appends a list of references.
pub fn put_references(out: &mut Vec<u8>, references: &[Reference]) {
    put_count(out, references.len());
    for reference in references {
        put_reference(out, reference);
    }
}

/// Reads a list of references.
pub fn get_references(reader: &mut Reader<'_>) -> Result<Vec<Reference>, Malformed> {
    let n = reader.count(REFERENCE_LEAST)?;
    (0..n).map(|_| get_reference(reader)).collect()
}

/// Appends an argument that was a reference: the object, its owner and its value.
pub fn put_dependency(out: &mut Vec<u8>, id: ObjectId, owner: &WorkerAddress, value: ValueRef<'_>) {
    put_reference_to(out, id, owner);
    put_value(out, value);
}

impl Args {
    /// Appends the wire form.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.stored_body));
        put_bytes(out, &self.body);
        put_count(out, self.deps.len());
        for dep in &self.deps {
            put_dependency(out, dep.reference.id, &dep.reference.owner, dep.value.as_ref());
        }
    }

    /// Reads the wire form.
    pub fn get(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let stored_body = reader.u8()? != 0;
        let body = reader.bytes()?.to_vec();
        let n = reader.count(REFERENCE_LEAST + 5)?;
        let deps = (0..n)
            .map(|_| {
                Ok(Dependency {
                    reference: get_reference(&mut reader)?,
                    value: get_value(&mut reader)?,
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { body, stored_body, deps })
    }
}

impl<'a> Frame<'a> {
    /// Appends the frame's body (the length in front is [`crate::frame::put`]'s).
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Function { number, body } => {
                Opcode::Function.put(out);
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(body);
            }
            Self::Template { number, function, body } => {
                Opcode::Template.put(out);
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(&function.to_le_bytes());
                out.extend_from_slice(body);
            }
            Self::BeginLease { lease, grant, job } => {
                Opcode::BeginLease.put(out);
                out.extend_from_slice(&lease.0.to_le_bytes());
                put_bytes(out, grant);
                put_bytes(out, job);
            }
            Self::Call { task, template, lease, sequence, returns, flags, args } => {
                Opcode::Call.put(out);
                out.extend_from_slice(&task.0);
                out.extend_from_slice(&template.to_le_bytes());
                out.extend_from_slice(&lease.0.to_le_bytes());
                out.extend_from_slice(&sequence.to_le_bytes());
                out.extend_from_slice(&returns.to_le_bytes());
                out.extend_from_slice(&flags.bits().to_le_bytes());
                out.extend_from_slice(args);
            }
            Self::Reply { task, failed, retryable, leaving, items, returns } => {
                Opcode::Reply.put(out);
                out.extend_from_slice(&task.0);
                out.push(u8::from(*failed) | u8::from(*leaving) << 1 | u8::from(*retryable) << 2);
                out.extend_from_slice(&items.to_le_bytes());
                put_count(out, returns.len());
                for returned in returns {
                    put_returned(out, returned);
                }
            }
            Self::Unstarted { tasks } => {
                Opcode::Unstarted.put(out);
                put_count(out, tasks.len());
                for task in tasks {
                    out.extend_from_slice(&task.0);
                }
            }
            Self::Steal { max } => {
                Opcode::Steal.put(out);
                out.extend_from_slice(&max.to_le_bytes());
            }
            Self::Item { task, index, returned } => {
                Opcode::Item.put(out);
                out.extend_from_slice(&task.0);
                out.extend_from_slice(&index.to_le_bytes());
                put_returned(out, returned);
            }
            Self::Consumed { task, count } => {
                Opcode::Consumed.put(out);
                out.extend_from_slice(&task.0);
                out.extend_from_slice(&count.to_le_bytes());
            }
            Self::Cancel { task, force, recursive } => {
                Opcode::Cancel.put(out);
                out.extend_from_slice(&task.0);
                out.push(u8::from(*force) | u8::from(*recursive) << 1);
            }
            Self::Resolve { object } => {
                Opcode::Resolve.put(out);
                out.extend_from_slice(&object.0);
            }
            Self::Resolved { object, returned } => {
                Opcode::Resolved.put(out);
                out.extend_from_slice(&object.0);
                out.push(u8::from(returned.is_some()));
                if let Some(returned) = returned {
                    put_returned(out, returned);
                }
            }
            Self::AddBorrow { number, object } => {
                Opcode::AddBorrow.put(out);
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(&object.0);
            }
            Self::BorrowAdded { number } => {
                Opcode::BorrowAdded.put(out);
                out.extend_from_slice(&number.to_le_bytes());
            }
            Self::RemoveBorrow { objects } => {
                Opcode::RemoveBorrow.put(out);
                put_count(out, objects.len());
                for (object, number) in objects {
                    out.extend_from_slice(&object.0);
                    out.extend_from_slice(&number.to_le_bytes());
                }
            }
            Self::BorrowsComplete { since } => {
                Opcode::BorrowsComplete.put(out);
                out.extend_from_slice(&since.to_le_bytes());
            }
            Self::ReturnsHeld { task } => {
                Opcode::ReturnsHeld.put(out);
                out.extend_from_slice(&task.0);
            }
            Self::LocationLost { object, node } => {
                Opcode::LocationLost.put(out);
                out.extend_from_slice(&object.0);
                out.extend_from_slice(&node.0);
            }
            Self::LocationAdded { object, node } => {
                Opcode::LocationAdded.put(out);
                out.extend_from_slice(&object.0);
                put_node(out, node);
            }
            Self::Why { number, object, is_executor, hops } => {
                Opcode::Why.put(out);
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(&object.0);
                out.push(u8::from(*is_executor));
                out.push(*hops);
            }
            Self::Because { number, text } => {
                Opcode::Because.put(out);
                out.extend_from_slice(&number.to_le_bytes());
                put_string(out, text);
            }
        }
    }

    /// The frame without its borrow, if it has none: all but functions, templates, leases and calls.
    #[must_use]
    pub fn into_owned(self) -> Option<Frame<'static>> {
        Some(match self {
            Self::Function { .. }
            | Self::Template { .. }
            | Self::BeginLease { .. }
            | Self::Call { .. } => return None,
            Self::Reply { task, failed, retryable, leaving, items, returns } => {
                Frame::Reply { task, failed, retryable, leaving, items, returns }
            }
            Self::Unstarted { tasks } => Frame::Unstarted { tasks },
            Self::Steal { max } => Frame::Steal { max },
            Self::Item { task, index, returned } => Frame::Item { task, index, returned },
            Self::Consumed { task, count } => Frame::Consumed { task, count },
            Self::Cancel { task, force, recursive } => Frame::Cancel { task, force, recursive },
            Self::Resolve { object } => Frame::Resolve { object },
            Self::Resolved { object, returned } => Frame::Resolved { object, returned },
            Self::AddBorrow { number, object } => Frame::AddBorrow { number, object },
            Self::BorrowAdded { number } => Frame::BorrowAdded { number },
            Self::RemoveBorrow { objects } => Frame::RemoveBorrow { objects },
            Self::BorrowsComplete { since } => Frame::BorrowsComplete { since },
            Self::ReturnsHeld { task } => Frame::ReturnsHeld { task },
            Self::LocationLost { object, node } => Frame::LocationLost { object, node },
            Self::LocationAdded { object, node } => Frame::LocationAdded { object, node },
            Self::Why { number, object, is_executor, hops } => {
                Frame::Why { number, object, is_executor, hops }
            }
            Self::Because { number, text } => Frame::Because { number, text },
        })
    }

    /// Reads a frame's body.
    pub fn get(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        Ok(match Opcode::get(&mut r)? {
            Opcode::Template => {
                Self::Template { number: r.u32()?, function: r.u32()?, body: r.rest() }
            }
            Opcode::BeginLease => {
                Self::BeginLease { lease: LeaseId(r.u64()?), grant: r.bytes()?, job: r.bytes()? }
            }
            Opcode::Call => Self::Call {
                task: TaskId(r.array()?),
                template: r.u32()?,
                lease: LeaseId(r.u64()?),
                sequence: r.u64()?,
                returns: r.u32()?,
                flags: CallFlags::of_bits(r.u32()?)?,
                args: r.rest(),
            },
            Opcode::Reply => {
                let task = TaskId(r.array()?);
                let bits = flags(r.u8()?.into(), 3)?;
                let items = r.u32()?;
                let n = r.count(1 + 4 + 4)?;
                let returns = (0..n).map(|_| get_returned(&mut r)).collect::<Result<_, _>>()?;
                let (failed, leaving, retryable) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
                Self::Reply { task, failed, retryable, leaving, items, returns }
            }
            Opcode::Unstarted => {
                let n = r.count(24)?;
                Self::Unstarted {
                    tasks: (0..n).map(|_| r.array().map(TaskId)).collect::<Result<_, _>>()?,
                }
            }
            Opcode::Steal => Self::Steal { max: r.u32()? },
            Opcode::Item => Self::Item {
                task: TaskId(r.array()?),
                index: r.u32()?,
                returned: get_returned(&mut r)?,
            },
            Opcode::Consumed => Self::Consumed { task: TaskId(r.array()?), count: r.u32()? },
            Opcode::Cancel => {
                let task = TaskId(r.array()?);
                let bits = flags(r.u8()?.into(), 2)?;
                Self::Cancel { task, force: bits & 1 != 0, recursive: bits & 2 != 0 }
            }
            Opcode::Resolve => Self::Resolve { object: ObjectId(r.array()?) },
            Opcode::Resolved => {
                let object = ObjectId(r.array()?);
                let known = r.u8()? != 0;
                Self::Resolved {
                    object,
                    returned: if known { Some(get_returned(&mut r)?) } else { None },
                }
            }
            Opcode::AddBorrow => Self::AddBorrow { number: r.u64()?, object: ObjectId(r.array()?) },
            Opcode::BorrowAdded => Self::BorrowAdded { number: r.u64()? },
            Opcode::RemoveBorrow => {
                let n = r.count(28 + 8)?;
                let objects = (0..n)
                    .map(|_| Ok((ObjectId(r.array()?), r.u64()?)))
                    .collect::<Result<_, Malformed>>()?;
                Self::RemoveBorrow { objects }
            }
            Opcode::ReturnsHeld => Self::ReturnsHeld { task: TaskId(r.array()?) },
            Opcode::LocationLost => {
                Self::LocationLost { object: ObjectId(r.array()?), node: NodeId(r.array()?) }
            }
            Opcode::LocationAdded => {
                Self::LocationAdded { object: ObjectId(r.array()?), node: get_node(&mut r)? }
            }
            Opcode::Why => Self::Why {
                number: r.u64()?,
                object: ObjectId(r.array()?),
                is_executor: r.u8()? != 0,
                hops: r.u8()?,
            },
            Opcode::Because => Self::Because { number: r.u64()?, text: r.str()?.to_owned() },
            Opcode::BorrowsComplete => Self::BorrowsComplete { since: r.u64()? },
            Opcode::Function => Self::Function { number: r.u32()?, body: r.rest() },
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reference() -> Reference {
        let owner = WorkerAddress { host: "10.0.0.1".into(), port: 7, ..WorkerAddress::default() };
        Reference { id: ObjectId([4; 28]), owner }
    }

    fn check(frame: &Frame<'_>) {
        let mut out = Vec::new();
        frame.put(&mut out);
        assert_eq!(Frame::get(&out).as_ref(), Ok(frame));
        for n in 0..out.len() {
            // No cut may panic; frames whose last field is "the rest" may still read.
            let _ = Frame::get(&out[..n]);
        }
    }

    #[test]
    fn every_frame_reads_back() {
        let (task, object) = (TaskId([1; 24]), ObjectId([2; 28]));
        let node = NodeAddress { host: "h".into(), port: 1, ..NodeAddress::default() };
        let stored = Value::Stored { size: 9, locations: vec![node.clone()] };
        let returned = Returned { value: stored.clone(), contained: vec![reference()] };
        let mut args = Vec::new();
        let call = Args {
            body: b"body".to_vec(),
            stored_body: false,
            deps: vec![Dependency { reference: reference(), value: Value::Inline(b"v".to_vec()) }],
        };
        call.put(&mut args);
        assert_eq!(Args::get(&args), Ok(call));
        for frame in [
            Frame::Function { number: 2, body: b"f" },
            Frame::Template { number: 3, function: 2, body: b"t" },
            Frame::BeginLease { lease: LeaseId(5), grant: b"g", job: b"j" },
            Frame::Call {
                task,
                template: 1,
                lease: LeaseId(2),
                sequence: 3,
                returns: 1,
                flags: CallFlags { is_retry: true, is_remade: false },
                args: &args,
            },
            Frame::Reply {
                task,
                failed: true,
                retryable: true,
                leaving: false,
                items: 2,
                returns: vec![returned.clone()],
            },
            Frame::Unstarted { tasks: vec![task, task] },
            Frame::Steal { max: 4 },
            Frame::Item { task, index: 1, returned: returned.clone() },
            Frame::Consumed { task, count: 8 },
            Frame::Cancel { task, force: true, recursive: true },
            Frame::Resolve { object },
            Frame::Resolved { object, returned: Some(returned) },
            Frame::Resolved { object, returned: None },
            Frame::AddBorrow { number: 1, object },
            Frame::BorrowAdded { number: 1 },
            Frame::RemoveBorrow { objects: vec![(object, 3)] },
            Frame::BorrowsComplete { since: 4 },
            Frame::ReturnsHeld { task },
            Frame::LocationLost { object, node: NodeId([7; 28]) },
            Frame::LocationAdded { object, node },
            Frame::Why { number: 2, object, is_executor: true, hops: 3 },
            Frame::Because { number: 2, text: "it runs".into() },
        ] {
            check(&frame);
        }
    }

    #[test]
    fn kinds_and_flags_that_have_no_meaning_are_refused() {
        let mut call = Vec::new();
        let (task, lease) = (TaskId([1; 24]), LeaseId(0));
        let flags = CallFlags { is_retry: true, is_remade: true };
        Frame::Call { task, template: 1, lease, sequence: 0, returns: 1, flags, args: &[] }
            .put(&mut call);
        let at = call.len() - 4;
        assert_eq!(call[at..], [3, 0, 0, 0]);
        call[at] = 4;
        assert_eq!(Frame::get(&call), Err(Malformed), "WIRE-1: a call has two flags");
        let mut cancel = Vec::new();
        Frame::Cancel { task, force: true, recursive: true }.put(&mut cancel);
        *cancel.last_mut().unwrap() = 4;
        assert_eq!(Frame::get(&cancel), Err(Malformed), "and a cancellation as well");
        for opcode in (22..=255).chain([0]) {
            let frame = [&[opcode][..], &[0; 200]].concat();
            assert_eq!(Frame::get(&frame), Err(Malformed), "no frame has the number {opcode}");
        }
        let value = [&[7][..], &[0; 24], &[0; 4], &[3]].concat();
        assert_eq!(Frame::get(&value), Err(Malformed), "nor a value the kind 3");
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Frame::get(&bytes);
            let _ = Args::get(&bytes);
            let _ = crate::decode::<crate::node::ClientToNode>(&bytes);
            let _ = crate::decode::<crate::cluster::NodeToControl>(&bytes);
        }
    }
}
