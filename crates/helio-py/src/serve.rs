//! Serve: the frames that a replica reads and writes, those of [`helio_proto::serve`] as ASGI has them, and the choice
//! of the replica for a handle's call.

use bytes::{Buf as _, BytesMut};
use helio_proto::serve::{self, Headers, Request};
use helio_turns::Turns;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

/// Reads what an ingress sends. A stream that begins with anything but the greeting is refused.
#[pyclass(module = "heliostat._heliostat")]
pub(crate) struct _ServeReader {
    greeting: Vec<u8>,
    is_greeted: bool,
    rest: BytesMut,
}

#[pymethods]
impl _ServeReader {
    #[new]
    fn new(token: &str) -> Self {
        Self { greeting: serve::greeting(token), is_greeted: false, rest: BytesMut::new() }
    }

    /// The frames that have come: tuples of kind, request and what belongs to the kind.
    fn feed<'py>(&mut self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyList>> {
        let frames = PyList::empty(py);
        // Most reads hold whole frames: those are not copied.
        let mut taken = 0;
        if self.is_greeted && self.rest.is_empty() {
            while let Some((frame, length)) = serve::split(&data[taken..]).map_err(malformed)? {
                taken += length;
                add(py, &frames, frame)?;
            }
        }
        self.rest.extend_from_slice(&data[taken..]);
        if taken > 0 || !self.greet()? {
            return Ok(frames);
        }
        let mut used = 0;
        while let Some((frame, length)) = serve::split(&self.rest[used..]).map_err(malformed)? {
            used += length;
            add(py, &frames, frame)?;
        }
        self.rest.advance(used);
        Ok(frames)
    }
}

impl _ServeReader {
    fn greet(&mut self) -> PyResult<bool> {
        if self.is_greeted {
            return Ok(true);
        }
        let length = self.rest.len().min(self.greeting.len());
        // Equal in constant time: the greeting holds the token.
        let differ = self.rest.iter().zip(&self.greeting).fold(0, |all, (a, b)| all | (a ^ b));
        if length == self.greeting.len() {
            if differ != 0 {
                return Err(PyValueError::new_err("not greeted by an ingress of this cluster"));
            }
            self.rest.advance(length);
            self.is_greeted = true;
        }
        Ok(self.is_greeted)
    }
}

fn malformed(error: helio_proto::reader::Malformed) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn add<'py>(py: Python<'py>, frames: &Bound<'py, PyList>, frame: serve::Frame<'_>) -> PyResult<()> {
    let serve::Frame { kind, id, body } = frame;
    match kind {
        serve::REQUEST => {
            let (request, headers, body) = serve::read_request(body).map_err(malformed)?;
            let scope = scope(py, &request, headers)?;
            frames.append((kind, id, request.is_whole, scope, PyBytes::new(py, body)))
        }
        serve::BODY => {
            let (last, data) =
                body.split_first().ok_or_else(|| malformed(helio_proto::reader::Malformed))?;
            frames.append((kind, id, *last != 0, PyBytes::new(py, data)))
        }
        serve::TAKEN => {
            let bytes =
                body.first_chunk().ok_or_else(|| malformed(helio_proto::reader::Malformed))?;
            frames.append((kind, id, u32::from_le_bytes(*bytes)))
        }
        // Frames that only a later ingress knows are passed over.
        serve::CANCEL => frames.append((kind, id)),
        _ => Ok(()),
    }
}

/// The scope of ASGI 3.
fn scope<'py>(
    py: Python<'py>,
    request: &Request<'_>,
    headers: Headers<'_>,
) -> PyResult<Bound<'py, PyDict>> {
    let text = |bytes: &[u8]| PyString::new(py, &String::from_utf8_lossy(bytes));
    let scope = PyDict::new(py);
    let is_socket = request.version == serve::WEBSOCKET;
    let kind = match request.version {
        serve::WEBSOCKET => intern!(py, "websocket"),
        serve::GRPC => intern!(py, "grpc"),
        _ => intern!(py, "http"),
    };
    scope.set_item(intern!(py, "type"), kind)?;
    let asgi = PyDict::new(py);
    asgi.set_item(intern!(py, "version"), intern!(py, "3.0"))?;
    asgi.set_item(intern!(py, "spec_version"), intern!(py, "2.4"))?;
    scope.set_item(intern!(py, "asgi"), asgi)?;
    let version = match request.version {
        20 | serve::GRPC => intern!(py, "2"),
        10 => intern!(py, "1.0"),
        _ => intern!(py, "1.1"),
    };
    scope.set_item(intern!(py, "http_version"), version)?;
    let scheme = match (is_socket, request.is_secure) {
        (false, false) => intern!(py, "http"),
        (false, true) => intern!(py, "https"),
        (true, false) => intern!(py, "ws"),
        (true, true) => intern!(py, "wss"),
    };
    scope.set_item(intern!(py, "scheme"), scheme)?;
    if is_socket {
        let offered = headers.iter().filter(|(name, _)| *name == b"sec-websocket-protocol");
        let offered: Vec<_> = offered
            .flat_map(|(_, value)| value.split(|byte| *byte == b','))
            .map(|one| text(one.trim_ascii()))
            .collect();
        scope.set_item(intern!(py, "subprotocols"), offered)?;
    } else {
        scope.set_item(intern!(py, "method"), text(request.method))?;
    }
    scope.set_item(intern!(py, "path"), text(&percent_decoded(request.path)))?;
    scope.set_item(intern!(py, "raw_path"), PyBytes::new(py, request.path))?;
    scope.set_item(intern!(py, "query_string"), PyBytes::new(py, request.query))?;
    scope.set_item(intern!(py, "root_path"), text(request.root))?;
    let rows = PyList::empty(py);
    for (name, value) in headers.iter() {
        rows.append(PyTuple::new(py, [PyBytes::new(py, name), PyBytes::new(py, value)])?)?;
    }
    scope.set_item(intern!(py, "headers"), rows)?;
    let end = |end: (&[u8], u16)| (text(end.0), end.1).into_pyobject(py);
    scope.set_item(intern!(py, "client"), end(request.client)?)?;
    scope.set_item(intern!(py, "server"), end(request.server)?)?;
    Ok(scope)
}

