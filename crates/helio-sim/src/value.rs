//! Values as the simulated user code makes them: a hash that says what the value is, references with
//! what reading them must give, and padding whose every byte follows from the hash.

use helio_proto::peer::{Reference, get_reference, put_reference};
use helio_proto::reader::{Malformed, Reader};
use helio_types::{ActorId, ObjectId};

use crate::rng::{hash, mix};

/// The first byte of a value.
const VALUE: u8 = 2;
/// The first byte of an exception of user code.
pub const RAISED: u8 = 1;

/// The value that reading a reference must give.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Expect {
    /// The value's hash.
    pub hash: u64,
    /// Reading it raises an exception of user code.
    pub raises: bool,
}

/// A reference inside a value.
#[derive(Clone, PartialEq, Debug)]
pub struct Inner {
    /// The reference that the value contains.
    pub reference: Reference,
    /// The value of the reference.
    pub expect: Expect,
    /// The reference stands for the handles of this actor.
    pub actor: Option<ActorId>,
}

/// A value.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Val {
    /// Tells values apart.
    pub hash: u64,
    /// The references that the value contains.
    pub inner: Vec<Inner>,
}

/// The instructions of a call. Equal bodies do the same whenever they run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Body {
    /// The kind of the job; see [`crate::program::Job`].
    pub kind: u32,
    /// Tells calls apart.
    pub salt: u64,
    /// The position among its caller's calls to the actor.
    pub order: u64,
    /// Number of returns, items or children.
    pub count: u32,
    /// Depth to which children nest.
    pub depth: u32,
    /// The values of the arguments that are references.
    pub deps: Vec<Expect>,
    /// References inside other arguments.
    pub inner: Vec<Inner>,
}

fn put_expect(out: &mut Vec<u8>, expect: Expect) {
    out.extend_from_slice(&expect.hash.to_le_bytes());
    out.push(u8::from(expect.raises));
}

fn get_expect(reader: &mut Reader<'_>) -> Result<Expect, Malformed> {
    Ok(Expect { hash: reader.u64()?, raises: reader.u8()? != 0 })
}

fn put_inner(out: &mut Vec<u8>, inner: &[Inner]) {
    out.extend_from_slice(&(inner.len() as u32).to_le_bytes());
    for one in inner {
        put_reference(out, &one.reference);
        put_expect(out, one.expect);
        out.extend_from_slice(&one.actor.unwrap_or_default().0);
    }
}

fn get_inner(reader: &mut Reader<'_>) -> Result<Vec<Inner>, Malformed> {
    let n = reader.count(28)?;
    (0..n)
        .map(|_| {
            let (reference, expect) = (get_reference(reader)?, get_expect(reader)?);
            let actor = ActorId(reader.array()?);
            Ok(Inner { reference, expect, actor: (!actor.is_nil()).then_some(actor) })
        })
        .collect()
}

impl Val {
    /// The value's bytes; a big one is padded.
    #[must_use]
    pub fn encode(&self, is_big: bool) -> Vec<u8> {
        let mut out = vec![VALUE];
        out.extend_from_slice(&self.hash.to_le_bytes());
        put_inner(&mut out, &self.inner);
        let pad = if is_big { 200 + (mix(self.hash) % 1200) as usize } else { 0 };
        out.extend_from_slice(&(pad as u32).to_le_bytes());
        out.extend((0..pad).map(|place| (mix(self.hash ^ place as u64 >> 3) >> (place % 8)) as u8));
        out
    }

    /// Reads a value; wrong padding means that somebody wrote into it.
    ///
    /// # Errors
    /// When the bytes are not a value.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VALUE {
            return Err(Malformed);
        }
        let hash = reader.u64()?;
        let value = Self { hash, inner: get_inner(&mut reader)? };
        let pad = reader.u32()? as usize;
        let rest = reader.rest();
        let is_right = |(place, byte): (usize, &u8)| {
            *byte == (mix(hash ^ place as u64 >> 3) >> (place % 8)) as u8
        };
        if rest.len() != pad || !rest.iter().enumerate().all(is_right) {
            return Err(Malformed);
        }
        Ok(value)
    }
}

impl Body {
    /// The body's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.kind.to_le_bytes());
        out.extend_from_slice(&self.salt.to_le_bytes());
        out.extend_from_slice(&self.order.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.depth.to_le_bytes());
        out.extend_from_slice(&(self.deps.len() as u32).to_le_bytes());
        for expect in &self.deps {
            put_expect(&mut out, *expect);
        }
        put_inner(&mut out, &self.inner);
        out
    }

    /// Reads a body.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        let (kind, salt, order, count, depth) = (r.u32()?, r.u64()?, r.u64()?, r.u32()?, r.u32()?);
        let n = r.count(9)?;
        let deps = (0..n).map(|_| get_expect(&mut r)).collect::<Result<_, _>>()?;
        Ok(Self { kind, salt, order, count, depth, deps, inner: get_inner(&mut r)? })
    }

    /// Returns the hash of return or item number `index` of the call.
    #[must_use]
    pub fn result(&self, index: u32) -> u64 {
        let own = [u64::from(self.kind), self.salt, u64::from(index)];
        hash(own.into_iter().chain(self.deps.iter().map(|dep| dep.hash)))
    }
}

/// Returns the payload of an exception of user code.
#[must_use]
pub fn raised(salt: u64) -> Vec<u8> {
    let mut bytes = vec![RAISED];
    bytes.extend_from_slice(&salt.to_le_bytes());
    bytes
}

/// An id's first eight bytes, for traces.
#[must_use]
pub fn short(id: ObjectId) -> String {
    let hex = id.hex();
    format!("{}..{}", &hex[..8], &hex[48..])
}
