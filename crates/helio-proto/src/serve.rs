//! Between an ingress and a replica of Serve: many requests at a time over one stream.
//!
//! The ingress connects and sends [`greeting`]: the version and the cluster's token. Frames follow in both
//! directions: `u32` length of what follows, `u8` kind, `u32` number of the request, body. Numbers are the
//! ingress's; one is free again once both sides have sent their last frame of it, or after [`CANCEL`].
//!
//! Bodies travel in pieces of at most [`PIECE_MAX`]. A side may have sent [`WINDOW`] bytes of a request's
//! body that the other has not [`TAKEN`], so a slow reader holds up its own request only, and memory is
//! bounded by the number of requests.

use bytes::{Buf as _, BufMut, Bytes, BytesMut};

use crate::reader::{Malformed, Reader};

/// The first bytes of a connection; they change whenever a frame does.
const MAGIC: &[u8; 8] = b"HSERVE02";

/// Ingress → replica: a request begins. Body: [`Request`].
pub const REQUEST: u8 = 1;
/// A piece of a body, in either direction. Body: `u8` whether it is the last, then bytes.
pub const BODY: u8 = 2;
/// Ingress → replica: whoever asked has gone away.
pub const CANCEL: u8 = 3;
/// So many bytes of the body, a `u32`, have been taken, in either direction.
pub const TAKEN: u8 = 4;
/// Replica → ingress: an answer begins. Body: [`head`].
pub const HEAD: u8 = 5;
/// Replica → ingress: an answer that has begun ends here, incomplete.
pub const BROKEN: u8 = 6;
/// Replica → ingress: the replica is ending and has not begun the request.
pub const REFUSED: u8 = 7;

/// Replica → ingress: an answer ends, with these headers after its body. Body: headers.
pub const TRAILERS: u8 = 8;

/// The version of a [`Request`] that is a WebSocket's handshake, as the header has it.
pub const WEBSOCKET: u8 = 13;
/// The version of a [`Request`] that is a call of gRPC: its bodies are messages of gRPC, its answer ends with
/// [`TRAILERS`].
pub const GRPC: u8 = 50;

/// Bytes of a body that may be on their way.
pub const WINDOW: usize = 1 << 20;
/// The longest piece of a body.
pub const PIECE_MAX: usize = 256 << 10;
/// The longest frame.
pub const FRAME_MAX: usize = 1 << 20;

const PREFIX: usize = 4;
const HEADER: usize = 5;

/// The first bytes of a connection.
#[must_use]
pub fn greeting(token: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(MAGIC.len() + PREFIX + token.len());
    out.extend_from_slice(MAGIC);
    text(&mut out, token.as_bytes());
    out
}

/// A frame that has arrived.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// The kind of the frame, one of this module's constants.
    pub kind: u8,
    /// The ingress's number for the request that the frame belongs to.
    pub id: u32,
    /// The bytes after the header.
    pub body: &'a [u8],
}

