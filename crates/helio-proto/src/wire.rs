//! Protobuf for the project's own types.
//!
//! `prost` knows scalars, strings and bytes. [`Field`] adds what our messages are made of (ids,
//! quantities, addresses, nested messages), and `messages!` writes a `prost::Message` for a struct
//! or a oneof, so that a message is defined once, with typed fields.

use bytes::{Buf, BufMut};
use helio_types::id::InvalidId;
use helio_types::resources::Quantity;
use helio_types::{
    ActorId, Assigned, DeathCause, DeathKind, JobId, LeaseId, NodeAddress, NodeId, ObjectId,
    PlacementGroupId, ResourceSet, TaskId, WorkerAddress, WorkerId,
};
use prost::DecodeError;
use prost::encoding::{self, DecodeContext, WireType};

/// A message with a Protobuf form.
pub trait Wire: prost::Message + Default {}
impl<T: prost::Message + Default> Wire for T {}

/// The bytes of a message.
#[must_use]
pub fn encode<M: Wire>(message: &M) -> Vec<u8> {
    // The length of a nested message is written before it, from `len`: a `len` that disagrees with `write` would
    // shift all that follows, and the reader would find other fields.
    let length = message.encoded_len();
    let mut bytes = Vec::with_capacity(length);
    message.encode_raw(&mut bytes);
    assert!(
        bytes.len() == length,
        "within another one the message would be announced shorter or longer"
    );
    bytes
}

/// Reads a message.
///
/// # Errors
/// When the bytes are not such a message.
pub fn decode<M: Wire>(bytes: &[u8]) -> Result<M, DecodeError> {
    M::decode(bytes)
}