fn percent_decoded(path: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if let (b'%', [high, low, after @ ..]) = (*byte, after)
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            #[expect(clippy::cast_possible_truncation, reason = "two hexadecimal digits")]
            decoded.push((high * 16 + low) as u8);
            rest = after;
        } else {
            decoded.push(*byte);
        }
    }
    decoded
}

type Pair<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

fn pairs_of<'py>(headers: &Bound<'py, PyAny>) -> PyResult<Vec<Pair<'py>>> {
    let pair = |pair: PyResult<Bound<'py, PyAny>>| {
        let pair = pair?;
        Ok((
            pair.get_item(0)?.extract::<Bound<'py, PyBytes>>()?,
            pair.get_item(1)?.extract::<Bound<'py, PyBytes>>()?,
        ))
    };
    headers.try_iter()?.map(pair).collect()
}

fn as_bytes<'a>(pairs: &'a [Pair<'_>]) -> Vec<serve::Header<'a>> {
    pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
}

/// The first frame of an answer; `headers` are pairs of bytes.
#[pyfunction]
pub(crate) fn _serve_head<'py>(
    py: Python<'py>,
    id: u32,
    status: u16,
    is_whole: bool,
    headers: &Bound<'py, PyAny>,
    body: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let pairs = pairs_of(headers)?;
    let headers = as_bytes(&pairs);
    let mut out = Vec::with_capacity(64 + 64 * headers.len() + body.len());
    serve::head(&mut out, id, status, is_whole, &headers, body);
    if out.len() > serve::FRAME_MAX {
        return Err(PyValueError::new_err("the headers of an answer are too long"));
    }
    Ok(PyBytes::new(py, &out))
}

/// A piece of an answer's body.
#[pyfunction]
pub(crate) fn _serve_piece<'py>(
    py: Python<'py>,
    id: u32,
    is_last: bool,
    data: &[u8],
) -> Bound<'py, PyBytes> {
    let mut out = Vec::with_capacity(16 + data.len());
    serve::piece(&mut out, id, is_last, data);
    PyBytes::new(py, &out)
}

/// The headers with which an answer of gRPC ends, pairs of bytes.
#[pyfunction]
pub(crate) fn _serve_trailers<'py>(
    py: Python<'py>,
    id: u32,
    headers: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let pairs = pairs_of(headers)?;
    let mut out = Vec::with_capacity(128);
    serve::trailers(&mut out, id, &as_bytes(&pairs));
    if out.len() > serve::FRAME_MAX {
        return Err(PyValueError::new_err("the trailers of an answer are too long"));
    }
    Ok(PyBytes::new(py, &out))
}

/// Tells how many bytes of a request's body have been taken.
#[pyfunction]
pub(crate) fn _serve_taken(py: Python<'_>, id: u32, bytes: u32) -> Bound<'_, PyBytes> {
    let mut out = Vec::with_capacity(16);
    serve::taken(&mut out, id, bytes);
    PyBytes::new(py, &out)
}

/// The answer is not to come, or not whole.
#[pyfunction]
pub(crate) fn _serve_break(py: Python<'_>, id: u32, is_refused: bool) -> Bound<'_, PyBytes> {
    let mut out = Vec::with_capacity(16);
    serve::bare(&mut out, if is_refused { serve::REFUSED } else { serve::BROKEN }, id);
    PyBytes::new(py, &out)
}

/// The rule by which replicas get calls: that of the ingress.
#[pyclass(module = "heliostat._heliostat")]
#[derive(Default)]
pub(crate) struct _ServeTurns(Turns);

#[pymethods]
impl _ServeTurns {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// The replica that gets the next call; `None` where none has room.
    fn pick<'py>(
        &mut self,
        replicas: &Bound<'py, PyList>,
        most: u32,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = replicas.py();
        let mut failed = None;
        let found = self.0.pick(replicas.len(), most, |place| {
            calls_of(py, replicas, place).unwrap_or_else(|error| {
                failed = Some(error);
                None
            })
        });
        match failed {
            Some(error) => Err(error),
            None => found.map(|place| replicas.get_item(place)).transpose(),
        }
    }
}

/// Returns the number of calls of a replica; `None` of one that is leaving.
fn calls_of(py: Python<'_>, replicas: &Bound<'_, PyList>, place: usize) -> PyResult<Option<u32>> {
    let replica = replicas.get_item(place)?;
    if replica.getattr(intern!(py, "is_leaving"))?.is_truthy()? {
        return Ok(None);
    }
    let calls = replica.getattr(intern!(py, "calls"))?.len()?;
    Ok(Some(u32::try_from(calls).unwrap_or(u32::MAX)))
}
