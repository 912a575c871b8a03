//! Proof: what reads the bytes of others, as targets of a fuzzer.
//!
//! A target takes any bytes and panics if what was read breaks a rule: no bytes make a decoder panic, what
//! was read is written and read back unchanged, and no length is believed before its bytes are there
//! (**LIMIT-1**). The folder `fuzz` at the root runs the targets under a coverage-guided fuzzer, for which
//! it needs a nightly toolchain; `tests/corpus.rs` runs the inputs found there, and mutations of them, on
//! any toolchain.

#![forbid(unsafe_code)]

mod messages;
pub mod mutate;

pub use messages::messages;

use helio_proto::document::arguments::Head;
use helio_proto::document::tree::{self, Container, DEPTH_MAX, Item};
use helio_proto::document::{Cursor, Part, tag};
use helio_proto::error::{self, SystemError};
use helio_proto::frame::{self, FRAME_MAX, HELLO_MAX};
use helio_proto::hello::{self, Hello};
use helio_proto::node::{JobConfig, LeaseGranted};
use helio_proto::peer::{Args, Frame};
use helio_proto::reader::Malformed;
use helio_proto::template::Template;
use helio_proto::{Wire, decode, encode, references};
use helio_report::select::Filter;
use helio_scheduler::Selector;

/// The function that the fuzzer calls with each input.
pub type Target = fn(&[u8]);

/// The targets by name; each has a folder of inputs in `fuzz/corpus`.
pub const TARGETS: &[(&str, Target)] = &[
    ("frames", frames),
    ("peer", peer),
    ("messages", messages),
    ("errors", errors),
    ("documents", documents),
    ("texts", texts),
];

/// A stream of frames: the first byte chooses the bound, the rest is the stream. The first frame is read as a
/// greeting, the others as frames of a peer.
pub fn frames(bytes: &[u8]) {
    let Some((&choice, mut rest)) = bytes.split_first() else { return };
    let max = [HELLO_MAX, FRAME_MAX, usize::from(choice)][usize::from(choice) % 3];
    let mut is_first = true;
    loop {
        match frame::split(rest, max) {
            Err(long) => {
                assert!(
                    long.length > max && long.max == max,
                    "refused a frame that fits: {long:?}"
                );
                return;
            }
            Ok(None) => return,
            Ok(Some((start, end))) => {
                assert!(start == 4 && end <= rest.len() && end - start <= max, "{start}..{end}");
                assert_eq!(frame::split(&rest[..end - 1], max), Ok(None), "a frame was cut short");
                assert_eq!(frame::split(&rest[..end], max), Ok(Some((start, end))));
                let mut again = Vec::new();
                frame::put(&mut again, |out| out.extend_from_slice(&rest[start..end]));
                assert_eq!(again, rest[..end], "a frame changed as it was written again");
                if is_first {
                    greeting(&rest[start..end]);
                } else {
                    peer(&rest[start..end]);
                }
                is_first = false;
                rest = &rest[end..];
            }
        }
    }
}

fn greeting(bytes: &[u8]) {
    if let Ok(hello) = decode::<Hello>(bytes) {
        let refused = hello::refusal(&hello, "the token");
        assert!(hello.token == "the token" || refused.is_some(), "AUTH-1: {hello:?} was let in");
    }
}

/// The body of a frame between drivers and workers, with the messages inside it.
pub fn peer(bytes: &[u8]) {
    let Ok(read) = Frame::get(bytes) else { return };
    let mut out = Vec::new();
    read.put(&mut out);
    assert_eq!(Frame::get(&out).as_ref(), Ok(&read), "a frame changed as it was written again");
    match &read {
        Frame::Template { body, .. } => reads_back::<Template>(body),
        Frame::BeginLease { grant, job, .. } => {
            reads_back::<LeaseGranted>(grant);
            reads_back::<JobConfig>(job);
        }
        Frame::Call { args, .. } => arguments(args),
        Frame::Function { .. } => {}
        _ => assert_eq!(read.clone().into_owned().as_ref(), Some(&read), "a copy differs"),
    }
}

fn arguments(bytes: &[u8]) {
    let Ok(args) = Args::get(bytes) else { return };
    let mut out = Vec::new();
    args.put(&mut out);
    assert_eq!(Args::get(&out), Ok(args), "arguments changed as they were written again");
}