/// A value that can stand in a message under a tag.
pub(crate) trait Field: Default {
    /// Writes it; a default value may be left out.
    fn write(&self, tag: u32, buf: &mut impl BufMut);
    /// Reads one occurrence.
    fn merge(
        &mut self,
        wire: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError>;
    /// The length of what [`Field::write`] writes.
    fn len(&self, tag: u32) -> usize;
}

macro_rules! scalar {
    ($type:ty, $module:ident) => {
        impl Field for $type {
            fn write(&self, tag: u32, buf: &mut impl BufMut) {
                if *self != <$type>::default() {
                    encoding::$module::encode(tag, self, buf);
                }
            }
            fn merge(
                &mut self,
                wire: WireType,
                buf: &mut impl Buf,
                ctx: DecodeContext,
            ) -> Result<(), DecodeError> {
                encoding::$module::merge(wire, self, buf, ctx)
            }
            fn len(&self, tag: u32) -> usize {
                if *self == <$type>::default() {
                    0
                } else {
                    encoding::$module::encoded_len(tag, self)
                }
            }
        }
    };
}
scalar!(bool, bool);
scalar!(u32, uint32);
scalar!(u64, uint64);
scalar!(i32, sint32);
scalar!(i64, sint64);
scalar!(f64, double);
scalar!(String, string);
scalar!(Vec<u8>, bytes);
scalar!(bytes::Bytes, bytes);

/// Lists of numbers, packed.
macro_rules! packed {
    ($type:ty, $module:ident) => {
        impl Field for Vec<$type> {
            fn write(&self, tag: u32, buf: &mut impl BufMut) {
                encoding::$module::encode_packed(tag, self, buf);
            }
            fn merge(
                &mut self,
                wire: WireType,
                buf: &mut impl Buf,
                ctx: DecodeContext,
            ) -> Result<(), DecodeError> {
                encoding::$module::merge_repeated(wire, self, buf, ctx)
            }
            fn len(&self, tag: u32) -> usize {
                encoding::$module::encoded_len_packed(tag, self)
            }
        }
    };
}
packed!(u64, uint64);
packed!(f64, double);

macro_rules! id_field {
    ($($name:ty)*) => {$(
        impl Field for $name {
            fn write(&self, tag: u32, buf: &mut impl BufMut) {
                // A nil id is the default and takes no bytes, as a zero.
                if !self.is_nil() {
                    encoding::encode_key(tag, WireType::LengthDelimited, buf);
                    encoding::encode_varint(self.0.len() as u64, buf);
                    buf.put_slice(&self.0);
                }
            }
            fn merge(&mut self, wire: WireType, buf: &mut impl Buf, _ctx: DecodeContext) -> Result<(), DecodeError> {
                encoding::check_wire_type(WireType::LengthDelimited, wire)?;
                let length = encoding::decode_varint(buf)?;
                if length != Self::LEN as u64 || buf.remaining() < Self::LEN {
                    let wrong_length = InvalidId { kind: stringify!($name), expected: Self::LEN };
                    return Err(wrong(wrong_length.to_string()));
                }
                buf.copy_to_slice(&mut self.0);
                Ok(())
            }
            fn len(&self, tag: u32) -> usize {
                if self.is_nil() { 0 } else { encoding::key_len(tag) + 1 + self.0.len() }
            }
        }
        repeated!($name);
    )*};
}

/// Lists and options: one occurrence an element, a missing field is the empty list.
macro_rules! repeated {
    ($type:ty $(, $of:ident)?) => {
        impl$(<$of>)? Field for Vec<$type> {
            fn write(&self, tag: u32, buf: &mut impl BufMut) {
                for item in self {
                    item.write(tag, buf);
                }
            }
            fn merge(
                &mut self,
                wire: WireType,
                buf: &mut impl Buf,
                ctx: DecodeContext,
            ) -> Result<(), DecodeError> {
                // Protobuf gives each element of a list a field of its own.
                let mut item = <$type>::default();
                item.merge(wire, buf, ctx)?;
                self.push(item);
                Ok(())
            }
            fn len(&self, tag: u32) -> usize {
                self.iter().map(|item| item.len(tag)).sum()
            }
        }
    };
}
pub(crate) use repeated;

id_field!(JobId ActorId TaskId ObjectId NodeId WorkerId PlacementGroupId);

impl Field for LeaseId {
    fn write(&self, tag: u32, buf: &mut impl BufMut) {
        self.0.write(tag, buf);
    }
    fn merge(
        &mut self,
        wire: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        self.0.merge(wire, buf, ctx)
    }
    fn len(&self, tag: u32) -> usize {
        self.0.len(tag)
    }
}

/// The field of an enum, which stands in a message as its number. **WIRE-1** A number that this release does not
/// know is refused: neighbours are of one release, so the message is broken.
macro_rules! number_field {
    ($type:ty) => {
        impl $crate::wire::Field for $type {
            fn write(&self, tag: u32, buf: &mut impl bytes::BufMut) {
                if *self != Self::default() {
                    prost::encoding::uint32::encode(tag, &(*self as u32), buf);
                }
            }
            fn merge(
                &mut self,
                wire: prost::encoding::WireType,
                buf: &mut impl bytes::Buf,
                ctx: prost::encoding::DecodeContext,
            ) -> Result<(), prost::DecodeError> {
                let mut number = 0u32;
                $crate::wire::Field::merge(&mut number, wire, buf, ctx)?;
                *self = Self::from_number(number)
                    .ok_or_else(|| $crate::wire::unknown(stringify!($type), number))?;
                Ok(())
            }
            fn len(&self, tag: u32) -> usize {
                if *self == Self::default() {
                    0
                } else {
                    prost::encoding::uint32::encoded_len(tag, &(*self as u32))
                }
            }
        }
    };
}
pub(crate) use number_field;

/// The field of a list of enums: their numbers, packed.
macro_rules! number_list {
    ($type:ty) => {
        impl $crate::wire::Field for Vec<$type> {
            fn write(&self, tag: u32, buf: &mut impl bytes::BufMut) {
                let numbers: Vec<u32> = self.iter().map(|one| *one as u32).collect();
                $crate::wire::Field::write(&numbers, tag, buf);
            }
            fn merge(
                &mut self,
                wire: prost::encoding::WireType,
                buf: &mut impl bytes::Buf,
                ctx: prost::encoding::DecodeContext,
            ) -> Result<(), prost::DecodeError> {
                let mut numbers = Vec::<u32>::new();
                $crate::wire::Field::merge(&mut numbers, wire, buf, ctx)?;
                for number in numbers {
                    let one = <$type>::from_number(number);
                    self.push(one.ok_or_else(|| $crate::wire::unknown(stringify!($type), number))?);
                }
                Ok(())
            }
            fn len(&self, tag: u32) -> usize {
                let numbers: Vec<u32> = self.iter().map(|one| *one as u32).collect();
                $crate::wire::Field::len(&numbers, tag)
            }
        }
    };
}
pub(crate) use number_list;

number_field!(DeathKind);

/// Writes an enum whose variants stand in messages as their numbers.
macro_rules! numbers {
    ($($(#[$doc:meta])* pub enum $name:ident {
        $($(#[$vdoc:meta])* $variant:ident = $number:literal),* $(,)?
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub enum $name { $($(#[$vdoc])* $variant = $number),* }

        impl $name {
            /// All of them, in the order of their definition.
            pub const ALL: [Self; [$($number),*].len()] = [$(Self::$variant),*];

            /// The one that stands on the wire as this number.
            #[must_use]
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
        $crate::wire::number_field!($name);
    )*};
}
pub(crate) use numbers;

/// Strings in lists are written even when empty, so that positions survive.
impl Field for Vec<String> {
    fn write(&self, tag: u32, buf: &mut impl BufMut) {
        encoding::string::encode_repeated(tag, self, buf);
    }
    fn merge(
        &mut self,
        wire: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        encoding::string::merge_repeated(wire, self, buf, ctx)
    }
    fn len(&self, tag: u32) -> usize {
        encoding::string::encoded_len_repeated(tag, self)
    }
}

impl Field for Vec<u32> {
    fn write(&self, tag: u32, buf: &mut impl BufMut) {
        encoding::uint32::encode_packed(tag, self, buf);
    }
    fn merge(
        &mut self,
        wire: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        encoding::uint32::merge_repeated(wire, self, buf, ctx)
    }
    fn len(&self, tag: u32) -> usize {
        encoding::uint32::encoded_len_packed(tag, self)
    }
}

impl<M: Nested> Field for M {
    fn write(&self, tag: u32, buf: &mut impl BufMut) {
        encoding::message::encode(tag, self, buf);
    }
    fn merge(
        &mut self,
        wire: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        encoding::message::merge(wire, self, buf, ctx)
    }
    fn len(&self, tag: u32) -> usize {
        encoding::message::encoded_len(tag, self)
    }
}

impl<M: Nested> Field for Vec<M> {
    fn write(&self, tag: u32, buf: &mut impl BufMut) {
        for item in self {
            encoding::message::encode(tag, item, buf);
        }
    }
    fn merge(
        &mut self,
        wire: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        encoding::message::merge_repeated(wire, self, buf, ctx)
    }
    fn len(&self, tag: u32) -> usize {
        encoding::message::encoded_len_repeated(tag, self)
    }
}

impl<M: Nested> Field for Option<M> {
    fn write(&self, tag: u32, buf: &mut impl BufMut) {
        if let Some(item) = self {
            item.write(tag, buf);
        }
    }
    fn merge(
        &mut self,
        wire: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        Field::merge(self.get_or_insert_default(), wire, buf, ctx)
    }
    fn len(&self, tag: u32) -> usize {
        self.as_ref().map_or(0, |item| item.len(tag))
    }
}

/// A message that can stand inside another.
pub(crate) trait Nested: prost::Message + Default {}

/// Plain data of `helio-types` stands in messages through a mirror that carries the tags.
macro_rules! mirror {
    ($type:ty, $mirror:ident, |$from:ident| $to_wire:expr, |$wire:ident| $to_type:expr) => {
        impl Field for $type {
            fn write(&self, tag: u32, buf: &mut impl BufMut) {
                let $from = self;
                Field::write(&$to_wire, tag, buf);
            }
            fn merge(
                &mut self,
                wire: WireType,
                buf: &mut impl Buf,
                ctx: DecodeContext,
            ) -> Result<(), DecodeError> {
                let mut $wire = $mirror::default();
                Field::merge(&mut $wire, wire, buf, ctx)?;
                *self = $to_type;
                Ok(())
            }
            fn len(&self, tag: u32) -> usize {
                let $from = self;
                Field::len(&$to_wire, tag)
            }
        }
        repeated!($type);
    };
}

messages! {
    struct QuantityWire { 1 name: String, 2 amount: i64 }
    struct ResourceSetWire { 1 items: Vec<QuantityWire> }
    struct DevicesWire { 1 resource: String, 2 indices: Vec<u32> }
    struct AssignedWire { 1 resources: ResourceSet, 3 devices: Vec<DevicesWire> }
    struct NodeAddressWire { 1 node_id: NodeId, 2 host: String, 3 port: u32 }
    struct WorkerAddressWire { 1 worker_id: WorkerId, 2 node_id: NodeId, 3 host: String, 4 port: u32 }
    struct DeathCauseWire {
        1 kind: DeathKind, 2 code: i32, 3 pid: u32, 4 message: String, 5 log_tail: String, 6 error: Vec<u8>,
        7 is_final: bool, 8 by: TaskId, 9 method: String,
    }
}

/// A quantity and its name, as [`QuantityWire`] has them, without a copy of the name: each row of a call has a set.
fn quantity_len(name: &String, amount: Quantity) -> usize {
    Field::len(name, 1) + amount.0.len(2)
}

fn resources_len(set: &ResourceSet) -> usize {
    let items = set.0.iter().map(|(name, amount)| quantity_len(name, *amount));
    items.map(|item| encoding::key_len(1) + encoding::encoded_len_varint(item as u64) + item).sum()
}

impl Field for ResourceSet {
    fn write(&self, tag: u32, buf: &mut impl BufMut) {
        encoding::encode_key(tag, WireType::LengthDelimited, buf);
        encoding::encode_varint(resources_len(self) as u64, buf);
        for (name, amount) in &self.0 {
            encoding::encode_key(1, WireType::LengthDelimited, buf);
            encoding::encode_varint(quantity_len(name, *amount) as u64, buf);
            name.write(1, buf);
            amount.0.write(2, buf);
        }
    }
    fn merge(
        &mut self,
        wire: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        let mut read = ResourceSetWire::default();
        Field::merge(&mut read, wire, buf, ctx)?;
        self.0 = read.items.into_iter().map(|item| (item.name, Quantity(item.amount))).collect();
        Ok(())
    }
    fn len(&self, tag: u32) -> usize {
        let length = resources_len(self);
        encoding::key_len(tag) + encoding::encoded_len_varint(length as u64) + length
    }
}
repeated!(ResourceSet);

mirror!(
    Assigned,
    AssignedWire,
    |a| AssignedWire {
        resources: a.resources.clone(),
        devices: a
            .devices
            .iter()
            .map(|(resource, indices)| DevicesWire {
                resource: resource.clone(),
                indices: indices.clone()
            })
            .collect()
    },
    |wire| Assigned {
        resources: wire.resources,
        devices: wire.devices.into_iter().map(|kind| (kind.resource, kind.indices)).collect()
    }
);
mirror!(
    NodeAddress,
    NodeAddressWire,
    |a| NodeAddressWire { node_id: a.node_id, host: a.host.clone(), port: a.port },
    |wire| NodeAddress { node_id: wire.node_id, host: wire.host, port: wire.port }
);
mirror!(
    WorkerAddress,
    WorkerAddressWire,
    |a| WorkerAddressWire {
        worker_id: a.worker_id,
        node_id: a.node_id,
        host: a.host.clone(),
        port: a.port
    },
    |wire| WorkerAddress {
        worker_id: wire.worker_id,
        node_id: wire.node_id,
        host: wire.host,
        port: wire.port
    }
);
mirror!(
    DeathCause,
    DeathCauseWire,
    |c| DeathCauseWire {
        kind: c.kind,
        code: c.code,
        pid: c.pid,
        message: c.message.clone(),
        log_tail: c.log_tail.clone(),
        error: c.error.clone(),
        is_final: c.is_final,
        by: c.by,
        method: c.method.clone(),
    },
    |wire| DeathCause {
        kind: wire.kind,
        code: wire.code,
        pid: wire.pid,
        message: wire.message,
        log_tail: wire.log_tail,
        error: wire.error,
        is_final: wire.is_final,
        by: wire.by,
        method: wire.method,
    }
);

/// For a number that no variant has.
#[cold]
pub(crate) fn unknown(name: &str, number: u32) -> DecodeError {
    wrong(format!("{name} has no number {number}"))
}

#[cold]
pub(crate) fn wrong(text: String) -> DecodeError {
    #[expect(deprecated, reason = "prost has no other way to say what is wrong with a field")]
    DecodeError::new(text)
}

/// Writes `prost::Message` for structs (`tag name: Type`) and for oneofs (`tag Variant(Type)`).
/// A oneof is a message in which one field is set; a variant that this release does not know reads
/// as `Unknown`, which its receiver skips.
macro_rules! messages {
    () => {};
    ($(#[$doc:meta])* $vis:vis struct $name:ident { $($(#[$fdoc:meta])* $tag:literal $field:ident: $type:ty),* $(,)? } $($rest:tt)*) => {
        $(#[$doc])*
        #[allow(missing_docs, reason = "names of the wire; what one does not say is written at it")]
        #[derive(Clone, PartialEq, Debug, Default)]
        $vis struct $name { $($(#[$fdoc])* $vis $field: $type),* }

        impl prost::Message for $name {
            #[allow(unused_variables, reason = "a message may have no fields")]
            fn encode_raw(&self, buf: &mut impl bytes::BufMut) {
                $($crate::wire::Field::write(&self.$field, $tag, buf);)*
            }
            fn merge_field(
                &mut self,
                tag: u32,
                wire: prost::encoding::WireType,
                buf: &mut impl bytes::Buf,
                ctx: prost::encoding::DecodeContext,
            ) -> Result<(), prost::DecodeError> {
                match tag {
                    $($tag => $crate::wire::Field::merge(&mut self.$field, wire, buf, ctx),)*
                    _ => prost::encoding::skip_field(wire, tag, buf, ctx),
                }
            }
            fn encoded_len(&self) -> usize {
                0 $(+ $crate::wire::Field::len(&self.$field, $tag))*
            }
            fn clear(&mut self) {
                *self = Self::default();
            }
        }
        impl $crate::wire::Nested for $name {}
        $crate::wire::messages! { $($rest)* }
    };
    ($(#[$doc:meta])* $vis:vis enum $name:ident { $($(#[$fdoc:meta])* $tag:literal $variant:ident($type:ty)),* $(,)? } $($rest:tt)*) => {
        $(#[$doc])*
        #[allow(missing_docs, reason = "names of the wire; what one does not say is written at it")]
        #[derive(Clone, PartialEq, Debug, Default)]
        $vis enum $name {
            $($(#[$fdoc])* $variant($type),)*
            /// A message of a newer release; its receiver skips it.
            #[default]
            Unknown,
        }

        impl prost::Message for $name {
            fn encode_raw(&self, buf: &mut impl bytes::BufMut) {
                match self {
                    $(Self::$variant(inner) => prost::encoding::message::encode($tag, inner, buf),)*
                    Self::Unknown => {}
                }
            }
            fn merge_field(
                &mut self,
                tag: u32,
                wire: prost::encoding::WireType,
                buf: &mut impl bytes::Buf,
                ctx: prost::encoding::DecodeContext,
            ) -> Result<(), prost::DecodeError> {
                match tag {
                    $($tag => {
                        let mut inner = <$type>::default();
                        prost::encoding::message::merge(wire, &mut inner, buf, ctx)?;
                        *self = Self::$variant(inner);
                        Ok(())
                    })*
                    _ => prost::encoding::skip_field(wire, tag, buf, ctx),
                }
            }
            fn encoded_len(&self) -> usize {
                match self {
                    $(Self::$variant(inner) => prost::encoding::message::encoded_len($tag, inner),)*
                    Self::Unknown => 0,
                }
            }
            fn clear(&mut self) {
                *self = Self::default();
            }
        }
        impl $crate::wire::Nested for $name {}
        $(impl From<$type> for $name {
            fn from(inner: $type) -> Self {
                Self::$variant(inner)
            }
        })*
        $crate::wire::messages! { $($rest)* }
    };
}
pub(crate) use messages;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Failure, FailureKind};
    use crate::inspect::{MetricKind, Question, TaskPhase, Topic};

    #[test]
    fn enums_stand_on_the_wire_as_their_numbers() {
        for kind in FailureKind::ALL {
            assert_eq!(FailureKind::from_number(kind as u32), Some(kind));
            let failure = Failure::new(kind, "no");
            assert_eq!(decode::<Failure>(&encode(&failure)).as_ref(), Ok(&failure));
        }
        let question = Question { topic: Topic::Places, ..Question::default() };
        assert_eq!(encode(&question), [1 << 3, 6], "tag 1, a varint");
        assert_eq!(encode(&Question::default()), [], "a default takes no room");
        assert_eq!(decode::<Question>(&[]).map(|read| read.topic), Ok(Topic::Tasks));
        assert_eq!((TaskPhase::ALL.len(), MetricKind::from_number(3)), (7, None));
    }

    #[test]
    fn a_number_that_no_variant_has_is_refused_by_name() {
        let error = decode::<Question>(&[1 << 3, 99]).expect_err("WIRE-1: there is no topic 99");
        assert!(error.to_string().contains("Topic has no number 99"), "{error}");
        let cause = [1 << 3 | 2, 2, 1 << 3, 99];
        let error = decode::<crate::node::Leaving>(&cause).expect_err("nor such an end");
        assert!(error.to_string().contains("DeathKind has no number 99"), "{error}");
        let short = [1 << 3 | 2, 1, 7];
        let id = decode::<crate::node::SealObject>(&short).expect_err("an id of one byte");
        assert!(id.to_string().contains("28"), "{id}");
    }
}
