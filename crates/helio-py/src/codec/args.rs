//! A call's arguments as one body: `u8` flags, `u32` positional arguments, then (with keywords) `u32`
//! names, each a `u32` length and text; a value for each argument, positional ones first, tag 10 for one
//! that is itself a reference. The table of references inside others comes last, as in documents.

use helio_proto::document::tag;
use helio_proto::frame::INLINE_MAX;
use helio_proto::references;
use helio_types::ObjectId;
use helio_worker::{CallArgs, Payload};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::layout::damaged;
use super::purpose::Purpose;
use super::read::{Cursor, decode};
use super::refs;
use super::sink::Sink;
use super::source::Source;
use super::values::put;
use super::write::{Ready, plain, ready};
use crate::errors;
use crate::gil::GilSite;
use crate::object_ref::{Collected, ObjectRef, collecting};
use crate::session::Session;

const KEYWORDS: u8 = 1;
const REFS: u8 = 2;
const BUFFERS: u8 = 4;

/// A call's arguments on their way out.
pub(crate) struct Packed {
    pub(crate) args: CallArgs,
    /// Keeps what the arguments refer to until the call is handed over.
    _held: Vec<Py<ObjectRef>>,
    /// The stored body; the runtime takes its own reference.
    _body: Option<Py<ObjectRef>>,
}

/// The arguments of the present call.
pub(crate) struct Passed<'a, 'py> {
    pub(crate) args: &'a Bound<'py, PyTuple>,
    pub(crate) kwargs: Option<&'a Bound<'py, PyDict>>,
    /// The function's name, for messages.
    pub(crate) name: &'a str,
}

/// Packs a call's arguments.
pub(crate) fn pack(session: &Session, passed: &Passed<'_, '_>) -> PyResult<Packed> {
    let py = passed.args.py();
    let mut sink = Sink::default();
    let mut deps = Vec::new();
    // The flags are set below, when it is known what the arguments contain.
    sink.u8(0);
    sink.u32(passed.args.len() as u32);
    let kwargs = passed.kwargs.filter(|kwargs| !kwargs.is_empty());
    if let Some(kwargs) = kwargs {
        *sink.first() |= KEYWORDS;
        sink.u32(kwargs.len() as u32);
        for name in kwargs.keys() {
            let name = name.cast::<PyString>()?.to_str()?;
            sink.u32(name.len() as u32);
            sink.bytes(name.as_bytes());
        }
    }
    let (packed, held) = collecting(|collected| {
        let mut values =
            Values { sink: &mut sink, deps: &mut deps, collected, name: passed.name, session };
        passed.args.iter().try_for_each(|arg| values.pack(&arg))?;
        kwargs.map_or(Ok(()), |kwargs| kwargs.values().iter().try_for_each(|arg| values.pack(&arg)))
    });
    packed?;
    if !held.is_empty() {
        *sink.first() |= REFS;
        refs::write_table(py, &mut sink, &held);
    }
    let contained = held.iter().map(|held| held.bind(py).get().id()).collect();
    let mut args = CallArgs { deps, contained, ..CallArgs::default() };
    let mut body = None;
    // A larger body would hold up the connection: it goes through the object store.
    if sink.len() <= INLINE_MAX {
        args.body = sink.take();
    } else {
        let id = put(py, &session.runtime, GilSite::Args, &mut sink, args.contained.clone())?;
        args.stored_body = Some(id);
        body = Some(ObjectRef::counted(py, id, session.epoch)?.unbind());
    }
    Ok(Packed { args, _held: held, _body: body })
}

struct Values<'a> {
    sink: &'a mut Sink,
    deps: &'a mut Vec<ObjectId>,
    collected: &'a Collected,
    name: &'a str,
    session: &'a Session,
}

impl Values<'_> {
    fn pack(&mut self, arg: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = arg.py();
        if plain(arg, self.sink) {
            return Ok(());
        }
        if let Ok(reference) = arg.cast_exact::<ObjectRef>() {
            self.sink.u8(tag::DEPENDENCY);
            self.deps.push(reference.get().known(self.session)?);
        } else {
            let ready: Ready<'_> = ready(arg, self.collected, Purpose::Argument(self.name))?;
            if ready.has_buffers() {
                *self.sink.first() |= BUFFERS;
            }
            ready.write(py, self.sink);
        }
        Ok(())
    }
}

/// A call's arguments as Python wants them.
pub(crate) struct Unpacked<'py> {
    pub(crate) args: Bound<'py, PyTuple>,
    pub(crate) kwargs: Option<Bound<'py, PyDict>>,
}

/// Unpacks a body; `deps` are the values of the arguments that were references. The first of them
/// that failed is the error, before them the body itself, where its object was lost.
pub(crate) fn unpack<'py>(
    py: Python<'py>,
    body: &Payload,
    deps: &[Payload],
) -> PyResult<Unpacked<'py>> {
    let is_lost = body.is_error;
    let body = Source::Shared(body.bytes.clone());
    if is_lost {
        return Err(PyErr::from_value(errors::exception_of(py, body)?));
    }
    let flags = *body.first().ok_or_else(damaged)?;
    let body = if flags & BUFFERS != 0 { body.aligned() } else { body };
    if flags & REFS == 0 {
        return read(py, &body, flags, deps);
    }
    let table = references::get(&body).ok_or_else(damaged)?;
    refs::reading(py, table, || read(py, &body, flags, deps))
}

fn read<'py>(
    py: Python<'py>,
    body: &Source,
    flags: u8,
    deps: &[Payload],
) -> PyResult<Unpacked<'py>> {
    let mut cursor = Cursor::new(body, 1);
    let n_args = cursor.u32()?;
    let mut names = Vec::new();
    if flags & KEYWORDS != 0 {
        for _ in 0..cursor.u32()? {
            let n = cursor.u32()? as usize;
            names.push(PyString::intern(py, cursor.text(n)?));
        }
    }
    let mut deps = deps.iter();
    let mut next = || -> PyResult<Bound<'py, PyAny>> {
        if cursor.peek() != Some(tag::DEPENDENCY) {
            return cursor.value(py);
        }
        cursor.u8()?;
        let dep = deps.next().ok_or_else(damaged)?;
        let source = Source::Shared(dep.bytes.clone());
        if dep.is_error {
            // An argument that failed raises here, in the call that takes it.
            Err(PyErr::from_value(errors::exception_of(py, source)?))
        } else {
            decode(py, source)
        }
    };
    let args = (0..n_args).map(|_| next()).collect::<PyResult<Vec<_>>>()?;
    let args = PyTuple::new(py, args)?;
    if names.is_empty() {
        return Ok(Unpacked { args, kwargs: None });
    }
    let kwargs = PyDict::new(py);
    for name in names {
        kwargs.set_item(name, next()?)?;
    }
    Ok(Unpacked { args, kwargs: Some(kwargs) })
}
