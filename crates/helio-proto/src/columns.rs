//! Many messages of one kind, written field by field instead of one after the other, so that what is alike lies together.
//!
//! Nothing here knows what the messages mean: a message is its shape (which fields it has, in their order) and a value of each of
//! them. So fields that a release does not know go through it unchanged, as in any message.
//!
//! ```text
//! shapes      each a list of keys (a field's number and the form of its value), with a length before it
//! rows        the number of the shape of each message
//! columns     for each key: numbers as differences to the one before; texts by their number if they were there before, else
//!             what is other than in the text that was new before
//! ```

use std::collections::BTreeMap;
use std::hash::Hasher as _;

use bytes::Buf;
use helio_types::hash::{IdHasher, IdMap};
use prost::DecodeError;
use prost::encoding::{decode_varint, encode_varint};

use crate::wire::{Wire, decode, wrong};

/// The forms of values, as Protobuf numbers them: a number of its own length, eight bytes, bytes with a length, four bytes.
const NUMBER: u64 = 0;
const EIGHT: u64 = 1;
const BYTES: u64 = 2;
const FOUR: u64 = 5;

/// The least memory of a message that was read, in bytes: so much of the limit is taken for each.
const MESSAGE_BYTES: usize = 64;

/// The values of one field, while they are written.
#[derive(Debug, Default)]
struct Written {
    /// Numbers: differences. Fixed forms: the bytes. Texts: 0 for a new one, else the number of the one that it is.
    values: Vec<u8>,
    /// For each new text: its length, and how much of its end is that of the new text before.
    lengths: Vec<u8>,
    /// The rest of new texts.
    texts: Vec<u8>,
    before: u64,
    known: Texts,
}

/// The texts that were written, one behind the other, each with its number: the first is 1.
#[derive(Debug, Default)]
struct Texts {
    bytes: Vec<u8>,
    /// The end of each text in `bytes`.
    ends: Vec<usize>,
    /// The numbers by the hash of a text. Of two texts with one hash the later one is kept; the other is written again.
    numbers: IdMap<u64, usize>,
}

impl Texts {
    fn get(&self, number: usize) -> &[u8] {
        let begin = number.checked_sub(2).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[number - 1]]
    }

    /// The text that was added last; empty: there is none.
    fn last(&self) -> &[u8] {
        match self.ends.len() {
            0 => &[],
            count => self.get(count),
        }
    }

    /// The number of a text that was added before, or its hash.
    fn find(&self, text: &[u8]) -> Result<usize, u64> {
        let mut hasher = IdHasher::default();
        hasher.write(text);
        let hash = hasher.finish();
        let number = self.numbers.get(&hash).copied();
        number.filter(|number| self.get(*number) == text).ok_or(hash)
    }

    fn add(&mut self, text: &[u8], hash: u64) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
        self.numbers.insert(hash, self.ends.len());
    }
}

impl Written {
    fn add(&mut self, form: u64, from: &mut &[u8]) -> Result<(), DecodeError> {
        match form {
            NUMBER => {
                let value = decode_varint(from)?;
                // Times and numbers of rows that follow one another differ little, and small numbers take a byte.
                // Wrapping, so that any two numbers have a difference.
                let more = value.wrapping_sub(self.before) as i64;
                // Zigzag, as Protobuf writes signed numbers: a small step back is as short as one forward.
                encode_varint((more << 1 ^ more >> 63) as u64, &mut self.values);
                self.before = value;
            }
            EIGHT => self.values.extend_from_slice(take(from, 8)?),
            FOUR => self.values.extend_from_slice(take(from, 4)?),
            BYTES => {
                let length = decode_varint(from)? as usize;
                self.add_text(take(from, length)?);
            }
            _ => return Err(wrong(format!("a value of form {form}"))),
        }
        Ok(())
    }

    fn add_text(&mut self, text: &[u8]) {
        let hash = match self.known.find(text) {
            Ok(number) => return encode_varint(number as u64, &mut self.values),
            Err(hash) => hash,
        };
        encode_varint(0, &mut self.values);
        // Ids of one job end alike and begin differently, so the ends are compared.
        let pairs = text.iter().rev().zip(self.known.last().iter().rev());
        let shared = pairs.take_while(|(one, other)| one == other).count();
        encode_varint(text.len() as u64, &mut self.lengths);
        encode_varint(shared as u64, &mut self.lengths);
        self.texts.extend_from_slice(&text[..text.len() - shared]);
        self.known.add(text, hash);
    }
}

fn put(part: &[u8], out: &mut Vec<u8>) {
    encode_varint(part.len() as u64, out);
    out.extend_from_slice(part);
}

