//! A call's arguments as one body ([`helio_proto::document::arguments`]).

use helio_proto::document::arguments::{self, BUFFERS, Head, REFS};
use helio_proto::document::tag;
use helio_proto::frame::INLINE_MAX;
use helio_proto::references;
use helio_types::ObjectId;
use helio_worker::{CallArgs, Payload};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::layout::{damaged, sound};
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
    let kwargs = passed.kwargs.filter(|kwargs| !kwargs.is_empty());
    let keywords = kwargs.map_or(0, |kwargs| kwargs.len());
    // More flags are set below, when it is known what the arguments contain.
    sink.append(|out| arguments::begin(out, passed.args.len(), keywords));
    if let Some(kwargs) = kwargs {
        for name in kwargs.keys() {
            let name = name.cast::<PyString>()?.to_str()?;
            sink.append(|out| arguments::put_name(out, name));
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
            ready.write(self.sink);
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
        return read(py, &body, deps);
    }
    let table = references::get(&body).ok_or_else(damaged)?;
    refs::reading(py, table, || read(py, &body, deps))
}

fn read<'py>(py: Python<'py>, body: &Source, deps: &[Payload]) -> PyResult<Unpacked<'py>> {
    let (head, document) = sound(Head::get(body))?;
    let mut cursor = Cursor { source: body, document };
    let mut deps = deps.iter();
    let mut next = || -> PyResult<Bound<'py, PyAny>> {
        if cursor.document.peek() != Some(tag::DEPENDENCY) {
            return cursor.value(py);
        }
        sound(cursor.document.u8())?;
        let dep = deps.next().ok_or_else(damaged)?;
        let source = Source::Shared(dep.bytes.clone());
        if dep.is_error {
            // An argument that failed raises here, in the call that takes it.
            Err(PyErr::from_value(errors::exception_of(py, source)?))
        } else {
            decode(py, source)
        }
    };
    let args = (0..head.positional).map(|_| next()).collect::<PyResult<Vec<_>>>()?;
    let args = PyTuple::new(py, args)?;
    if head.names.is_empty() {
        return Ok(Unpacked { args, kwargs: None });
    }
    let kwargs = PyDict::new(py);
    for name in head.names {
        kwargs.set_item(PyString::intern(py, name), next()?)?;
    }
    Ok(Unpacked { args, kwargs: Some(kwargs) })
}