/// A message that can be read is written in as many bytes as it announces, and those read the same. Bytes
/// are compared, because a number that is none (NaN) does not equal itself.
fn reads_back<M: Wire + std::fmt::Debug>(bytes: &[u8]) {
    let Ok(message) = decode::<M>(bytes) else { return };
    let written = encode(&message);
    assert_eq!(written.len(), message.encoded_len(), "a message announces another length");
    match decode::<M>(&written) {
        Ok(again) => assert_eq!(encode(&again), written, "{message:?} reads back as {again:?}"),
        Err(error) => panic!("{message:?} cannot be read back: {error}"),
    }
}

/// Checks the payload in the place of an object whose call failed.
pub fn errors(bytes: &[u8]) {
    if let Some((name, inner)) = error::came_through(bytes) {
        assert_eq!(error::through(name, inner), bytes);
    }
    if let Some((line, inner)) = error::was_told(bytes)
        && line.len() <= error::TOLD_MAX
    {
        assert_eq!(error::told(line, inner), bytes);
    }
    if let Some(read) = SystemError::from_payload(bytes) {
        assert_eq!(SystemError::from_payload(&read.to_payload()), Some(read));
    }
    let line = error::line(bytes);
    let cut = error::cut(&line, error::TOLD_MAX);
    assert!(cut.len() <= error::TOLD_MAX && line.starts_with(cut), "{cut:?} of {line:?}");
}

/// Values and arguments of calls, as far as they are read without an interpreter.
pub fn documents(bytes: &[u8]) {
    let has_refs = bytes.first() == Some(&tag::WITH_REFS);
    parts(Cursor::new(bytes, usize::from(has_refs)), bytes);
    if let Ok((head, cursor)) = Head::get(bytes) {
        assert!(head.positional + head.names.len() <= bytes.len(), "{head:?} in so few bytes");
        parts(cursor, bytes);
    }
    if let Some(table) = references::get(bytes) {
        let owned: usize = table.owned.iter().map(|(_, ids)| ids.len()).sum();
        assert_eq!(owned, table.ids.len(), "a reference without an owner");
    }
}

fn parts(mut cursor: Cursor<'_>, document: &[u8]) {
    let is_within = |range: &std::ops::Range<usize>| document.get(range.clone()).is_some();
    while let Ok(part) = cursor.part() {
        match part {
            Part::Pickle(range) | Part::Array(_, range) => assert!(is_within(&range), "{range:?}"),
            Part::PickleBuffers(range, buffers) => {
                assert!(is_within(&range) && buffers.iter().all(is_within), "{buffers:?}");
            }
            Part::Tree => {
                let mut reader = tree::Reader::new(cursor.rest());
                if walk(&mut reader, 0).is_err() {
                    return;
                }
                let taken = cursor.rest().len() - reader.rest().len();
                assert!(cursor.take(taken).is_ok(), "a tree of {taken} bytes");
            }
            _ => {}
        }
    }
}

/// Passes a value of a tree.
fn walk(reader: &mut tree::Reader<'_>, depth: usize) -> Result<(), Malformed> {
    assert!(depth <= DEPTH_MAX + 1, "a value {depth} deep");
    if let Item::Container(container, n) = reader.next(depth)? {
        assert!(n <= reader.rest().len(), "{n} items in {} bytes", reader.rest().len());
        let n = if container == Container::Dict { 2 * n } else { n };
        (0..n).try_for_each(|_| walk(reader, depth + 1))?;
    }
    Ok(())
}

/// Texts that users and browsers send: filters of lists, selectors of labels.
pub fn texts(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(filter) = Filter::parse(text) {
        assert!(filter.column.len() + filter.value.len() < text.len(), "{filter:?}");
    }
    let negated = text.trim_start().strip_prefix('!');
    let selector = Selector::parse(text);
    if let Some(negated) = negated {
        let plain = Selector::parse(negated);
        if !negated.trim_start().starts_with('!') {
            for value in [None, Some(text), Some(negated), Some("")] {
                assert_ne!(selector.matches(value), plain.matches(value), "{text:?} of {value:?}");
            }
        }
    }
}