fn take<'a>(from: &mut &'a [u8], length: usize) -> Result<&'a [u8], DecodeError> {
    let (part, rest) =
        from.split_at_checked(length).ok_or_else(|| wrong("a value is cut".to_owned()))?;
    *from = rest;
    Ok(part)
}

fn take_part<'a>(from: &mut &'a [u8]) -> Result<&'a [u8], DecodeError> {
    let length = decode_varint(from)? as usize;
    take(from, length)
}

/// Writes messages as columns.
///
/// # Errors
/// When a message has a field of a form that Protobuf has given up (groups).
pub fn pack<'a, M: Wire + 'a>(
    messages: impl IntoIterator<Item = &'a M>,
) -> Result<Vec<u8>, DecodeError> {
    let mut shapes: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    let (mut of_shapes, mut rows) = (Vec::new(), Vec::new());
    let mut columns: BTreeMap<u64, Written> = BTreeMap::new();
    let (mut encoded, mut shape) = (Vec::new(), Vec::new());
    for message in messages {
        encoded.clear();
        message.encode_raw(&mut encoded);
        let mut rest = &encoded[..];
        shape.clear();
        while !rest.is_empty() {
            let key = decode_varint(&mut rest)?;
            encode_varint(key, &mut shape);
            // The lowest three bits of a key are the form of the value.
            columns.entry(key).or_default().add(key & 7, &mut rest)?;
        }
        let next = shapes.len() as u64;
        let number = shapes.get(&shape).copied().unwrap_or_else(|| {
            put(&shape, &mut of_shapes);
            shapes.insert(shape.clone(), next);
            next
        });
        encode_varint(number, &mut rows);
    }
    let mut out = Vec::new();
    put(&of_shapes, &mut out);
    put(&rows, &mut out);
    for (key, Written { values, lengths, texts, .. }) in columns {
        encode_varint(key, &mut out);
        for part in [values, lengths, texts] {
            put(&part, &mut out);
        }
    }
    Ok(out)
}

/// The values of one field, while they are read.
#[derive(Debug, Default)]
struct Read<'a> {
    values: &'a [u8],
    lengths: &'a [u8],
    texts: &'a [u8],
    before: u64,
    known: Vec<Vec<u8>>,
}

impl Read<'_> {
    /// Adds the next value to a message.
    fn next(&mut self, form: u64, out: &mut Vec<u8>) -> Result<(), DecodeError> {
        match form {
            NUMBER => {
                let more = decode_varint(&mut self.values)?;
                let more = (more >> 1) as i64 ^ -((more & 1) as i64);
                self.before = self.before.wrapping_add(more as u64);
                encode_varint(self.before, out);
            }
            EIGHT => out.extend_from_slice(take(&mut self.values, 8)?),
            FOUR => out.extend_from_slice(take(&mut self.values, 4)?),
            BYTES => {
                let mut number = decode_varint(&mut self.values)? as usize;
                if number == 0 {
                    self.next_text()?;
                    number = self.known.len();
                }
                let text = self.known.get(number - 1);
                put(text.ok_or_else(|| wrong(format!("no text {number}")))?, out);
            }
            _ => return Err(wrong(format!("a value of form {form}"))),
        }
        Ok(())
    }

    fn next_text(&mut self) -> Result<(), DecodeError> {
        let length = decode_varint(&mut self.lengths)? as usize;
        let shared = decode_varint(&mut self.lengths)? as usize;
        let last_new = self.known.last().map_or(&[][..], Vec::as_slice);
        let (Some(own), Some(from)) =
            (length.checked_sub(shared), last_new.len().checked_sub(shared))
        else {
            return Err(wrong(format!("a text of {length} bytes shares {shared} of them")));
        };
        let text = [take(&mut self.texts, own)?, &last_new[from..]].concat();
        self.known.push(text);
        Ok(())
    }
}