/// Returns the first frame of `bytes` and the number of bytes that it takes; `None` while it is not
/// whole.
///
/// # Errors
/// When its length cannot be true.
pub fn split(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, Malformed> {
    let Some((length, rest)) = bytes.split_first_chunk::<PREFIX>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    // Nobody knows where the next frame begins after a false length, so this ends the connection.
    if !(HEADER..=FRAME_MAX).contains(&length) {
        return Err(Malformed);
    }
    let Some(frame) = rest.get(..length) else { return Ok(None) };
    let mut reader = Reader::new(frame);
    let (kind, id) = (reader.u8()?, reader.u32()?);
    Ok(Some((Frame { kind, id, body: reader.rest() }, PREFIX + length)))
}

/// Takes a frame off the front of a buffer without a copy.
///
/// # Errors
/// As [`split`].
pub fn take(buffer: &mut BytesMut) -> Result<Option<(u8, u32, Bytes)>, Malformed> {
    let Some((Frame { kind, id, .. }, length)) = split(buffer)? else { return Ok(None) };
    // The body keeps the memory that was read into: pieces go on to the client without a copy.
    let mut frame = buffer.split_to(length).freeze();
    frame.advance(PREFIX + HEADER);
    Ok(Some((kind, id, frame)))
}

/// A header's name and value.
pub type Header<'a> = (&'a [u8], &'a [u8]);

/// A request's head, as the ingress has read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Whether the whole body is in this frame.
    pub is_whole: bool,
    /// Whether the client's connection is encrypted.
    pub is_secure: bool,
    /// 10, 11 or 20, or [`WEBSOCKET`] or [`GRPC`].
    pub version: u8,
    /// `GET`.
    pub method: &'a [u8],
    /// The path as the client wrote it, without the query.
    pub path: &'a [u8],
    /// Without the question mark.
    pub query: &'a [u8],
    /// The prefix by which the application was found, empty for `/`.
    pub root: &'a [u8],
    /// The client's IP and port.
    pub client: (&'a [u8], u16),
    /// The ingress's.
    pub server: (&'a [u8], u16),
}

/// Appends a frame for a request; `headers` are lower case.
pub fn request(
    out: &mut impl BufMut,
    id: u32,
    request: &Request<'_>,
    headers: &[Header<'_>],
    body: &[u8],
) {
    let Request { method, path, query, root, client, server, .. } = *request;
    // The length stands first, and an `out` that is a chain of buffers cannot be corrected afterwards.
    let mut length = HEADER + 1 + 1 + 1 + 2 + 2 + body.len();
    for part in [method, path, query, root, client.0, server.0] {
        length += 4 + part.len();
    }
    begin(out, length + headers_length(headers), REQUEST, id);
    out.put_u8(u8::from(request.is_whole));
    out.put_u8(u8::from(request.is_secure));
    out.put_u8(request.version);
    for part in [method, path, query, root, client.0, server.0] {
        text(out, part);
    }
    out.put_u16_le(client.1);
    out.put_u16_le(server.1);
    put_headers(out, headers);
    out.put_slice(body);
}

/// Reads the body of a [`REQUEST`]: the head, the headers, and what has come of the request's body.
///
/// # Errors
/// When it is cut short.
pub fn read_request(body: &[u8]) -> Result<(Request<'_>, Headers<'_>, &[u8]), Malformed> {
    let mut reader = Reader::new(body);
    let (is_whole, is_secure) = (reader.u8()? != 0, reader.u8()? != 0);
    let version = reader.u8()?;
    let (method, path, query) = (reader.bytes()?, reader.bytes()?, reader.bytes()?);
    let (root, client, server) = (reader.bytes()?, reader.bytes()?, reader.bytes()?);
    let client = (client, reader.u16()?);
    let server = (server, reader.u16()?);
    let request =
        Request { is_whole, is_secure, version, method, path, query, root, client, server };
    let headers = Headers::read(&mut reader)?;
    Ok((request, headers, reader.rest()))
}

/// Appends the beginning of an answer; with `is_whole`, all of it.
pub fn head(
    out: &mut impl BufMut,
    id: u32,
    status: u16,
    is_whole: bool,
    headers: &[Header<'_>],
    body: &[u8],
) {
    let length = HEADER + 1 + 2 + headers_length(headers) + body.len();
    begin(out, length, HEAD, id);
    out.put_u8(u8::from(is_whole));
    out.put_u16_le(status);
    put_headers(out, headers);
    out.put_slice(body);
}

/// Reads the body of a [`HEAD`]: whether it is whole, the status, the headers; the rest is the answer's body.
///
/// # Errors
/// When it is cut short.
pub fn read_head(body: &[u8]) -> Result<(bool, u16, Headers<'_>, &[u8]), Malformed> {
    let mut reader = Reader::new(body);
    let (is_whole, status) = (reader.u8()? != 0, reader.u16()?);
    let headers = Headers::read(&mut reader)?;
    Ok((is_whole, status, headers, reader.rest()))
}

/// Appends a piece of a body, of at most [`PIECE_MAX`] bytes.
pub fn piece(out: &mut impl BufMut, id: u32, is_last: bool, data: &[u8]) {
    begin(out, HEADER + 1 + data.len(), BODY, id);
    out.put_u8(u8::from(is_last));
    out.put_slice(data);
}

/// Appends [`TRAILERS`].
pub fn trailers(out: &mut impl BufMut, id: u32, headers: &[Header<'_>]) {
    begin(out, HEADER + headers_length(headers), TRAILERS, id);
    put_headers(out, headers);
}

/// Reads the body of [`TRAILERS`].
///
/// # Errors
/// When it is cut short.
pub fn read_trailers(body: &[u8]) -> Result<Headers<'_>, Malformed> {
    Headers::read(&mut Reader::new(body))
}

/// Appends a [`TAKEN`].
pub fn taken(out: &mut impl BufMut, id: u32, bytes: u32) {
    begin(out, HEADER + 4, TAKEN, id);
    out.put_u32_le(bytes);
}

/// Appends a frame without a body.
pub fn bare(out: &mut impl BufMut, kind: u8, id: u32) {
    begin(out, HEADER, kind, id);
}

/// The headers within a frame.
#[derive(Debug, Clone, Copy)]
pub struct Headers<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Headers<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        // A name and a value have a length each. All are walked here, so that a cut header is refused before any is
        // used.
        let count = reader.count(8)?;
        let bytes = reader.rest();
        for _ in 0..2 * count {
            reader.bytes()?;
        }
        Ok(Self { count, bytes })
    }

    /// Names and values, in order.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut reader = Reader::new(self.bytes);
        // All of them have been read once, by `read`.
        (0..self.count).map_while(move |_| Some((reader.bytes().ok()?, reader.bytes().ok()?)))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "it is checked")]
fn begin(out: &mut impl BufMut, length: usize, kind: u8, id: u32) {
    assert!(length <= u32::MAX as usize, "a request would be announced as a shorter one");
    out.put_u32_le(length as u32);
    out.put_u8(kind);
    out.put_u32_le(id);
}

#[expect(clippy::cast_possible_truncation, reason = "it is checked")]
fn text(out: &mut impl BufMut, bytes: &[u8]) {
    assert!(
        bytes.len() <= u32::MAX as usize,
        "a name or value would be read back as a shorter one"
    );
    out.put_u32_le(bytes.len() as u32);
    out.put_slice(bytes);
}

fn headers_length(headers: &[Header<'_>]) -> usize {
    headers.iter().map(|(name, value)| 8 + name.len() + value.len()).sum::<usize>() + 4
}

#[expect(clippy::cast_possible_truncation, reason = "frames are bounded by FRAME_MAX")]
fn put_headers(out: &mut impl BufMut, headers: &[Header<'_>]) {
    out.put_u32_le(headers.len() as u32);
    for (name, value) in headers {
        text(out, name);
        text(out, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADERS: [Header<'static>; 2] = [(b"host", b"a"), (b"x", b"")];

    #[test]
    fn a_request_comes_back() {
        let given = Request {
            is_whole: true,
            is_secure: true,
            version: 11,
            method: b"POST",
            path: b"/a%20b",
            query: b"n=1",
            root: b"/a",
            client: (b"127.0.0.1", 5),
            server: (b"::1", 8000),
        };
        let mut out = Vec::new();
        request(&mut out, 7, &given, &HEADERS, b"body");
        let (frame, length) = split(&out).unwrap().unwrap();
        assert_eq!((frame.kind, frame.id, length), (REQUEST, 7, out.len()));
        let (read, headers, body) = read_request(frame.body).unwrap();
        assert_eq!((read, body), (given, &b"body"[..]));
        assert!(headers.iter().eq(HEADERS));
    }

    #[test]
    fn an_answer_comes_back_in_any_pieces() {
        let mut out = Vec::new();
        head(&mut out, 1, 200, false, &HEADERS, b"one");
        piece(&mut out, 1, true, b"two");
        trailers(&mut out, 1, &HEADERS);
        taken(&mut out, 2, 9);
        bare(&mut out, REFUSED, 3);
        let mut buffer = BytesMut::new();
        let mut seen = Vec::new();
        for byte in out {
            buffer.put_u8(byte);
            while let Some((kind, id, body)) = take(&mut buffer).unwrap() {
                seen.push((kind, id, body));
            }
        }
        assert_eq!(
            seen.iter().map(|(k, i, _)| (*k, *i)).collect::<Vec<_>>(),
            [(HEAD, 1), (BODY, 1), (TRAILERS, 1), (TAKEN, 2), (REFUSED, 3)]
        );
        let (is_whole, status, headers, body) = read_head(&seen[0].2).unwrap();
        assert_eq!((is_whole, status, body), (false, 200, &b"one"[..]));
        assert!(headers.iter().eq(HEADERS));
        assert_eq!(&seen[1].2[..], b"\x01two");
        assert!(read_trailers(&seen[2].2).unwrap().iter().eq(HEADERS));
    }

    #[test]
    fn lengths_that_cannot_be_true_are_refused() {
        assert!(split(&u32::MAX.to_le_bytes()).is_err());
        assert!(split(&[0; 9]).is_err());
        let mut out = Vec::new();
        head(&mut out, 1, 200, true, &HEADERS, b"");
        for cut in 0..out.len() - 9 {
            // A frame that ends early is malformed or has fewer bytes of body, never more than there are.
            let _ = read_head(&out[9..9 + cut]);
        }
        assert!(read_head(&out[9..14]).is_err());
    }
}