/// Reads the messages of [`pack`], which may take so many bytes (**LIMIT-1**): a few bytes can stand for many.
///
/// # Errors
/// When the bytes are no such messages, or are more.
pub fn unpack<M: Wire>(mut bytes: &[u8], bytes_max: usize) -> Result<Vec<M>, DecodeError> {
    let (mut of_shapes, mut rows) = (take_part(&mut bytes)?, take_part(&mut bytes)?);
    let mut shapes = Vec::new();
    while of_shapes.has_remaining() {
        shapes.push(take_part(&mut of_shapes)?);
    }
    let mut columns: BTreeMap<u64, Read<'_>> = BTreeMap::new();
    while bytes.has_remaining() {
        let key = decode_varint(&mut bytes)?;
        let [values, lengths, texts] =
            [take_part(&mut bytes)?, take_part(&mut bytes)?, take_part(&mut bytes)?];
        columns.insert(key, Read { values, lengths, texts, ..Read::default() });
    }
    let mut messages = Vec::new();
    let mut message = Vec::new();
    let mut left = bytes_max;
    while rows.has_remaining() {
        let shape = decode_varint(&mut rows)? as usize;
        let mut shape = *shapes.get(shape).ok_or_else(|| wrong(format!("no shape {shape}")))?;
        message.clear();
        while shape.has_remaining() {
            let key = decode_varint(&mut shape)?;
            encode_varint(key, &mut message);
            let column = columns.get_mut(&key);
            column.ok_or_else(|| wrong(format!("no column {key}")))?.next(key & 7, &mut message)?;
            // Over the limit: the rest is not read, and the subtraction below refuses it.
            if message.len() > left {
                break;
            }
        }
        left = left
            .checked_sub(message.len() + MESSAGE_BYTES)
            .ok_or_else(|| wrong(format!("these are more than {bytes_max} bytes")))?;
        messages.push(decode(&message)?);
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use helio_types::{ActorId, NodeId, ResourceSet, TaskId};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::inspect::{Series, TaskPhase, TaskRow};

    const MAX: usize = 1 << 20;

    fn rows() -> impl Strategy<Value = Vec<TaskRow>> {
        let row = (any::<u64>(), 0..3u32, "[ab]{0,3}", any::<u8>(), 0..7u32, any::<u64>());
        let row = row.prop_map(|(number, attempt, name, node, phase, at)| TaskRow {
            task_id: TaskId::new(number, ActorId([node % 3; ActorId::LEN])),
            attempt,
            why: name.repeat(usize::from(node % 4)),
            name,
            phase: TaskPhase::from_number(phase).unwrap_or_default(),
            node_id: NodeId([node % 5; NodeId::LEN]),
            started_us: at,
            ended_us: if node % 2 == 0 { at.wrapping_add(number % 1000) } else { 0 },
            resources: ResourceSet::from_units([("CPU", f64::from(node % 3))]),
            is_hearsay: node % 7 == 0,
            ..TaskRow::default()
        });
        vec(row, 0..40)
    }

    proptest! {
        #[test]
        fn messages_are_read_back(rows in rows()) {
            let packed = pack(&rows).unwrap();
            prop_assert_eq!(unpack::<TaskRow>(&packed, MAX).unwrap(), rows);
        }

        #[test]
        fn no_bytes_are_more_than_allowed(rows in rows(), at: usize, to: u8, cut: usize) {
            let mut packed = pack(&rows).unwrap();
            let at = at % packed.len();
            packed[at] = to;
            packed.truncate(cut % packed.len() + 1);
            if let Ok(read) = unpack::<TaskRow>(&packed, 4096) {
                prop_assert!(read.len() <= 4096 / MESSAGE_BYTES);
            }
        }
    }

    #[test]
    fn lists_and_fixed_forms_are_read_back() {
        let one = Series { value: 0.5, ..Series::default() };
        let other = Series { counts: vec![1, 2, 300], value: -1.0, ..Series::default() };
        let all = [one.clone(), other, one, Series::default()];
        let packed = pack(&all).unwrap();
        assert_eq!(unpack::<Series>(&packed, MAX).unwrap(), all);
        assert_eq!(unpack::<Series>(&pack::<Series>([]).unwrap(), MAX).unwrap(), []);
    }

    /// A few bytes that stand for a great many are not believed.
    #[test]
    fn what_is_too_much_is_refused() {
        let row = TaskRow { error_message: "x".repeat(5_000), ..TaskRow::default() };
        let packed = pack(&vec![row; 1_000]).unwrap();
        assert!(packed.len() < 10_000, "{}", packed.len());
        let said = unpack::<TaskRow>(&packed, MAX).unwrap_err().to_string();
        assert!(said.contains("more than 1048576 bytes"), "{said}");
        let empty = pack(&vec![TaskRow::default(); 100_000]).unwrap();
        assert!(unpack::<TaskRow>(&empty, MAX).is_err());
    }

    crate::wire::messages! {
        struct Later { 3 name: String, 9 created_ms: u64, 901 mood: String, 902 moments: Vec<u64> }
    }

    /// Fields that only a later release knows are passed over.
    #[test]
    fn unknown_fields_are_skipped() {
        let later = |name: &str, created_ms| Later {
            name: name.to_owned(),
            created_ms,
            mood: "well".to_owned(),
            moments: vec![1, 2],
        };
        let packed = pack(&[later("f", 7), later("g", 5)]).unwrap();
        let row = |name: &str, created_ms| TaskRow {
            name: name.to_owned(),
            created_ms,
            ..TaskRow::default()
        };
        assert_eq!(unpack::<TaskRow>(&packed, MAX).unwrap(), [row("f", 7), row("g", 5)]);
    }
}
